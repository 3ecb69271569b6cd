"""cuSPARSELt: not used by this library."""


def is_available() -> bool:
    return False
