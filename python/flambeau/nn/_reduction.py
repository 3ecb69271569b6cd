"""How a loss is reduced: from names, and from two older flags, to the operators' numbers."""

import warnings


class _Reductions(dict):
    def __missing__(self, name):
        if name == "elementwise_mean":
            warnings.warn("reduction='elementwise_mean' is deprecated, use 'mean'", stacklevel=3)
            return 1
        raise ValueError(f"{name} is not a valid value for reduction")


NUMBER = _Reductions(none=0, mean=1, sum=2)


def get_enum(reduction) -> int:
    """0, 1 or 2 for "none", "mean" or "sum"."""
    return NUMBER[reduction]


def legacy_get_string(size_average, reduce, emit_warning=True) -> str:
    """The name for the old flags `size_average` and `reduce`, both true by default."""
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    name = "none" if not reduce else "mean" if size_average else "sum"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce are deprecated, use reduction='{name}'", stacklevel=3
        )
    return name


def legacy_get_enum(size_average, reduce, emit_warning=True) -> int:
    """`legacy_get_string` as a number."""
    return NUMBER[legacy_get_string(size_average, reduce, emit_warning)]
