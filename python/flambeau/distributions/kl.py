"""The Kullback-Leibler divergence of pairs of distributions."""

import functools
import math
import warnings

import flambeau
from flambeau import inf
from flambeau.distributions import _continuous as c
from flambeau.distributions import _derived as t
from flambeau.distributions import _discrete as d
from flambeau.distributions import _matrix as m
from flambeau.distributions import _rare
from flambeau.distributions.distribution import (
    ExponentialFamily,
    Independent,
    TransformedDistribution,
)
from flambeau.distributions.utils import euler_constant

__all__ = ["kl_divergence", "register_kl"]

_REGISTRY: dict = {}
_MEMO: dict = {}


def register_kl(type_p, type_q):
    """A decorator of a function of (p, q) for two classes of distributions.

    Where several fit a pair, the one of the nearest classes is taken.

    Raises:  TypeError if something else than a class is given.
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise TypeError(f"Expected types to be Distribution subclasses but got {kind}")

    def decorator(fun):
        _REGISTRY[type_p, type_q] = fun
        _MEMO.clear()
        return fun

    return decorator


def _find(type_p, type_q):
    fits = [(p, q) for p, q in _REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not fits:
        return None

    def order(first):
        return lambda pair: (
            type_p.__mro__.index(pair[0]),
            type_q.__mro__.index(pair[1]),
        )[:: 1 if first else -1]

    left, right = min(fits, key=order(True)), min(fits, key=order(False))
    if _REGISTRY[left] is not _REGISTRY[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl("
            f"{left[0].__name__}, {right[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _REGISTRY[left]


def kl_divergence(p, q):
    """The mean of log p(x) - log q(x) over x drawn from p.

    Shape:   the batch shape of p and q.
    Raises:  NotImplementedError if nobody has registered the pair.
    """
    key = type(p), type(q)
    if key not in _MEMO:
        _MEMO[key] = _find(*key)
    if _MEMO[key] is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {key[0].__name__} and q type {key[1].__name__}"
        )
    return _MEMO[key](p, q)


def _infinite(p):
    return flambeau.full_like(p, inf)


def _never(*pairs):
    """Pairs whose first has values that the second cannot have."""
    for type_p, type_q in pairs:
        register_kl(type_p, type_q)(lambda p, q: _infinite(_first(p)).expand(_batch(p, q)))


def _first(p):
    return next(
        v
        for v in (
            getattr(p, n, None)
            for n in (
                "loc",
                "rate",
                "scale",
                "low",
                "concentration1",
                "df",
                "probs",
                "concentration",
            )
        )
        if v is not None
    )


def _batch(p, q):
    return flambeau.broadcast_shapes(p.batch_shape, q.batch_shape)


@register_kl(d.Bernoulli, d.Bernoulli)
def _bernoulli(p, q):
    soft = flambeau.nn.functional.softplus
    one = p.probs * (soft(-q.logits) - soft(-p.logits))
    one = one.masked_fill(q.probs == 0, inf).masked_fill(p.probs == 0, 0)
    zero = (1 - p.probs) * (soft(q.logits) - soft(p.logits))
    return one + zero.masked_fill(q.probs == 1, inf).masked_fill(p.probs == 1, 0)


@register_kl(c.Beta, c.Beta)
def _beta(p, q):
    sum_p, sum_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    normal = q.concentration1.lgamma() + q.concentration0.lgamma() + sum_p.lgamma()
    normal = normal - (p.concentration1.lgamma() + p.concentration0.lgamma() + sum_q.lgamma())
    return (
        normal
        + (p.concentration1 - q.concentration1) * flambeau.digamma(p.concentration1)
        + (p.concentration0 - q.concentration0) * flambeau.digamma(p.concentration0)
        + (sum_q - sum_p) * flambeau.digamma(sum_p)
    )


@register_kl(d.Binomial, d.Binomial)
def _binomial(p, q):
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return kl.masked_fill(p.total_count > q.total_count, inf)


@register_kl(d.Categorical, d.Categorical)
def _categorical(p, q):
    terms = p.probs * (p.logits - q.logits)
    terms = flambeau.where(q.probs == 0, inf, terms)
    return flambeau.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(d.OneHotCategorical, d.OneHotCategorical)
def _one_hot(p, q):
    return _categorical(p._categorical, q._categorical)


@register_kl(c.Cauchy, c.Cauchy)
def _cauchy(p, q):
    # Chyzak and Nielsen 2019.
    near = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return near - (4 * p.scale * q.scale).log()


@register_kl(_rare.ContinuousBernoulli, _rare.ContinuousBernoulli)
def _continuous_bernoulli(p, q):
    ends = (-p.probs).log1p() - (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + p._log_norm() + ends - q._log_norm()


@register_kl(c.Dirichlet, c.Dirichlet)
def _dirichlet(p, q):
    sum_p, sum_q = p.concentration.sum(-1), q.concentration.sum(-1)
    normal = (
        sum_p.lgamma()
        - sum_q.lgamma()
        + (q.concentration.lgamma() - p.concentration.lgamma()).sum(-1)
    )
    slopes = p.concentration.digamma() - sum_p.digamma().unsqueeze(-1)
    return normal + ((p.concentration - q.concentration) * slopes).sum(-1)


@register_kl(c.Exponential, c.Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _family(p, q):
    """A Bregman divergence of the log-normalizers (Nielsen and Nock 2010)."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed"
        )
    p_params = [v.detach().requires_grad_() for v in p._natural_params]
    q_params = q._natural_params
    with flambeau.enable_grad():
        normalizer = p._log_normalizer(*p_params)
        slopes = flambeau.autograd.grad(normalizer.sum(), p_params, create_graph=True)
    result = q._log_normalizer(*q_params) - normalizer
    for a, b, slope in zip(p_params, q_params, slopes):
        term = (b - a) * slope
        result = result - term.reshape(term.shape[: term.dim() - len(q.event_shape)] + (-1,)).sum(
            -1
        )
    return result


