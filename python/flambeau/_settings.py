"""Global settings that change how ops are chosen: determinism, precision of products, warnings."""

__all__ = [
    "are_deterministic_algorithms_enabled",
    "compiled_with_cxx11_abi",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_warn_always",
    "use_deterministic_algorithms",
]

_state = {"deterministic": False, "warn_only": False, "precision": "highest", "warn_always": False}


def use_deterministic_algorithms(mode, *, warn_only=False) -> None:
    """Asks for the same results in every run. Every op here has that property on the CPU already."""
    _state.update(deterministic=bool(mode), warn_only=bool(warn_only))


def are_deterministic_algorithms_enabled() -> bool:
    return _state["deterministic"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    return _state["warn_only"]


def set_deterministic_debug_mode(debug_mode) -> None:
    """use_deterministic_algorithms by level: 0 "default", 1 "warn", 2 "error"."""
    levels = {"default": 0, "warn": 1, "error": 2}
    level = levels.get(debug_mode, debug_mode)
    if level not in (0, 1, 2):
        raise RuntimeError(
            f"set_deterministic_debug_mode: must be one of {sorted(levels)} or 0, 1, 2, got {debug_mode!r}"
        )
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    return 0 if not _state["deterministic"] else 1 if _state["warn_only"] else 2


def set_float32_matmul_precision(precision) -> None:
    """How much of float32 a device may drop in matrix products; the CPU keeps all of it."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(
            f"set_float32_matmul_precision: must be 'highest', 'high' or 'medium', got {precision!r}"
        )
    _state["precision"] = precision


def get_float32_matmul_precision() -> str:
    return _state["precision"]


def set_warn_always(b, /) -> None:
    """Shows every warning each time instead of once."""
    _state["warn_always"] = bool(b)


def is_warn_always_enabled() -> bool:
    return _state["warn_always"]


def compiled_with_cxx11_abi() -> bool:
    return True
