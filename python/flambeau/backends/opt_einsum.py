"""The order in which einsum contracts."""

enabled, strategy = False, None


def is_available() -> bool:
    return False


def get_opt_einsum():
    return None