@register_kl(c.Gamma, c.Gamma)
def _gamma(p, q):
    rates = q.concentration * (p.rate / q.rate).log()
    shapes = flambeau.lgamma(q.concentration) - flambeau.lgamma(p.concentration)
    slopes = (p.concentration - q.concentration) * flambeau.digamma(p.concentration)
    return rates + shapes + slopes + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(t.Gumbel, t.Gumbel)
def _gumbel(p, q):
    ratio, shift, place = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    near = -ratio.log() - shift + place
    return (
        near
        + ratio * euler_constant
        + flambeau.exp(shift + (1 + ratio).lgamma() - place)
        - (1 + euler_constant)
    )


@register_kl(d.Geometric, d.Geometric)
def _geometric(p, q):
    return -p.entropy() - flambeau.log1p(-q.probs) / p.probs - q.logits


@register_kl(t.HalfNormal, t.HalfNormal)
def _half_normal(p, q):
    return _normal(p.base_dist, q.base_dist)


@register_kl(c.Laplace, c.Laplace)
def _laplace(p, q):
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * flambeau.exp(-distance / p.scale) - 1


@register_kl(m.LowRankMultivariateNormal, m.LowRankMultivariateNormal)
@register_kl(m.MultivariateNormal, m.LowRankMultivariateNormal)
@register_kl(m.LowRankMultivariateNormal, m.MultivariateNormal)
@register_kl(m.MultivariateNormal, m.MultivariateNormal)
def _multivariate(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL of normal vectors of sizes {tuple(p.event_shape)} and {tuple(q.event_shape)}"
        )
    log_dets = m.log_diagonal(q.scale_tril) - m.log_diagonal(p.scale_tril)
    shape = _batch(p, q) + p.event_shape + p.event_shape
    inner = flambeau.linalg.solve_triangular(
        q.scale_tril.expand(shape), p.scale_tril.expand(shape), upper=False
    )
    distance = m.batch_mahalanobis(q.scale_tril, q.loc - p.loc)
    return log_dets + 0.5 * (inner.square().sum((-2, -1)) + distance - p.event_shape[0])


@register_kl(c.Normal, c.Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(t.Pareto, t.Pareto)
def _pareto(p, q):
    scales, alphas = p.scale / q.scale, q.alpha / p.alpha
    kl = q.alpha * scales.log() - alphas.log() + alphas - 1
    return flambeau.where(p.support.lower_bound < q.support.lower_bound, inf, kl)


@register_kl(d.Poisson, d.Poisson)
def _poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "KL of transformed distributions needs the same transforms and event shapes"
        )
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(c.Uniform, c.Uniform)
def _uniform(p, q):
    return (
        ((q.high - q.low) / (p.high - p.low))
        .log()
        .masked_fill((q.low > p.low) | (q.high < p.high), inf)
    )


@register_kl(m.Wishart, m.Wishart)
def _wishart(p, q):
    n = p._event_shape[-1]
    inner = flambeau.linalg.solve_triangular(q.scale_tril, p.scale_tril, upper=False)
    log_ratio = m.log_diagonal(p.scale_tril) - m.log_diagonal(q.scale_tril)
    trace = inner.square().sum((-2, -1))
    half_p, half_q = p.df / 2, q.df / 2
    # ln G_n(nu_q / 2) - ln G_n(nu_p / 2), and the mean of the log-determinant.
    return (
        flambeau.mvlgamma(half_q, p=n)
        - flambeau.mvlgamma(half_p, p=n)
        - q.df * log_ratio
        + (half_p - half_q) * m._mvdigamma(half_p, n)
        + p.df / 2 * (trace - n)
    )


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "KL of Independent distributions needs as many reinterpreted dims"
        )
    result = kl_divergence(p.base_dist, q.base_dist)
    dims = p.reinterpreted_batch_ndims
    return result.reshape(result.shape[: result.dim() - dims] + (-1,)).sum(-1) if dims else result


