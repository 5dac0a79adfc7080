"""Questions about a document answered in plain data, no LSP types. May import: tilec, releases, workers."""
