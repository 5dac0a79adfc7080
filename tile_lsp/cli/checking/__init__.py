"""The parts of ``tile-lsp check``: which files, with what settings, from the cache or checked by worker processes, and fixes.
Only ``single`` (and what it uses) loads the evaluator. May import: ide, releases, tilec."""
