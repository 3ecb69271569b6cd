"""Distributions over single numbers and points of the simplex, with densities of their own."""

import math

import flambeau
from flambeau import inf, nan
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution, ExponentialFamily
from flambeau.distributions.utils import (
    broadcast_all,
    shares,
)
from flambeau.nn import functional as F

__all__ = [
    "Beta",
    "Cauchy",
    "Chi2",
    "Dirichlet",
    "Exponential",
    "FisherSnedecor",
    "Gamma",
    "Laplace",
    "Normal",
    "StudentT",
    "Uniform",
]


def standard_normal(shape, dtype, device):
    """Draws of the normal distribution with mean 0 and deviation 1."""
    zeros, ones = (f(shape, dtype=dtype, device=device) for f in (flambeau.zeros, flambeau.ones))
    return flambeau.normal(zeros, ones)


class _LocScale:
    """loc + scale * z."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameters = {"loc": 0, "scale": 0}

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        Distribution.__init__(self, self.loc.size(), validate_args=validate_args)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)


@shares(_LocScale)
class Normal(ExponentialFamily):
    """Gauss's distribution with mean `loc` and standard deviation `scale`."""

    _mean_carrier_measure = 0
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.stddev.pow(2))

    def sample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        with flambeau.no_grad():
            return flambeau.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        return self.loc + standard_normal(shape, self.loc.dtype, self.loc.device) * self.scale

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return (
            -((value - self.loc) ** 2) / (2 * self.scale**2)
            - self.scale.log()
            - math.log(math.sqrt(2 * math.pi))
        )

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * (1 + flambeau.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value):
        return self.loc + self.scale * flambeau.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self):
        return 0.5 + 0.5 * math.log(2 * math.pi) + flambeau.log(self.scale)

    @property
    def _natural_params(self):
        return (self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal())

    def _log_normalizer(self, x, y):
        return -0.25 * x.pow(2) / y + 0.5 * flambeau.log(-math.pi / y)


@shares(_LocScale)
class Laplace(Distribution):
    """Two exponential tails around `loc`."""

    variance = property(lambda self: 2 * self.scale.pow(2))
    stddev = property(lambda self: (2**0.5) * self.scale)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        u = self.loc.new_empty(shape).uniform_(flambeau.finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * flambeau.log1p(-u.abs())

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return -flambeau.log(2 * self.scale) - (value - self.loc).abs() / self.scale

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        centred = value - self.loc
        return 0.5 - 0.5 * centred.sign() * flambeau.expm1(-centred.abs() / self.scale)

    def icdf(self, value):
        term = value - 0.5
        return self.loc - self.scale * term.sign() * flambeau.log1p(-2 * term.abs())

    def entropy(self):
        return 1 + flambeau.log(2 * self.scale)


@shares(_LocScale)
class Cauchy(Distribution):
    """The ratio of two normal variables; it has no mean."""

    def _filled(self, value):
        return flambeau.full(
            self._extended_shape(), value, dtype=self.loc.dtype, device=self.loc.device
        )

    mean = property(lambda self: self._filled(nan))
    variance = property(lambda self: self._filled(inf))

    def rsample(self, sample_shape=()):
        eps = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + eps * self.scale

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return (
            -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()
        )

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return flambeau.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value):
        return flambeau.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()


class Uniform(Distribution):
    """Equally dense on [low, high)."""

    has_rsample = True
    _parameters = {"low": 0, "high": 0}

    def __init__(self, low, high, validate_args=None):
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.size(), validate_args=validate_args)
        if self._validate_args and not bool(flambeau.lt(self.low, self.high).all()):
            raise ValueError("Uniform is not defined when low>= high")

    arg_constraints = {
        "low": constraints.dependent(is_discrete=False, event_dim=0),
        "high": constraints.dependent(is_discrete=False, event_dim=0),
    }

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.low, self.high)

    mean = property(lambda self: (self.high + self.low) / 2)
    mode = property(lambda self: nan * self.high)
    stddev = property(lambda self: (self.high - self.low) / 12**0.5)
    variance = property(lambda self: (self.high - self.low).pow(2) / 12)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        rand = flambeau.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + rand * (self.high - self.low)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        inside = self.low.le(value).type_as(self.low) * self.high.gt(value).type_as(self.low)
        return flambeau.log(inside) - flambeau.log(self.high - self.low)

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value):
        return value * (self.high - self.low) + self.low

    def entropy(self):
        return flambeau.log(self.high - self.low)


