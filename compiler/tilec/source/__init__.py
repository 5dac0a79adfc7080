"""Text of user files: spans, tolerant parsing, directives in comments. May import: the standard library only."""
