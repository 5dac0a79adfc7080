"""Short names for texts."""
from __future__ import annotations


def digest(text: str) -> str:
    """The same text has the same digest, in hexadecimal."""
    import hashlib  # loads OpenSSL: not at the server's start

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