# ---- different families ----

_never(
    (d.Bernoulli, _rare.ContinuousBernoulli),
    (c.Beta, t.Pareto),
    (_rare.ContinuousBernoulli, t.Pareto),
    (c.Exponential, c.Beta),
    (c.Exponential, _rare.ContinuousBernoulli),
    (c.Exponential, t.Pareto),
    (c.Exponential, c.Uniform),
    (c.Gamma, c.Beta),
    (c.Gamma, _rare.ContinuousBernoulli),
    (c.Gamma, t.Pareto),
    (c.Gamma, c.Uniform),
    (t.Gumbel, c.Beta),
    (t.Gumbel, _rare.ContinuousBernoulli),
    (t.Gumbel, c.Exponential),
    (t.Gumbel, c.Gamma),
    (t.Gumbel, t.Pareto),
    (t.Gumbel, c.Uniform),
    (c.Laplace, c.Beta),
    (c.Laplace, _rare.ContinuousBernoulli),
    (c.Laplace, c.Exponential),
    (c.Laplace, c.Gamma),
    (c.Laplace, t.Pareto),
    (c.Laplace, c.Uniform),
    (c.Normal, c.Beta),
    (c.Normal, _rare.ContinuousBernoulli),
    (c.Normal, c.Exponential),
    (c.Normal, c.Gamma),
    (c.Normal, t.Pareto),
    (c.Normal, c.Uniform),
    (t.Pareto, c.Beta),
    (t.Pareto, _rare.ContinuousBernoulli),
    (t.Pareto, c.Uniform),
    (d.Poisson, d.Bernoulli),
    (d.Poisson, d.Binomial),
)


@register_kl(d.Bernoulli, d.Poisson)
def _bernoulli_poisson(p, q):
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


def _crossed(type_p, type_q):
    """A pair whose divergence is -entropy(p) minus the mean of log q, which the function gives."""

    def decorator(mean_log_q):
        @register_kl(type_p, type_q)
        @functools.wraps(mean_log_q)
        def kl(p, q):
            return -p.entropy() - mean_log_q(p, q)

        return kl

    return decorator


def _normal_mean_log(mean, variance, q):
    """The mean of log q for a normal q and a variable of that mean and variance."""
    square = variance + (mean - q.loc).pow(2)
    return -0.5 * (square / q.scale.pow(2)) - q.scale.log() - 0.5 * math.log(2 * math.pi)


for _kind in (
    c.Beta,
    _rare.ContinuousBernoulli,
    c.Exponential,
    c.Gamma,
    t.Gumbel,
    c.Laplace,
    c.Uniform,
):

    @_crossed(_kind, c.Normal)
    def _to_normal(p, q):
        return _normal_mean_log(p.mean, p.variance, q)


for _kind in (c.Beta, _rare.ContinuousBernoulli, c.Uniform, c.Gamma):

    @_crossed(_kind, c.Exponential)
    def _to_exponential(p, q):
        return q.rate.log() - q.rate * p.mean


@_crossed(c.Beta, _rare.ContinuousBernoulli)
def _beta_continuous(p, q):
    return p.mean * q.logits + flambeau.log1p(-q.probs) + q._log_norm()


@_crossed(c.Beta, c.Gamma)
def _beta_gamma(p, q):
    mean_log = p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    return _gamma_mean_log(mean_log, p.mean, q)


def _gamma_mean_log(mean_log, mean, q):
    a = q.concentration
    return a * q.rate.log() - a.lgamma() + (a - 1) * mean_log - q.rate * mean


@register_kl(c.Beta, c.Uniform)
def _beta_uniform(p, q):
    kl = -p.entropy() + (q.high - q.low).log()
    return kl.masked_fill((q.low > p.support.lower_bound) | (q.high < p.support.upper_bound), inf)


@register_kl(_rare.ContinuousBernoulli, c.Uniform)
def _continuous_uniform(p, q):
    kl = -p.entropy() + (q.high - q.low).log()
    outside = flambeau.max(
        flambeau.ge(q.low, p.support.lower_bound), flambeau.le(q.high, p.support.upper_bound)
    )
    return flambeau.where(outside, inf, kl)


@_crossed(c.Exponential, c.Gamma)
def _exponential_gamma(p, q):
    return _gamma_mean_log(-euler_constant - p.rate.log(), p.mean, q)


