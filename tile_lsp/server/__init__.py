"""pygls wiring: sessions, conversion to protocol types; one file a request kind. May import: ide."""