class Exponential(ExponentialFamily):
    """Waiting times of independent events at `rate`."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = {"rate": 0}

    def __init__(self, rate, validate_args=None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    mean = property(lambda self: self.rate.reciprocal())
    mode = property(lambda self: flambeau.zeros_like(self.rate))
    stddev = property(lambda self: self.rate.reciprocal())
    variance = property(lambda self: self.rate.pow(-2))

    def rsample(self, sample_shape=()):
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return 1 - flambeau.exp(-self.rate * value)

    def icdf(self, value):
        return -flambeau.log1p(-value) / self.rate

    def entropy(self):
        return 1.0 - flambeau.log(self.rate)

    @property
    def _natural_params(self):
        return (-self.rate,)

    def _log_normalizer(self, x):
        return -flambeau.log(-x)


class Gamma(ExponentialFamily):
    """The gamma distribution with shape `concentration` and inverse scale `rate`."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = {"concentration": 0, "rate": 0}

    def __init__(self, concentration, rate, validate_args=None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.size(), validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = property(lambda self: self.concentration / self.rate.pow(2))

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        value = flambeau._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        # Zero has no density; its gradient is that of the number that stands for it.
        value.detach().clamp_(min=flambeau.finfo(value.dtype).tiny)
        return value

    def log_prob(self, value):
        value = flambeau.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return (
            flambeau.xlogy(a, self.rate)
            + flambeau.xlogy(a - 1, value)
            - self.rate * value
            - flambeau.lgamma(a)
        )

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return flambeau.special.gammainc(self.concentration, self.rate * value)

    def entropy(self):
        a = self.concentration
        return a - flambeau.log(self.rate) + flambeau.lgamma(a) + (1.0 - a) * flambeau.digamma(a)

    @property
    def _natural_params(self):
        return (self.concentration - 1, -self.rate)

    def _log_normalizer(self, x, y):
        return flambeau.lgamma(x + 1) + (x + 1) * flambeau.log(-y.reciprocal())


class Chi2(Gamma):
    """The sum of `df` squares of standard normal variables."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df, validate_args=None):
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return super().expand(batch_shape, self._get_checked_instance(Chi2, _instance))

    df = property(lambda self: self.concentration * 2)


class Dirichlet(ExponentialFamily):
    """Points of the simplex, with exponents `concentration` along the last dim."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _parameters = {"concentration": 1}

    def __init__(self, concentration, validate_args=None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(
            concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args
        )

    def rsample(self, sample_shape=()):
        return _sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        powers = flambeau.xlogy(a - 1.0, value).sum(-1)
        return powers + flambeau.lgamma(a.sum(-1)) - flambeau.lgamma(a).sum(-1)

    @property
    def mean(self):
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self):
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        # Where no exponent is above one, the densest corner.
        corner = (self.concentration < 1).all(dim=-1)
        largest = F.one_hot(mode[corner].argmax(dim=-1), above.shape[-1]).to(mode)
        mode[corner] = largest
        return mode

    @property
    def variance(self):
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self):
        a, k = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        slopes = (k - total) * flambeau.digamma(total) + ((a - 1.0) * flambeau.digamma(a)).sum(-1)
        return flambeau.lgamma(a).sum(-1) - flambeau.lgamma(total) - slopes

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return x.lgamma().sum(-1) - flambeau.lgamma(x.sum(-1))


class _DirichletSample(flambeau.autograd.Function):
    @staticmethod
    def forward(ctx, concentration):
        x = flambeau._sample_dirichlet(concentration)
        ctx.save_for_backward(x, concentration)
        return x

    @staticmethod
    @flambeau.autograd.function.once_differentiable
    def backward(ctx, g):
        x, concentration = ctx.saved_tensors
        total = concentration.sum(-1, True).expand_as(concentration)
        slope = flambeau._dirichlet_grad(x, concentration, total)
        return slope * (g - (x * g).sum(-1, True))


