"""The TileLang language itself: what its names do while a kernel is traced into a tile program."""
