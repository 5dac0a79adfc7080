"""nvcc and ptxas, resource facts, the on-disk cache. May import: source, ir, target."""
