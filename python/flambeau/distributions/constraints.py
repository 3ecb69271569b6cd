"""Regions that parameters and values of distributions must lie in."""

import flambeau

__all__ = [
    "Constraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "MixtureSameFamilyConstraint",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A region; `check(value)` says per event whether a value lies in it.

    `event_dim` is how many dims of a value make one event, `is_discrete` whether the region is countable.
    """

    is_discrete = False
    event_dim = 0

    def check(self, value):
        raise NotImplementedError

    def __repr__(self):
        return self.__class__.__name__[1:] + "()"


class _Dependent(Constraint):
    """A region that depends on other values, so that nothing can be checked."""

    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim
        super().__init__()

    @property
    def is_discrete(self):
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self):
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        """The same with more known of it."""
        known = (
            old if new is NotImplemented else new
            for new, old in ((is_discrete, self._is_discrete), (event_dim, self._event_dim))
        )
        return _Dependent(**dict(zip(("is_discrete", "event_dim"), known)))

    def check(self, x):
        raise ValueError("dependent: a region that depends on other values cannot be checked")


def is_dependent(constraint):
    """Does the region depend on other values?"""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property that gives the region of an object; on the class it is a dependent one."""

    def __init__(self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn):
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """Takes the innermost dims of another region together as one event."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        if not isinstance(base_constraint, Constraint) or reinterpreted_batch_ndims < 0:
            raise ValueError(
                f"independent: got {base_constraint!r} and {reinterpreted_batch_ndims} dims"
            )
        self.base_constraint, self.reinterpreted_batch_ndims = (
            base_constraint,
            reinterpreted_batch_ndims,
        )
        super().__init__()

    @property
    def is_discrete(self):
        return self.base_constraint.is_discrete

    @property
    def event_dim(self):
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value):
        result = self.base_constraint.check(value)
        if result.dim() < self.reinterpreted_batch_ndims:
            wanted = self.base_constraint.event_dim + self.reinterpreted_batch_ndims
            raise ValueError(f"Expected value.dim() >= {wanted} but got {value.dim()}")
        kept = result.dim() - self.reinterpreted_batch_ndims
        return result.reshape(result.shape[:kept] + (-1,)).all(-1)

    def __repr__(self):
        return (
            f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"
        )


class MixtureSameFamilyConstraint(Constraint):
    """The region of a mixture: every value lies in the region of its component."""

    def __init__(self, base_constraint):
        if not isinstance(base_constraint, Constraint):
            raise TypeError(f"base_constraint must be a Constraint, got {base_constraint!r}")
        self.base_constraint = base_constraint
        super().__init__()

    @property
    def is_discrete(self):
        return self.base_constraint.is_discrete

    @property
    def event_dim(self):
        return self.base_constraint.event_dim

    def check(self, value):
        event = self.base_constraint.event_dim
        per_component = self.base_constraint.check(value.unsqueeze(-1 - event))
        kept = per_component.dim() - self.event_dim
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {event} but got {value.dim()}")
        return per_component.reshape(per_component.shape[:kept] + (-1,)).all(-1)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value):
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value):
        return ((value == 0) | (value == 1)).all(-1) & value.sum(-1).eq(1)


def _bounded(name, bounds, test, discrete=False):
    """A region between bounds, each with the name of its argument."""

    def init(self, *given):
        if len(given) != len(bounds):
            raise TypeError(f"{name[1:]}: takes {', '.join(bounds)}, got {len(given)} values")
        for bound, value in zip(bounds, given):
            setattr(self, bound, value)
        Constraint.__init__(self)

    def check(self, value):
        return test(value, *(getattr(self, bound) for bound in bounds))

    def shown(self):
        return f"{name[1:]}({', '.join(f'{b}={getattr(self, b)}' for b in bounds)})"

    body = {"__init__": init, "check": check, "__repr__": shown, "is_discrete": discrete}
    return type(name, (Constraint,), {**body, "__module__": __name__})


_LOW, _HIGH = ("lower_bound",), ("upper_bound",)
_IntegerInterval = _bounded(
    "_IntegerInterval", _LOW + _HIGH, lambda v, a, b: (v % 1 == 0) & (a <= v) & (v <= b), True
)
_IntegerLessThan = _bounded("_IntegerLessThan", _HIGH, lambda v, b: (v % 1 == 0) & (v <= b), True)
_IntegerGreaterThan = _bounded(
    "_IntegerGreaterThan", _LOW, lambda v, a: (v % 1 == 0) & (v >= a), True
)
_GreaterThan = _bounded("_GreaterThan", _LOW, lambda v, a: a < v)
_GreaterThanEq = _bounded("_GreaterThanEq", _LOW, lambda v, a: a <= v)
_LessThan = _bounded("_LessThan", _HIGH, lambda v, b: v < b)
_Interval = _bounded("_Interval", _LOW + _HIGH, lambda v, a, b: (a <= v) & (v <= b))
_HalfOpenInterval = _bounded("_HalfOpenInterval", _LOW + _HIGH, lambda v, a, b: (a <= v) & (v < b))


class _Real(Constraint):
    def check(self, value):
        return value == value  # False for NaN


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value):
        return flambeau.all(value >= 0, dim=-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, x):
        return (x >= 0).all(dim=-1) & (x.sum(dim=-1) <= self.upper_bound)


def _rows(matrix):
    """Whether all elements of each matrix hold."""
    return matrix.reshape(matrix.shape[:-2] + (-1,)).all(-1)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value):
        return _rows(value.tril() == value)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value):
        return _rows(value.tril() == value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    event_dim = 2

    def check(self, value):
        tolerance = flambeau.finfo(value.dtype).eps * value.size(-1) * 10
        unit = (value.square().sum(-1).sqrt() - 1).abs().le(tolerance).all(-1)
        return _LowerCholesky().check(value) & unit


class _Square(Constraint):
    event_dim = 2

    def check(self, value):
        return flambeau.full(
            value.shape[:-2],
            value.shape[-2] == value.shape[-1],
            dtype=flambeau.bool,
            device=value.device,
        )


class _Symmetric(_Square):
    def check(self, value):
        square = super().check(value)
        return (
            square
            if not square.all()
            else flambeau.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)
        )


class _PositiveSemidefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        return symmetric if not symmetric.all() else flambeau.linalg.eigvalsh(value).ge(0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        return symmetric if not symmetric.all() else flambeau.linalg.cholesky_ex(value).info.eq(0)


class _Parts(Constraint):
    """A region for each part of a value along `dim`."""

    def __init__(self, cseq, dim=0):
        if not all(isinstance(c, Constraint) for c in cseq):
            raise ValueError(
                f"{type(self).__name__[1:].lower()}: all parts must be constraints, got {cseq}"
            )
        self.cseq, self.dim = list(cseq), dim
        super().__init__()

    @property
    def is_discrete(self):
        return any(c.is_discrete for c in self.cseq)


class _Cat(_Parts):
    def __init__(self, cseq, dim=0, lengths=None):
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise ValueError(
                f"cat: {len(self.cseq)} constraints need as many lengths, got {len(self.lengths)}"
            )

    @property
    def event_dim(self):
        return max(c.event_dim for c in self.cseq)

    def check(self, value):
        if not -value.dim() <= self.dim < value.dim():
            raise ValueError(
                f"cat: dim {self.dim} is out of range for a value of {value.dim()} dims"
            )
        parts = value.split(self.lengths, self.dim)
        return flambeau.cat([c.check(part) for c, part in zip(self.cseq, parts)], self.dim)


class _Stack(_Parts):
    @property
    def event_dim(self):
        inner = max(c.event_dim for c in self.cseq)
        return inner + 1 if self.dim + inner < 0 else inner

    def check(self, value):
        if not -value.dim() <= self.dim < value.dim():
            raise ValueError(
                f"stack: dim {self.dim} is out of range for a value of {value.dim()} dims"
            )
        parts = value.unbind(self.dim)
        return flambeau.stack([c.check(part) for c, part in zip(self.cseq, parts)], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
