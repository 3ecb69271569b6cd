"""torch._foreach_*: one op on each of several tensors; the second operand is one number, or one for each tensor.

Each is a loop over the op of that name: the functions exist for programs that call them.
"""

import itertools

from flambeau import _C

_BINARY = "add clamp_max clamp_min div maximum minimum mul pow sub"
_UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round "
    "rsqrt sigmoid sign sin sinh sqrt tan tanh trunc zero"
)
_TERNARY = "addcdiv addcmul lerp"


def _each(value, count, name):
    """`value` once for each tensor; a list must have as many elements."""
    if not isinstance(value, (list, tuple)):
        return itertools.repeat(value, count)
    if len(value) != count:
        raise RuntimeError(f"{name}: lists must be of one length, got {count} and {len(value)}")
    return value


def _function(op, in_place):
    name = f"_foreach_{op}" + ("_" if in_place else "")
    method = getattr(_C.Tensor, op + "_" if in_place else op)

    def function(self, *others, **kwargs):
        if not self:
            raise RuntimeError(f"{name}: at least one tensor is needed, got none")
        columns = [_each(other, len(self), name) for other in others]
        results = [method(*row, **kwargs) for row in zip(self, *columns)]
        return None if in_place else results

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Tensor.{op}{'_' if in_place else ''} of each tensor."
    return function


for _op in f"{_BINARY} {_UNARY} {_TERNARY}".split():
    for _in_place in (False, True):
        if hasattr(_C.Tensor, _op + "_" if _in_place else _op):
            _made = _function(_op, _in_place)
            globals()[_made.__name__] = _made
del _op, _in_place, _made
