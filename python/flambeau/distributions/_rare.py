"""Distributions that are seldom met: continuous Bernoulli, generalized Pareto, von Mises."""

import math

import flambeau
from flambeau import inf
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution, ExponentialFamily
from flambeau.distributions.utils import (
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from flambeau.nn import functional as F

__all__ = ["ContinuousBernoulli", "GeneralizedPareto", "VonMises"]


class ContinuousBernoulli(ExponentialFamily):
    """Numbers in [0, 1] with a density in proportion to probs ** x * (1 - probs) ** (1 - x).

    Source: Loaiza-Ganem and Cunningham, 2019. Near probs = 0.5, between `lims`, a Taylor series stands in.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = {"probs": 0, "logits": 0}

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is not None:
            self._given = "probs"
            (probs,) = broadcast_all(probs)
            checked = self._validate_args if validate_args is None else validate_args
            if checked and not bool(constraints.unit_interval.check(probs).all()):
                raise ValueError(f"The parameter probs has invalid values: {probs}")
            self.probs = clamp_probs(probs)
        else:
            self._given = "logits"
            (self.logits,) = broadcast_all(logits)
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    def _expand_rest(self, new, shape):
        new._given, new._lims = self._given, self._lims

    @property
    def _param(self):
        return self.__dict__[self._given]

    @property
    def param_shape(self):
        return self._param.size()

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside(self):
        """Where the formula holds its digits."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut(self):
        return flambeau.where(
            self._outside(), self.probs, self._lims[0] * flambeau.ones_like(self.probs)
        )

    def _log_norm(self):
        p, x = self._cut(), (self.probs - 0.5).pow(2)
        below = flambeau.where(p <= 0.5, p, flambeau.zeros_like(p))
        above = flambeau.where(p >= 0.5, p, flambeau.ones_like(p))
        exact = flambeau.log((flambeau.log1p(-p) - flambeau.log(p)).abs()) - flambeau.where(
            p <= 0.5, flambeau.log1p(-2.0 * below), flambeau.log(2.0 * above - 1.0)
        )
        return flambeau.where(
            self._outside(), exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        )

    @property
    def mean(self):
        p, x = self._cut(), self.probs - 0.5
        exact = p / (2.0 * p - 1.0) + 1.0 / (flambeau.log1p(-p) - flambeau.log(p))
        return flambeau.where(
            self._outside(), exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x
        )

    stddev = property(lambda self: flambeau.sqrt(self.variance))

    @property
    def variance(self):
        p, x = self._cut(), (self.probs - 0.5).pow(2)
        odds = (flambeau.log1p(-p) - flambeau.log(p)).pow(2)
        exact = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / odds
        return flambeau.where(
            self._outside(), exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        )

    def _uniform(self, sample_shape):
        return flambeau.rand(
            self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device
        )

    def sample(self, sample_shape=()):
        with flambeau.no_grad():
            return self.icdf(self._uniform(sample_shape))

    def rsample(self, sample_shape=()):
        return self.icdf(self._uniform(sample_shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return (
            -F.binary_cross_entropy_with_logits(logits, value, reduction="none") + self._log_norm()
        )

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        p = self._cut()
        exact = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inner = flambeau.where(self._outside(), exact, value)
        inner = flambeau.where(value <= 0.0, flambeau.zeros_like(value), inner)
        return flambeau.where(value >= 1.0, flambeau.ones_like(value), inner)

    def icdf(self, value):
        p = self._cut()
        exact = (flambeau.log1p(-p + value * (2.0 * p - 1.0)) - flambeau.log1p(-p)) / (
            flambeau.log(p) - flambeau.log1p(-p)
        )
        return flambeau.where(self._outside(), exact, value)

    def entropy(self):
        low, high = flambeau.log1p(-self.probs), flambeau.log(self.probs)
        return self.mean * (low - high) - self._log_norm() - low

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = flambeau.where(outside, x, (self._lims[0] - 0.5) * flambeau.ones_like(x))
        exact = flambeau.log(flambeau.special.expm1(cut).abs()) - flambeau.log(cut.abs())
        return flambeau.where(outside, exact, 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0)


class GeneralizedPareto(Distribution):
    """Excesses over a threshold `loc`: tails of index `concentration`, exponential where it is zero."""

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _parameters = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, flambeau.where(self.concentration < 0, end, inf))

    def _flat(self):
        return flambeau.isclose(self.concentration, flambeau.zeros_like(self.concentration))

    def _safe(self):
        return flambeau.where(
            self._flat(), flambeau.ones_like(self.concentration), self.concentration
        )

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        return self.icdf(flambeau.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        y, k = (value - self.loc) / self.scale, self._safe()
        curved = -(1 + 1 / k) * flambeau.log1p(k * y)
        return flambeau.where(self._flat(), -y, curved) - flambeau.log(self.scale)

    def log_survival_function(self, value):
        if self._validate_args:
            self._validate_sample(value)
        y, k = (value - self.loc) / self.scale, self._safe()
        return flambeau.where(self._flat(), -y, -flambeau.log1p(k * y) / k)

    def cdf(self, value):
        return 1 - flambeau.exp(self.log_survival_function(value))

    def log_cdf(self, value):
        return flambeau.log1p(-flambeau.exp(self.log_survival_function(value)))

    def icdf(self, value):
        k, left = self._safe(), flambeau.log1p(-value)
        return self.loc + self.scale * flambeau.where(
            self._flat(), -left, flambeau.expm1(-k * left) / k
        )

    @property
    def mean(self):
        return flambeau.where(
            self.concentration < 1, self.loc + self.scale / (1 - self.concentration), inf
        )

    @property
    def variance(self):
        k = self.concentration
        return flambeau.where(k < 0.5, self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k)), inf)

    def entropy(self):
        return (flambeau.log(self.scale) + self.concentration + 1).expand(self._batch_shape)

    mode = property(lambda self: self.loc)


def _log_bessel(x, order):
    """log I0(x) or log I1(x) for x >= 0: I(x) = exp(x) * Ie(x)."""
    scaled = flambeau.special.i0e(x) if order == 0 else flambeau.special.i1e(x)
    return x + scaled.log()


class VonMises(Distribution):
    """Angles around `loc`, the denser the larger `concentration`. Samples by rejection (Best and Fisher 1979)."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc, concentration, validate_args=None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        if _instance is not None:
            raise NotImplementedError("VonMises.expand: of a subclass")
        loc, concentration = self.loc.expand(batch_shape), self.concentration.expand(batch_shape)
        return type(self)(loc, concentration, validate_args=self._validate_args)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        height = self.concentration * flambeau.cos(value - self.loc)
        return height - math.log(2 * math.pi) - _log_bessel(self.concentration, 0)

    @lazy_property
    def _proposal_r(self):
        kappa = self.concentration.double()
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        # Small concentrations lose all digits there.
        return flambeau.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape=()):
        with flambeau.no_grad():
            shape = self._extended_shape(sample_shape)
            kappa, r = self.concentration.double().expand(shape), self._proposal_r.expand(shape)
            x, done = (
                kappa.new_empty(shape),
                flambeau.zeros(shape, dtype=flambeau.bool, device=kappa.device),
            )
            while not bool(done.all()):
                u = flambeau.rand((3,) + tuple(shape), dtype=kappa.dtype, device=kappa.device)
                u1, u2, u3 = u.unbind()
                z = flambeau.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                x = flambeau.where(accept & ~done, (u3 - 0.5).sign() * f.acos(), x)
                done = done | accept
            return ((x + math.pi + self.loc.double()) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self):
        """The circular variance, 1 - I1(k) / I0(k)."""
        return 1 - (_log_bessel(self.concentration, 1) - _log_bessel(self.concentration, 0)).exp()
