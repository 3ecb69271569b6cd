"""Linear algebra: decompositions, solvers, norms."""

from flambeau import _C

_PREFIX = "linalg_"
globals().update(
    (name.removeprefix(_PREFIX), function)
    for name, function in vars(_C._linalg).items()
    if not name.startswith("__")
)
matmul = _C._VariableFunctions.matmul
__all__ = sorted(
    name.removeprefix(_PREFIX)
    for name in [*vars(_C._linalg), "matmul"]
    if not name.startswith("__")
)
LinAlgError = _C._LinAlgError
