"""What a call does, as a list of ops that runs again on other inputs: flambeau._record."""

import operator

from flambeau import _C, Size, Tensor
from flambeau.utils._pytree import tree_flatten, tree_unflatten

_ADD, _SUB, _MUL, _FLOORDIV, _MOD = range(2, 7)
_EQ, _LT, _LE = range(3)
_active = False


class SymInt(int):
    """A size met while recording: an int that knows how a replay finds it again.

    Sums, differences, products, `//` and `%` with ints stay such sizes; a comparison becomes a condition of the
    recording. Whatever else is done with it takes the plain number.
    """

    def __new__(cls, value, symbol):
        self = super().__new__(cls, value)
        self._symbol = symbol
        return self

    __hash__ = int.__hash__


def _symbol_of(value):
    return value._symbol if isinstance(value, SymInt) else _C._record_symbol(0, value, 0)


def _join(kind, plain):
    def forward(a, b):
        if not isinstance(a, int) or not isinstance(b, int):
            return NotImplemented
        value = plain(int(a), int(b))
        if not _active:
            return value
        return SymInt(value, _C._record_symbol(kind, _symbol_of(a), _symbol_of(b)))

    return forward, lambda self, other: forward(other, self)


def _compare(kind, plain, swapped=False, negated=False):
    def method(self, other):
        if not isinstance(other, int):
            return NotImplemented
        answer = plain(int(self), int(other))
        if _active:
            a, b = (other, self) if swapped else (self, other)
            _C._record_guard(kind, _symbol_of(a), _symbol_of(b), answer != negated)
        return answer

    return method


SymInt.__add__, SymInt.__radd__ = _join(_ADD, operator.add)
SymInt.__sub__, SymInt.__rsub__ = _join(_SUB, operator.sub)
SymInt.__mul__, SymInt.__rmul__ = _join(_MUL, operator.mul)
SymInt.__floordiv__, SymInt.__rfloordiv__ = _join(_FLOORDIV, operator.floordiv)
SymInt.__mod__, SymInt.__rmod__ = _join(_MOD, operator.mod)
SymInt.__eq__ = _compare(_EQ, operator.eq)
SymInt.__ne__ = _compare(_EQ, operator.ne, negated=True)
SymInt.__lt__ = _compare(_LT, operator.lt)
SymInt.__gt__ = _compare(_LT, operator.gt, swapped=True)
SymInt.__le__ = _compare(_LE, operator.le)
SymInt.__ge__ = _compare(_LE, operator.ge, swapped=True)


def _shape_of(tensor, sizes):
    return Size([SymInt(n, _C._record_size(tensor, d)) for d, n in enumerate(sizes)])


class Recording:
    """A recorded call. `str()` shows its ops; calling it runs them on other inputs, of other sizes if need be.

    Inputs and results are the recorded call's: nested containers of tensors. Tensors that the code found elsewhere
    (parameters) are used as they are now. Numbers that the code read from tensors, and comparisons of sizes, are
    conditions: RuntimeError where a replay finds others.
    """

    def __init__(self, graph, in_spec, leaves, out_spec):
        self._graph, self._in_spec, self._leaves, self._out_spec = graph, in_spec, leaves, out_spec

    def __str__(self):
        return _C._record_text(self._graph)

    def __call__(self, *args):
        leaves, spec = tree_flatten(args)
        if spec != self._in_spec:
            raise TypeError(f"recording: was made with {self._in_spec}, called with {spec}")
        tensors, sizes = map(iter, _C._record_replay(self._graph, _tensors(leaves)))
        kinds = {Tensor: tensors, SymInt: sizes}
        results = [next(kinds[kind]) if kind in kinds else value for kind, value in self._leaves]
        return tree_unflatten(results, self._out_spec)


def _tensors(leaves):
    return [x for x in leaves if isinstance(x, Tensor)]


def _record(f, *args):
    """Calls f(*args) and returns a Recording of the ops it ran.

    Sizes that the code takes from tensors stay symbolic, so that the recording fits inputs of other sizes. Raises
    NotImplementedError for out=, for backward() inside of f and for tensors that share memory without an op (.data).

    Example:
        >>> double = flambeau._record(lambda x: x.reshape(x.shape[0] * 2, -1) + 1, flambeau.zeros(2, 4))
        >>> double(flambeau.ones(3, 2))
        tensor([[2.],
                [2.],
                [2.],
                [2.],
                [2.],
                [2.]])
    """
    global _active
    leaves, in_spec = tree_flatten(args)
    _C._record_start(_tensors(leaves), _shape_of)
    _active = True
    graph = None
    try:
        results, out_spec = tree_flatten(f(*args))
        sizes = [x._symbol for x in results if isinstance(x, SymInt)]
        graph = _C._record_finish(_tensors(results), sizes)
    finally:
        _active = False
        if graph is None:
            _C._record_finish(None, [])
    kinds = [
        (Tensor, None) if isinstance(x, Tensor) else (type(x), x if type(x) is not SymInt else None)
        for x in results
    ]
    return Recording(graph, in_spec, kinds, out_spec)
