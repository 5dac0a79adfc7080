"""The language server and command line `tile-lsp` on top of tilec."""
