"""``tilelang.math``: whole-number helpers."""


def next_power_of_2(x: int) -> int:
    """The smallest power of two that is at least x."""
    return 1 << max(x - 1, 0).bit_length()


def cdiv(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)
