"""Distributions over countable values."""

import flambeau
from flambeau.distributions import constraints
from flambeau.distributions._continuous import Gamma
from flambeau.distributions.distribution import Distribution, ExponentialFamily
from flambeau.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    shares,
)
from flambeau.nn import functional as F

__all__ = [
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Geometric",
    "Multinomial",
    "NegativeBinomial",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
]


def one_of(probs, logits):
    """Which of the two was given: "probs" or "logits"."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return "logits" if probs is None else "probs"


class _Binary:
    """What distributions with a probability of success share: probs and logits, each computed from the other."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}

    def _set(self, probs, logits, *others):
        """Broadcasts the given one with others; the others in that shape."""
        self._given = one_of(probs, logits)
        value, *others = broadcast_all(probs if self._given == "probs" else logits, *others)
        self.__dict__[self._given] = value
        return value.shape, others

    def _expand_rest(self, new, shape):
        new._given = self._given

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def _param(self):
        return self.__dict__[self._given]

    @property
    def param_shape(self):
        return self._param.size()

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)


@shares(_Binary)
class Bernoulli(ExponentialFamily):
    """1 with probability `probs`, else 0; or by log-odds `logits`."""

    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0
    _parameters = {"probs": 0, "logits": 0}

    def __init__(self, probs=None, logits=None, validate_args=None):
        shape, _ = self._set(probs, logits)
        super().__init__(shape, validate_args=validate_args)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    @property
    def mode(self):
        likely = (self.probs >= 0.5).to(self.probs)
        return likely.masked_fill(self.probs == 0.5, float("nan"))

    def sample(self, sample_shape=()):
        with flambeau.no_grad():
            return flambeau.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self):
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand=True):
        return self._all_values(
            flambeau.arange(2, dtype=self._param.dtype, device=self._param.device), expand
        )

    @property
    def _natural_params(self):
        return (flambeau.logit(self.probs),)

    def _log_normalizer(self, x):
        return flambeau.log1p(flambeau.exp(x))


