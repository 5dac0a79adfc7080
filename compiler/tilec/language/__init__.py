"""The T surface: what each name is and how a call of it is bound. May import: source, ir."""
