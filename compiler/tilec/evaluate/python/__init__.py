"""Models of the Python and torch names that code around kernels uses."""
