"""Program rules, one file a family. A file registers its rules when it is imported."""
