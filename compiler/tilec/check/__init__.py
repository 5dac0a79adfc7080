"""Rules over tile programs; diagnostics as values. May import: source, ir, language, evaluate, target."""
