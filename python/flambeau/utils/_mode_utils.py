"""Small helpers of those who write modes."""

from flambeau.utils._python_dispatch import _disable_current_modes as no_dispatch  # noqa: F401


def all_same_mode(modes) -> bool:
    """Are they all one mode?"""
    return all(mode == modes[0] for mode in modes)
