"""Apple GPUs: none can be used."""


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def manual_seed(seed) -> None:
    """Nothing to seed."""


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Nothing to free."""
