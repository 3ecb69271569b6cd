"""Maps of values that consist of parts, each with a map of its own."""

import functools
import operator

import flambeau
from flambeau.distributions import constraints
from flambeau.distributions.transforms import Transform, _sum_rightmost


class _Parts(Transform):
    """A map for each part of a value along `dim`."""

    def __init__(self, tseq, dim=0, cache_size=0):
        if not all(isinstance(t, Transform) for t in tseq):
            raise ValueError(f"{type(self).__name__}: all parts must be transforms, got {tseq}")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    def _check(self, value):
        if not -value.dim() <= self.dim < value.dim():
            raise ValueError(
                f"{type(self).__name__}: dim {self.dim} is out of range for {value.dim()} dims"
            )

    @property
    def bijective(self):
        return all(t.bijective for t in self.transforms)

    def _call(self, x):
        return self._joined([t(part) for t, part in zip(self.transforms, self._split(x))])

    def _inverse(self, y):
        return self._joined([t.inv(part) for t, part in zip(self.transforms, self._split(y))])


class CatTransform(_Parts):
    """Maps of pieces that follow each other along a dim, of the given lengths."""

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ValueError(
                f"CatTransform: {len(self.transforms)} parts need as many lengths, got {self.lengths}"
            )

    @property
    def event_dim(self):
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self):
        return sum(self.lengths)

    def _split(self, x):
        self._check(x)
        if x.size(self.dim) != self.length:
            raise ValueError(
                f"CatTransform: dim {self.dim} must have size {self.length}, got {x.size(self.dim)}"
            )
        return x.split(self.lengths, self.dim)

    def _joined(self, parts):
        return flambeau.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x, y):
        terms = []
        for t, a, b in zip(self.transforms, self._split(x), self._split(y)):
            terms.append(_sum_rightmost(t.log_abs_det_jacobian(a, b), self.event_dim - t.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        if dim < 0:
            return flambeau.cat(terms, dim=dim)
        return functools.reduce(operator.add, terms)

    @constraints.dependent_property
    def domain(self):
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self):
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Parts):
    """Maps of the slices along a dim."""

    def _split(self, x):
        self._check(x)
        if x.size(self.dim) != len(self.transforms):
            raise ValueError(
                f"StackTransform: dim {self.dim} must have size {len(self.transforms)}"
            )
        return x.unbind(self.dim)

    def _joined(self, parts):
        return flambeau.stack(parts, self.dim)

    def log_abs_det_jacobian(self, x, y):
        parts = zip(self.transforms, self._split(x), self._split(y))
        return flambeau.stack([t.log_abs_det_jacobian(a, b) for t, a, b in parts], dim=self.dim)

    @constraints.dependent_property
    def domain(self):
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self):
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
