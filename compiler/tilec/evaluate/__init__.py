"""The Python around kernels, run symbolically: values, calls, instances, tile programs. May import: source, ir, language."""
