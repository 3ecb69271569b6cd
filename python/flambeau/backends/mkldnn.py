"""oneDNN: not used by this library."""


def is_available() -> bool:
    return False


enabled, deterministic, allow_tf32 = True, False, True
