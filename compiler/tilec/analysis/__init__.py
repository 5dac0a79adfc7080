"""Facts about tile programs (layouts, liveness, dependences) for passes. May import: source, ir, target."""