@_crossed(c.Exponential, t.Gumbel)
def _exponential_gumbel(p, q):
    product = p.rate * q.scale
    tail = product / (product + 1) * flambeau.exp(q.loc / q.scale)
    return -q.scale.log() - (p.mean - q.loc) / q.scale - tail


@_crossed(c.Gamma, t.Gumbel)
def _gamma_gumbel(p, q):
    tail = flambeau.exp(q.loc / q.scale - p.concentration * (1 + 1 / (p.rate * q.scale)).log())
    return -q.scale.log() - (p.mean - q.loc) / q.scale - tail


@_crossed(c.Normal, t.Gumbel)
def _normal_gumbel(p, q):
    near = (p.loc - q.loc) / q.scale
    return -q.scale.log() - near - flambeau.exp(-near + 0.5 * (p.scale / q.scale).pow(2))


@_crossed(c.Uniform, t.Gumbel)
def _uniform_gumbel(p, q):
    ends = [flambeau.exp((q.loc - end) / q.scale) for end in (p.low, p.high)]
    tail = (ends[0] - ends[1]) * q.scale / (p.high - p.low)
    return -q.scale.log() - (p.mean - q.loc) / q.scale - tail


@_crossed(c.Normal, c.Laplace)
def _normal_laplace(p, q):
    shift = p.loc - q.loc
    ratio = shift / p.scale
    distance = math.sqrt(2 / math.pi) * p.scale * flambeau.exp(-0.5 * ratio.pow(2))
    distance = distance + shift * flambeau.erf(math.sqrt(0.5) * ratio)
    return -(2 * q.scale).log() - distance / q.scale


@register_kl(t.Pareto, c.Exponential)
def _pareto_exponential(p, q):
    mean = p.alpha * p.scale / (p.alpha - 1)
    kl = -p.entropy() - (q.rate.log() - q.rate * mean)
    return kl.masked_fill(p.alpha <= 1, inf)


@register_kl(t.Pareto, c.Gamma)
def _pareto_gamma(p, q):
    kl = -p.entropy() - _gamma_mean_log(
        p.scale.log() + p.alpha.reciprocal(), p.alpha * p.scale / (p.alpha - 1), q
    )
    return kl.masked_fill(p.alpha <= 1, inf)


@register_kl(t.Pareto, c.Normal)
def _pareto_normal(p, q):
    a = p.alpha
    variance = a * p.scale.pow(2) / ((a - 1).pow(2) * (a - 2))
    kl = -p.entropy() - _normal_mean_log(a * p.scale / (a - 1), variance, q)
    return kl.masked_fill(a <= 2, inf)


@register_kl(c.Uniform, c.Beta)
def _uniform_beta(p, q):
    width = p.high - p.low

    def mean_log(x, y):
        """The mean of log u for u equally dense between x and y."""
        return (flambeau.special.xlogy(y, y) - flambeau.special.xlogy(x, x)) / width - 1

    logs = (q.concentration1 - 1) * mean_log(p.low, p.high)
    logs = logs + (q.concentration0 - 1) * mean_log(1 - p.high, 1 - p.low)
    normal = (
        (q.concentration1 + q.concentration0).lgamma()
        - q.concentration1.lgamma()
        - q.concentration0.lgamma()
    )
    kl = -p.entropy() - logs - normal
    outside = (p.high > q.support.upper_bound) | (p.low < q.support.lower_bound)
    return kl.masked_fill(outside, inf)


@register_kl(c.Uniform, _rare.ContinuousBernoulli)
def _uniform_continuous(p, q):
    kl = -p.entropy() - p.mean * q.logits - flambeau.log1p(-q.probs) - q._log_norm()
    outside = flambeau.max(
        flambeau.ge(p.high, q.support.upper_bound), flambeau.le(p.low, q.support.lower_bound)
    )
    return flambeau.where(outside, inf, kl)


@register_kl(c.Uniform, c.Gamma)
def _uniform_gamma(p, q):
    logs = (flambeau.special.xlogy(p.high, p.high) - flambeau.special.xlogy(p.low, p.low)) / (
        p.high - p.low
    ) - 1
    kl = -p.entropy() - _gamma_mean_log(logs, p.mean, q)
    return kl.masked_fill(p.low < q.support.lower_bound, inf)


@register_kl(c.Uniform, t.Pareto)
def _uniform_pareto(p, q):
    logs = (flambeau.special.xlogy(p.high, p.high) - flambeau.special.xlogy(p.low, p.low)) / (
        p.high - p.low
    ) - 1
    kl = -p.entropy() - (q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * logs)
    return kl.masked_fill(p.low < q.support.lower_bound, inf)
