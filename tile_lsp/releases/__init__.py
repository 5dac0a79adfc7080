"""TileLang versions: manifests, and finding the user's TileLang without importing it. May import: the standard
library only."""
