"""What a chip can do, as data; detection of toolkits and GPUs. May import: the standard library only."""
