"""The base of all distributions, exponential families, and distributions made of others."""

import warnings

import flambeau
from flambeau.autograd import grad
from flambeau.distributions import constraints, transforms
from flambeau.distributions.utils import lazy_property

__all__ = [
    "Distribution",
    "ExponentialFamily",
    "Independent",
    "MixtureSameFamily",
    "TransformedDistribution",
]


class Distribution:
    """A distribution of values of `event_shape`, one for each element of `batch_shape`.

    Samples have shape sample_shape + batch_shape + event_shape; log_prob takes such values and gives
    sample_shape + batch_shape. Parameters named in `arg_constraints` are checked, and values too, unless
    validate_args=False. `_parameters` says how many dims of each parameter belong to the event.

    Raises:  ValueError where a parameter or a value lies outside of its region, NotImplementedError for what the
             distribution does not define.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    _parameters: dict = {}

    @staticmethod
    def set_default_validate_args(value):
        """Whether new distributions check their arguments when they are not told."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: must be a bool, got {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape=(), event_shape=(), validate_args=None):
        self._batch_shape, self._event_shape = (
            flambeau.Size(batch_shape),
            flambeau.Size(event_shape),
        )
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self):
        try:
            regions = self.arg_constraints
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define `arg_constraints`", stacklevel=4)
            return
        for name, region in regions.items():
            lazy = isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(region) or (lazy and name not in self.__dict__):
                continue
            value = getattr(self, name)
            if not bool(region.check(value).all()):
                shape = tuple(value.shape) if flambeau.is_tensor(value) else ()
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {shape}) of distribution {self!r} "
                    f"to satisfy the constraint {region!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape, _instance=None):
        """The distribution with its parameters expanded to another batch shape."""
        new = self._get_checked_instance(type(self), _instance)
        shape = flambeau.Size(batch_shape)
        for name, dims in self._parameters.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                new.__dict__[name] = value.expand(shape + value.shape[value.dim() - dims :])
        self._expand_rest(new, shape)
        Distribution.__init__(new, shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expand_rest(self, new, shape):
        """What a distribution has beside its parameters."""

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self):
        return self._batch_shape

    @property
    def event_shape(self):
        return self._event_shape

    @property
    def arg_constraints(self):
        raise NotImplementedError

    @property
    def support(self):
        raise NotImplementedError

    @property
    def mean(self):
        raise NotImplementedError

    @property
    def mode(self):
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self):
        raise NotImplementedError

    @property
    def stddev(self):
        return self.variance.sqrt()

    def sample(self, sample_shape=()):
        """Values without a gradient."""
        with flambeau.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=()):
        """Values that depend on the parameters smoothly."""
        raise NotImplementedError

    def sample_n(self, n):
        """Deprecated: sample((n,))."""
        warnings.warn(
            "sample_n(n) will be deprecated. Use .sample((n,)) instead", UserWarning, stacklevel=2
        )
        return self.sample((n,))

    def log_prob(self, value):
        """The logarithm of the density, or of the probability."""
        raise NotImplementedError

    def cdf(self, value):
        """The probability of values up to this one."""
        raise NotImplementedError

    def icdf(self, value):
        """The value that is not exceeded with this probability."""
        raise NotImplementedError

    def enumerate_support(self, expand=True):
        """All values, along a new first dim."""
        raise NotImplementedError

    def entropy(self):
        raise NotImplementedError

    def perplexity(self):
        """The exponential of the entropy."""
        return flambeau.exp(self.entropy())

    def _extended_shape(self, sample_shape=()):
        return flambeau.Size(sample_shape) + self._batch_shape + self._event_shape

    def _all_values(self, values, expand):
        """enumerate_support of values that are the same for the whole batch."""
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values

    def _validate_sample(self, value):
        if not self._validate_args:
            return
        if not flambeau.is_tensor(value):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape = tuple(self._batch_shape + self._event_shape)
        event = len(self._event_shape)
        if event and tuple(value.shape[-event:]) != tuple(self._event_shape):
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{tuple(value.shape)} vs {tuple(self._event_shape)}."
            )
        for have, want in zip(reversed(value.shape), reversed(shape)):
            if have != want and 1 not in (have, want):
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {tuple(value.shape)} vs {shape}."
                )
        try:
            region = self.support
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define `support`", stacklevel=3)
            return
        if not bool(region.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({region!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self):
        shown = []
        for name in getattr(self, "arg_constraints", {}):
            if name in self.__dict__:
                value = self.__dict__[name]
                shown.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return f"{type(self).__name__}({', '.join(shown)})"


class ExponentialFamily(Distribution):
    """A density exp(<t(x), theta> - F(theta) + k(x)); the entropy follows from F (Nielsen and Nock 2010)."""

    @property
    def _natural_params(self):
        raise NotImplementedError

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError

    def entropy(self):
        """F(theta) - <theta, grad F(theta)> - E[k(x)]."""
        result = -self._mean_carrier_measure
        params = [p.detach().requires_grad_() for p in self._natural_params]
        with flambeau.enable_grad():
            normalizer = self._log_normalizer(*params)
            slopes = grad(normalizer.sum(), params, create_graph=True)
        result = result + normalizer
        for param, slope in zip(params, slopes):
            product = param * slope
            result = result - product.reshape(self._batch_shape + (-1,)).sum(-1)
        return result


def _sum_rightmost(value, dims):
    return transforms._sum_rightmost(value, dims)


class Independent(Distribution):
    """Another distribution whose innermost batch dims count as dims of the event."""

    arg_constraints: dict = {}

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        have = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > have:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {have}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        event = reinterpreted_batch_ndims + len(base_distribution.event_shape)
        cut = len(shape) - event
        self.base_dist, self.reinterpreted_batch_ndims = (
            base_distribution,
            reinterpreted_batch_ndims,
        )
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Independent, _instance)
        shape = flambeau.Size(batch_shape)
        inner = self.event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand(shape + inner)
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        Distribution.__init__(new, shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    has_rsample = property(lambda self: self.base_dist.has_rsample)
    has_enumerate_support = property(
        lambda self: self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support
    )
    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    @constraints.dependent_property
    def support(self):
        region, dims = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(region, dims) if dims else region

    def sample(self, sample_shape=()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self):
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand=True):
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """The distribution of t(x) for x of another one; `transforms` is a map or a list of them."""

    arg_constraints: dict = {}

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.transforms = self._as_list(transforms)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        base_event = len(base_distribution.event_shape)
        transform = _compose(self.transforms)
        if len(base_shape) < transform.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {transform.domain.event_dim}, "
                f"but got {base_shape}."
            )
        forward = transform.forward_shape(base_shape)
        expanded = transform.inverse_shape(forward)
        if base_shape != expanded:
            batch = expanded[: len(expanded) - base_event]
            base_distribution = base_distribution.expand(batch)
        dims = transform.domain.event_dim - base_event
        self.base_dist = Independent(base_distribution, dims) if dims > 0 else base_distribution
        change = transform.codomain.event_dim - transform.domain.event_dim
        event = max(transform.codomain.event_dim, base_event + change)
        cut = len(forward) - event
        super().__init__(forward[:cut], forward[cut:], validate_args=validate_args)

    @staticmethod
    def _as_list(given):
        if isinstance(given, transforms.Transform):
            return [given]
        if not isinstance(given, list) or not all(
            isinstance(t, transforms.Transform) for t in given
        ):
            raise ValueError(f"transforms must be a Transform or list, but was {given}")
        return given

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(TransformedDistribution, _instance)
        shape = flambeau.Size(batch_shape) + self.event_shape
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        base = shape[: len(shape) - len(self.base_dist.event_shape)]
        new.base_dist, new.transforms = self.base_dist.expand(base), self.transforms
        self._expand_rest(new, flambeau.Size(batch_shape))
        Distribution.__init__(
            new, flambeau.Size(batch_shape), self.event_shape, validate_args=False
        )
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        region, event = self.transforms[-1].codomain, len(self.event_shape)
        return (
            constraints.independent(region, event - region.event_dim)
            if event > region.event_dim
            else region
        )

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    def _through(self, x):
        for t in self.transforms:
            x = t(x)
        return x

    def sample(self, sample_shape=()):
        with flambeau.no_grad():
            return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=()):
        return self._through(self.base_dist.rsample(sample_shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        event, result, y = len(self.event_shape), 0.0, value
        for t in reversed(self.transforms):
            x = t.inv(y)
            event += t.domain.event_dim - t.codomain.event_dim
            result = result - _sum_rightmost(
                t.log_abs_det_jacobian(x, y), event - t.domain.event_dim
            )
            y = x
        base = self.base_dist.log_prob(y)
        return result + _sum_rightmost(base, event - len(self.base_dist.event_shape))

    def _growing(self, value):
        """The probability turned round where the maps fall."""
        sign = 1
        for t in self.transforms:
            sign = sign * t.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value):
        for t in reversed(self.transforms):
            value = t.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._growing(self.base_dist.cdf(value))

    def icdf(self, value):
        return self._through(self.base_dist.icdf(self._growing(value)))


def _compose(parts):
    return transforms.ComposeTransform(parts)


class MixtureSameFamily(Distribution):
    """Components of one family, chosen by a categorical distribution over the last batch dim."""

    arg_constraints: dict = {}

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        from flambeau.distributions._discrete import Categorical

        self._mixture_distribution, self._component_distribution = (
            mixture_distribution,
            component_distribution,
        )
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                "The Mixture distribution needs to be an instance of torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution need to be an instance of torch.distributions.Distribution"
            )
        mixed, batch = mixture_distribution.batch_shape, component_distribution.batch_shape
        for a, b in zip(reversed(mixed), reversed(batch[:-1])):
            if a != 1 and b != 1 and a != b:
                raise ValueError(f"the batch shapes {tuple(mixed)} and {tuple(batch)} do not fit")
        count, have = mixture_distribution.logits.shape[-1], batch[-1] if batch else None
        if have != count:
            raise ValueError(f"the mixture chooses among {count} components, there are {have}")
        self._num_component = count
        event = component_distribution.event_shape
        self._event_ndims = len(event)
        super().__init__(batch[:-1], event, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        shape = flambeau.Size(batch_shape)
        new._component_distribution = self._component_distribution.expand(
            shape + (self._num_component,)
        )
        new._mixture_distribution = self._mixture_distribution.expand(shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        Distribution.__init__(new, shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)

    def _pad_mixture_dimensions(self, x):
        shape = x.shape[:-1] + (1,) * (len(self.batch_shape) + 1 - x.dim()) + x.shape[-1:]
        return x.reshape(shape + (1,) * self._event_ndims)

    def _weighted(self, values):
        weights = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        return (weights * values).sum(dim=-1 - self._event_ndims)

    @property
    def mean(self):
        return self._weighted(self.component_distribution.mean)

    @property
    def variance(self):
        # The mean of the variances and the variance of the means.
        means = self.component_distribution.mean
        spread = (means - self.mean.unsqueeze(-1 - self._event_ndims)).pow(2.0)
        return self._weighted(self.component_distribution.variance) + self._weighted(spread)

    def cdf(self, x):
        per_component = self.component_distribution.cdf(self._pad(x))
        return (per_component * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x):
        if self._validate_args:
            self._validate_sample(x)
        per_component = self.component_distribution.log_prob(self._pad(x))
        weights = flambeau.log_softmax(self.mixture_distribution.logits, dim=-1)
        return flambeau.logsumexp(per_component + weights, dim=-1)

    def sample(self, sample_shape=()):
        with flambeau.no_grad():
            chosen = self.mixture_distribution.sample(sample_shape)
            values = self.component_distribution.sample(sample_shape)
            index = chosen.reshape(chosen.shape + (1,) * (len(self.event_shape) + 1))
            index = index.expand(chosen.shape + (1,) + self.event_shape)
            return flambeau.gather(values, chosen.dim(), index).squeeze(chosen.dim())

    def _pad(self, x):
        return x.unsqueeze(-1 - self._event_ndims)

    def __repr__(self):
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )
