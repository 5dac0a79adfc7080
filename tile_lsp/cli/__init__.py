"""One file a command; rendering with rich. May import: ide, releases, workers, tilec."""