def _sample_dirichlet(concentration):
    return _DirichletSample.apply(concentration)


class Beta(ExponentialFamily):
    """Numbers in [0, 1] with exponents concentration1 at one and concentration0 at zero."""

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        pair = flambeau.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(pair, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def _expand_rest(self, new, shape):
        new._dirichlet = self._dirichlet.expand(shape)

    @property
    def concentration1(self):
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self):
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self):
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self):
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self):
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape=()):
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(flambeau.stack([value, 1.0 - value], -1))

    def entropy(self):
        return self._dirichlet.entropy()

    @property
    def _natural_params(self):
        return (self.concentration1, self.concentration0)

    def _log_normalizer(self, x, y):
        return flambeau.lgamma(x) + flambeau.lgamma(y) - flambeau.lgamma(x + y)


class StudentT(Distribution):
    """A normal variable over the root of a mean of `df` squares."""

    arg_constraints = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    _parameters = {"df": 0, "loc": 0, "scale": 0}

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    def _expand_rest(self, new, shape):
        new._chi2 = self._chi2.expand(shape)

    mode = property(lambda self: self.loc)

    @property
    def mean(self):
        return self.loc.clone(memory_format=flambeau.contiguous_format).masked_fill(
            self.df <= 1, nan
        )

    @property
    def variance(self):
        finite = self.scale.pow(2) * self.df / (self.df - 2)
        return finite.masked_fill((self.df <= 2) & (self.df > 1), inf).masked_fill(
            self.df <= 1, nan
        )

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        x = standard_normal(shape, self.df.dtype, self.df.device)
        z = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (x * flambeau.rsqrt(z / self.df))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        y, half = (value - self.loc) / self.scale, 0.5 * self.df
        normalizer = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + flambeau.lgamma(half)
            - flambeau.lgamma(half + 0.5)
        )
        return -(half + 0.5) * flambeau.log1p(y**2.0 / self.df) - normalizer

    def entropy(self):
        half = 0.5 * self.df
        beta = flambeau.lgamma(half) + math.lgamma(0.5) - flambeau.lgamma(0.5 * (self.df + 1))
        slopes = flambeau.digamma(0.5 * (self.df + 1)) - flambeau.digamma(half)
        return self.scale.log() + 0.5 * (self.df + 1) * slopes + 0.5 * self.df.log() + beta


class FisherSnedecor(Distribution):
    """The ratio of two means of df1 and df2 squares."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameters = {"df1": 0, "df2": 0}

    def __init__(self, df1, df2, validate_args=None):
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1, self._gamma2 = (
            Gamma(self.df1 * 0.5, self.df1),
            Gamma(self.df2 * 0.5, self.df2),
        )
        super().__init__(self.df1.size(), validate_args=validate_args)

    def _expand_rest(self, new, shape):
        new._gamma1, new._gamma2 = self._gamma1.expand(shape), self._gamma2.expand(shape)

    @property
    def mean(self):
        return (self.df2 / (self.df2 - 2)).masked_fill(self.df2 <= 2, nan)

    @property
    def mode(self):
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.masked_fill(self.df1 <= 2, nan)

    @property
    def variance(self):
        a, b = self.df1, self.df2.masked_fill(self.df2 <= 4, nan)
        return 2 * b.pow(2) * (a + b - 2) / (a * (b - 2).pow(2) * (b - 4))

    def rsample(self, sample_shape=()):
        shape, tiny = self._extended_shape(sample_shape), flambeau.finfo(self.df2.dtype).tiny
        above = self._gamma1.rsample(sample_shape).view(shape)
        below = self._gamma2.rsample(sample_shape).view(shape).clamp(min=tiny)
        return (above / below).clamp(min=tiny)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        beta = (a + b).lgamma() - a.lgamma() - b.lgamma()
        powers = a * ratio.log() + (a - 1) * flambeau.log(value)
        return beta + powers - (a + b) * flambeau.log1p(ratio * value)