@shares(_Binary)
class Geometric(Distribution):
    """The number of failures before the first success."""

    support = constraints.nonnegative_integer
    _parameters = {"probs": 0, "logits": 0}

    def __init__(self, probs=None, logits=None, validate_args=None):
        shape, _ = self._set(probs, logits)
        super().__init__(shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            raise ValueError(
                f"Expected parameter probs of distribution {self!r} to be positive but found invalid values:\n{self.probs}"
            )

    mean = property(lambda self: 1.0 / self.probs - 1.0)
    mode = property(lambda self: flambeau.zeros_like(self.probs))
    variance = property(lambda self: (1.0 / self.probs - 1.0) / self.probs)

    def sample(self, sample_shape=()):
        shape, tiny = self._extended_shape(sample_shape), flambeau.finfo(self.probs.dtype).tiny
        with flambeau.no_grad():
            u = self.probs.new_empty(shape).uniform_(tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.clone(memory_format=flambeau.contiguous_format)
        probs[(probs == 1) & (value == 0)] = 0
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self):
        return (
            F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
            / self.probs
        )


@shares(_Binary)
class Binomial(Distribution):
    """The number of successes among `total_count` independent trials."""

    arg_constraints = {"total_count": constraints.nonnegative_integer, **_Binary.arg_constraints}
    has_enumerate_support = True
    _parameters = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        shape, (count,) = self._set(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    mean = property(lambda self: self.total_count * self.probs)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    @property
    def mode(self):
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    def sample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        with flambeau.no_grad():
            return flambeau.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        ways = flambeau.lgamma(n + 1) - flambeau.lgamma(value + 1) - flambeau.lgamma(n - value + 1)
        # log(1 + exp(logits)) without overflow.
        top = self.logits.clamp(min=0)
        normalizer = n * top + n * flambeau.log1p(flambeau.exp(-self.logits.abs()))
        return value * self.logits + ways - normalizer

    def entropy(self):
        count = int(self.total_count.max())
        if not bool((self.total_count == count).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(flambeau.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        count = int(self.total_count.max())
        if not bool((self.total_count == count).all()):
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `enumerate_support`."
            )
        values = flambeau.arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        return self._all_values(values, expand)


@shares(_Binary)
class NegativeBinomial(Distribution):
    """The number of successes before `total_count` failures."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _parameters = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        shape, (count,) = self._set(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(shape, validate_args=validate_args)

    mean = property(lambda self: self.total_count * flambeau.exp(self.logits))
    mode = property(
        lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)
    )
    variance = property(lambda self: self.mean / flambeau.sigmoid(-self.logits))

    @lazy_property
    def _gamma(self):
        return Gamma(self.total_count, flambeau.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape=()):
        with flambeau.no_grad():
            return flambeau.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        unnormalized = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        ways = flambeau.lgamma(n + value) - flambeau.lgamma(1.0 + value) - flambeau.lgamma(n)
        # No failures to wait for: zero is certain.
        ways = ways.masked_fill(n + value == 0.0, 0.0)
        return unnormalized + ways


class Poisson(ExponentialFamily):
    """Counts of independent events at `rate`."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _parameters = {"rate": 0}

    def __init__(self, rate, validate_args=None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    mean = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())
    variance = property(lambda self: self.rate)

    def sample(self, sample_shape=()):
        with flambeau.no_grad():
            return flambeau.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self):
        return (flambeau.log(self.rate),)

    def _log_normalizer(self, x):
        return flambeau.exp(x)


class Categorical(Distribution):
    """A number from 0 to n - 1, with probabilities in proportion to the last dim of `probs`, or by `logits`."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _parameters = {"probs": 1, "logits": 1}

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._given = one_of(probs, logits)
        given = probs if self._given == "probs" else logits
        if given.dim() < 1:
            raise ValueError(f"`{self._given}` parameter must be at least one-dimensional.")
        if self._given == "probs":
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = self._param.size(-1)
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    def _expand_rest(self, new, shape):
        new._given, new._num_events = self._given, self._num_events

    @property
    def _param(self):
        return self.__dict__[self._given]

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits)

    @property
    def param_shape(self):
        return self._param.size()

    def _undefined(self):
        return flambeau.full(
            self._extended_shape(), float("nan"), dtype=self.probs.dtype, device=self.probs.device
        )

    mean = property(_undefined)
    variance = property(_undefined)
    mode = property(lambda self: self.probs.argmax(dim=-1))

    def sample(self, sample_shape=()):
        sample_shape = flambeau.Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        drawn = flambeau.multinomial(rows, sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        value, logits = flambeau.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self):
        logits = self.logits.clamp(min=flambeau.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        return self._all_values(
            flambeau.arange(self._num_events, device=self._param.device), expand
        )


class _OfCategorical:
    """What is derived from a categorical distribution: its probs and logits are its own."""

    arg_constraints = Categorical.arg_constraints
    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    param_shape = property(lambda self: self._categorical.param_shape)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(type(self), _instance)
        shape = flambeau.Size(batch_shape)
        new._categorical = self._categorical.expand(shape)
        self._expand_rest(new, shape)
        Distribution.__init__(new, shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)


@shares(_OfCategorical)
class OneHotCategorical(Distribution):
    """A one at a place chosen like Categorical's, zeros elsewhere."""

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.batch_shape
        super().__init__(shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    @property
    def mode(self):
        return F.one_hot(self.probs.argmax(dim=-1), num_classes=self.probs.shape[-1]).to(self.probs)

    def sample(self, sample_shape=()):
        chosen = self._categorical.sample(flambeau.Size(sample_shape))
        return F.one_hot(chosen, self._categorical._num_events).to(self.probs)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self):
        return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        n = self.event_shape[0]
        values = flambeau.eye(n, dtype=self.probs.dtype, device=self.probs.device)
        values = values.view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n,) + self.batch_shape + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples pass gradients on as if they were the probabilities (Bengio et al. 2013)."""

    has_rsample = True

    def rsample(self, sample_shape=()):
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


@shares(_OfCategorical)
class Multinomial(Distribution):
    """How often each of n outcomes happens in `total_count` trials."""

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count, self._categorical = total_count, Categorical(probs, logits)
        shape = self._categorical.batch_shape
        super().__init__(shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def _expand_rest(self, new, shape):
        new.total_count = self.total_count

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape=()):
        chosen = self._categorical.sample((self.total_count,) + tuple(sample_shape))
        # The trials go last, where each adds one to its outcome.
        chosen = chosen.permute(*range(1, chosen.dim()), 0)
        counts = self.probs.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, chosen, flambeau.ones_like(chosen).type_as(counts))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.clone(memory_format=flambeau.contiguous_format)
        logits[(value == 0) & (logits == -float("inf"))] = 0
        ways = flambeau.lgamma(value.sum(-1) + 1) - flambeau.lgamma(value + 1).sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self):
        n = flambeau.tensor(self.total_count)
        count = Binomial(self.total_count, self.probs)
        values = count.enumerate_support(expand=False)[1:]
        weights = flambeau.exp(count.log_prob(values))
        shared = (weights * flambeau.lgamma(values + 1)).sum([0, -1])
        return n * self._categorical.entropy() - flambeau.lgamma(n + 1) + shared
