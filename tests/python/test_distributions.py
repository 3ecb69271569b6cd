"""torch.distributions: densities against integrals and counts, moments against samples, maps against their slopes."""

import importlib
import math

import pytest

import flambeau as torch
from flambeau import distributions as D

T = torch.tensor

CONTINUOUS = {
    "Normal": (lambda: D.Normal(T([0.0, 1.0]), T([1.0, 2.0])), -20, 20),
    "Laplace": (lambda: D.Laplace(T([0.0, 1.0]), T([1.0, 2.0])), -40, 40),
    "Uniform": (lambda: D.Uniform(T([0.0, 1.0]), T([1.0, 3.0])), -1, 4),
    "Exponential": (lambda: D.Exponential(T([0.5, 2.0])), 0, 60),
    "Gamma": (lambda: D.Gamma(T([1.5, 3.0]), T([1.0, 2.0])), 0, 60),
    "Chi2": (lambda: D.Chi2(T([2.0, 5.0])), 0, 80),
    "Beta": (lambda: D.Beta(T([1.5, 2.0]), T([2.5, 3.0])), 0, 1),
    "StudentT": (lambda: D.StudentT(T([6.0, 9.0]), T([0.0, 1.0]), T([1.0, 2.0])), -300, 300),
    "FisherSnedecor": (lambda: D.FisherSnedecor(T([4.0, 6.0]), T([10.0, 12.0])), 0, 400),
    "Gumbel": (lambda: D.Gumbel(T([0.0, 1.0]), T([1.0, 2.0])), -20, 60),
    "HalfNormal": (lambda: D.HalfNormal(T([1.0, 2.0])), 0, 20),
    "LogNormal": (lambda: D.LogNormal(T([0.0, 0.5]), T([0.5, 0.25])), 0, 60),
    "Pareto": (lambda: D.Pareto(T([1.0, 2.0]), T([5.0, 6.0])), 1, 200),
    "Weibull": (lambda: D.Weibull(T([1.0, 2.0]), T([1.5, 3.0])), 0, 30),
    "Kumaraswamy": (lambda: D.Kumaraswamy(T([1.5, 2.0]), T([2.5, 3.0])), 0, 1),
    "InverseGamma": (lambda: D.InverseGamma(T([5.0, 6.0]), T([1.0, 2.0])), 0, 100),
    "ContinuousBernoulli": (lambda: D.ContinuousBernoulli(T([0.2, 0.5])), 0, 1),
    "GeneralizedPareto": (
        lambda: D.GeneralizedPareto(T([0.0, 1.0]), T([1.0, 2.0]), T([0.1, -0.2])),
        0,
        300,
    ),
    "VonMises": (lambda: D.VonMises(T([0.0, 1.0]), T([1.0, 4.0])), -math.pi, math.pi),
}
NO_MOMENTS = {"VonMises"}
NO_ENTROPY = {"FisherSnedecor", "VonMises"}


def grid(low, high, count=40_001):
    edges = torch.linspace(low, high, count, dtype=torch.float64)
    return (edges[1:] + edges[:-1])[:, None] / 2, (high - low) / (count - 1)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities_integrate_to_one_and_to_their_moments(name):
    make, low, high = CONTINUOUS[name]
    d = make()
    d = d.expand((2,))
    d._validate_args = False
    if isinstance(d, D.TransformedDistribution):
        d.base_dist._validate_args = False
    x, step = grid(low, high)
    p = d.log_prob(x.float()).double().exp()
    p = torch.where(d.support.check(x.float()), p, torch.zeros(()).double()).nan_to_num(0.0)
    assert torch.allclose((p * step).sum(0), torch.ones(2).double(), atol=2e-3)
    if name in NO_MOMENTS:
        return
    mean = (p * x * step).sum(0)
    assert torch.allclose(mean, d.mean.double(), atol=1e-2, rtol=1e-2)
    assert torch.allclose(
        (p * (x - mean) ** 2 * step).sum(0), d.variance.double(), atol=2e-2, rtol=3e-2
    )


@pytest.mark.parametrize("name", [n for n in CONTINUOUS if n not in NO_ENTROPY])
def test_entropies_are_mean_logarithms(name):
    make, low, high = CONTINUOUS[name]
    d = make()
    entropy = d.entropy()
    d._validate_args = False
    if isinstance(d, D.TransformedDistribution):
        d.base_dist._validate_args = False
    x, step = grid(low, high)
    log_p = d.log_prob(x.float()).double()
    inside = d.support.check(x.float()) & (log_p > -80)
    terms = torch.where(inside, log_p.exp() * log_p, torch.zeros(()).double()).nan_to_num(0.0)
    assert torch.allclose(-(terms * step).sum(0), entropy.double(), atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_samples_have_the_moments(name):
    torch.manual_seed(0)
    d = CONTINUOUS[name][0]()
    x = d.sample((5_000,))
    assert x.shape == (5_000, 2) and not x.requires_grad and bool(d.support.check(x).all())
    if name not in NO_MOMENTS:
        assert torch.allclose(x.mean(0), d.mean, atol=0.1, rtol=0.05)


@pytest.mark.parametrize(
    "name",
    ["Normal", "Laplace", "Uniform", "Exponential", "Gumbel", "Weibull", "GeneralizedPareto"],
)
def test_quantiles_undo_probabilities(name):
    d = CONTINUOUS[name][0]()
    p = T([[0.1, 0.2], [0.5, 0.9]])
    assert torch.allclose(d.cdf(d.icdf(p)), p, atol=1e-5)


DISCRETE = {
    "Bernoulli": lambda: D.Bernoulli(T([0.3, 0.8])),
    "Binomial": lambda: D.Binomial(6, logits=T([0.5, -1.0])),
    "Categorical": lambda: D.Categorical(T([[0.2, 0.3, 0.5], [1.0, 1.0, 2.0]])),
    "OneHotCategorical": lambda: D.OneHotCategorical(logits=T([[0.2, -0.3, 0.5], [1.0, 1.0, 2.0]])),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities_of_all_values_add_up(name):
    d = DISCRETE[name]()
    values = d.enumerate_support()
    p = d.log_prob(values).exp()
    assert torch.allclose(p.sum(0), torch.ones(2), atol=1e-5)
    assert torch.allclose(-(p * p.log()).sum(0), d.entropy(), atol=1e-5)
    if name != "Categorical":
        weights = p.unsqueeze(-1) if name == "OneHotCategorical" else p
        assert torch.allclose((weights * values).sum(0), d.mean, atol=1e-5)
    torch.manual_seed(0)
    assert d.sample((5,)).shape == (5,) + d.batch_shape + d.event_shape


@pytest.mark.parametrize(
    "d",
    [D.Poisson(T([0.5, 4.0])), D.Geometric(T([0.3, 0.7])), D.NegativeBinomial(5, T([0.3, 0.4]))],
    ids=repr,
)
def test_probabilities_of_counts_add_up(d):
    values = torch.arange(200.0)[:, None]
    p = d.log_prob(values).exp()
    assert torch.allclose(p.sum(0), torch.ones(2), atol=1e-5)
    assert torch.allclose((p * values).sum(0), d.mean, atol=1e-3)
    torch.manual_seed(0)
    assert torch.allclose(d.sample((5_000,)).mean(0), d.mean, atol=0.15)


def test_normal_vectors():
    cov = T([[2.0, 0.5], [0.5, 1.0]])
    x, mean = T([[0.1, 0.9], [-3.0, 5.0]]), T([0.0, 1.0])
    by = [
        D.MultivariateNormal(mean, cov),
        D.MultivariateNormal(mean, precision_matrix=torch.linalg.inv(cov)),
        D.MultivariateNormal(mean, scale_tril=torch.linalg.cholesky(cov)),
        D.LowRankMultivariateNormal(mean, T([[1.0], [0.5]]), T([1.0, 0.75])),
    ]
    centred = x - mean
    distance = (centred @ torch.linalg.inv(cov) * centred).sum(-1)
    expected = -0.5 * (distance + torch.logdet(cov) + 2 * math.log(2 * math.pi))
    for d in by:
        assert torch.allclose(d.log_prob(x), expected, atol=1e-4)
        assert torch.allclose(d.covariance_matrix, cov, atol=1e-5)
        assert torch.allclose(d.precision_matrix, torch.linalg.inv(cov), atol=1e-5)
        torch.manual_seed(0)
        assert torch.allclose(torch.cov(d.sample((5_000,)).T), cov, atol=0.1)
        assert abs(D.kl_divergence(d, by[0])) < 1e-4
    with pytest.raises(ValueError, match="Exactly one of"):
        D.MultivariateNormal(mean)


def test_wishart_and_correlations():
    torch.manual_seed(0)
    d = D.Wishart(T(5.0), T([[1.0, 0.3], [0.3, 2.0]]))
    x = d.sample((5_000,))
    assert torch.allclose(x.mean(0), d.mean, rtol=0.05, atol=0.1)
    assert torch.allclose(x.var(0), d.variance, rtol=0.1, atol=0.5)
    assert abs(D.kl_divergence(d, d)) < 1e-4
    q = D.Wishart(T(7.0), T([[2.0, 0.0], [0.0, 1.0]]))
    drawn = (d.log_prob(x) - q.log_prob(x)).mean()
    assert torch.allclose(D.kl_divergence(d, q), drawn, atol=0.1)
    c = D.LKJCholesky(3, 2.0).sample((100,))
    assert bool(D.constraints.corr_cholesky.check(c).all())


PAIRS = [
    (D.Normal(0.5, 1.5), D.Laplace(0.0, 1.0)),
    (D.Normal(0.5, 1.5), D.Gumbel(0.0, 2.0)),
    (D.Laplace(0.5, 1.0), D.Normal(0.0, 2.0)),
    (D.Gamma(T(2.0), T(3.0)), D.Exponential(T(1.0))),
    (D.Gamma(T(2.0), T(3.0)), D.Gumbel(0.0, 1.0)),
    (D.Gamma(T(2.0), T(3.0)), D.Normal(0.0, 1.0)),
    (D.Exponential(T(2.0)), D.Gamma(T(2.0), T(1.0))),
    (D.Beta(T(2.0), T(3.0)), D.Gamma(T(2.0), T(1.0))),
    (D.Beta(T(2.0), T(3.0)), D.ContinuousBernoulli(T(0.3))),
    (D.Uniform(T(0.2), T(0.9)), D.Beta(T(2.0), T(3.0))),
    (D.Uniform(T(0.2), T(0.9)), D.Gamma(T(2.0), T(3.0))),
    (D.Pareto(T(1.0), T(5.0)), D.Normal(0.0, 2.0)),
    (D.Pareto(T(1.0), T(5.0)), D.Gamma(T(2.0), T(1.0))),
    (D.ContinuousBernoulli(T(0.3)), D.Normal(0.0, 1.0)),
    (D.Weibull(T(1.0), T(2.0)), D.Weibull(T(1.0), T(2.0))),
]


@pytest.mark.parametrize("p, q", PAIRS, ids=lambda d: type(d).__name__)
def test_divergences_are_mean_differences(p, q):
    torch.manual_seed(0)
    x = p.sample((20_000,))
    try:
        kl = D.kl_divergence(p, q)
    except NotImplementedError:
        assert isinstance(p, D.Weibull)
        return
    assert abs(float(kl) - float((p.log_prob(x) - q.log_prob(x)).mean())) < 0.04


def test_divergences_of_the_unknown():
    class Mine(D.Normal):
        pass

    assert D.kl_divergence(Mine(0.0, 1.0), D.Normal(1.0, 1.0)).item() == 0.5

    @D.register_kl(Mine, D.Normal)
    def ours(p, q):
        return "ours"

    assert D.kl_divergence(Mine(0.0, 1.0), D.Normal(1.0, 1.0)) == "ours"
    with pytest.raises(NotImplementedError, match="Cauchy"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Cauchy(0.0, 1.0))
    assert D.kl_divergence(D.Normal(0.0, 1.0), D.Uniform(0.0, 1.0)) == float("inf")


MAPS = [
    D.ExpTransform(),
    D.PowerTransform(T(3.0)),
    D.SigmoidTransform(),
    D.TanhTransform(),
    D.SoftplusTransform(),
    D.AffineTransform(1.0, -2.0),
    D.ComposeTransform([D.AffineTransform(0.0, 2.0), D.ExpTransform()]),
]


@pytest.mark.parametrize("t", MAPS, ids=lambda t: type(t).__name__)
def test_slopes_of_maps(t):
    x = torch.linspace(0.2, 1.5, 5, dtype=torch.float64, requires_grad=True)
    y = t(x)
    (slope,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    assert torch.allclose(t.log_abs_det_jacobian(x, y), slope.abs().log(), atol=1e-8)
    assert torch.allclose(t.inv(y), x, atol=1e-8) and t.inv.inv is t
    assert torch.allclose(t.inv.log_abs_det_jacobian(y, x), -slope.abs().log(), atol=1e-8)
    cached = t.with_cache(1)
    assert cached.inv(cached(x)) is x or isinstance(t, D.ComposeTransform)


@pytest.mark.parametrize("t", [D.StickBreakingTransform(), D.CorrCholeskyTransform()], ids=repr)
def test_volumes_of_maps_of_vectors(t):
    x = T([0.3, -0.2, 0.4], dtype=torch.float64)
    free = (
        (lambda y: y[:-1])
        if t.codomain.event_dim == 1
        else (lambda y: torch.stack([y[1, 0], y[2, 0], y[2, 1]]))
    )
    jacobian = torch.autograd.functional.jacobian(lambda x: free(t(x)), x)
    assert torch.allclose(
        t.log_abs_det_jacobian(x, t(x)), torch.linalg.slogdet(jacobian)[1], atol=1e-8
    )
    assert torch.allclose(t.inv(t(x)), x, atol=1e-8)
    assert t.forward_shape(x.shape) == t(x).shape and t.inverse_shape(t(x).shape) == x.shape


@pytest.mark.parametrize(
    "region",
    [
        D.constraints.positive,
        D.constraints.less_than(2.0),
        D.constraints.interval(1.0, 3.0),
        D.constraints.simplex,
        D.constraints.lower_cholesky,
        D.constraints.positive_definite,
        D.constraints.independent(D.constraints.unit_interval, 1),
    ],
    ids=repr,
)
def test_regions_are_reached_from_all_numbers(region):
    torch.manual_seed(0)
    t = D.transform_to(region)
    y = t(torch.randn(4, 3, 3))
    assert bool(region.check(y).all()) and t.codomain.event_dim <= region.event_dim + 2


def test_gradients_flow_through_samples():
    torch.manual_seed(0)
    mean, scale = T([0.5], requires_grad=True), T([2.0], requires_grad=True)
    x = D.Normal(mean, scale).rsample((3,))
    x.sum().backward()
    assert mean.grad.tolist() == [3.0]
    assert torch.allclose(scale.grad, ((x.detach() - 0.5) / 2).sum())
    a = T([0.5, 2.0, 3.0], requires_grad=True)
    y = D.Dirichlet(a).rsample((20_000,))
    (g,) = torch.autograd.grad(y.mean(0)[1], a)
    total = a.detach().sum()
    expected = torch.where(torch.arange(3) == 1, (total - 2) / total**2, -2 / total**2)
    assert torch.allclose(g, expected, atol=5e-3)


def test_parameters_and_values_are_checked():
    with pytest.raises(
        ValueError, match=r"Expected parameter scale .* to satisfy the constraint GreaterThan"
    ):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="within the support"):
        D.Exponential(1.0).log_prob(T(-1.0))
    with pytest.raises(ValueError, match="must match event_shape"):
        D.Dirichlet(T([1.0, 2.0])).log_prob(T([0.2, 0.3, 0.5]))
    with pytest.raises(ValueError, match="not broadcastable"):
        D.Normal(torch.zeros(2), 1.0).log_prob(torch.zeros(3))
    with pytest.raises(ValueError, match="not both"):
        D.Bernoulli(T(0.5), T(0.0))
    assert D.Normal(0.0, -1.0, validate_args=False).loc == 0
    D.Distribution.set_default_validate_args(False)
    try:
        D.Normal(0.0, -1.0)
    finally:
        D.Distribution.set_default_validate_args(True)


def test_shapes_of_composed_distributions():
    d = D.Independent(D.Normal(torch.zeros(2, 3), 1.0), 1)
    assert (
        d.batch_shape == (2,)
        and d.event_shape == (3,)
        and d.log_prob(torch.zeros(2, 3)).shape == (2,)
    )
    m = D.MixtureSameFamily(D.Categorical(T([0.3, 0.7])), D.Normal(T([-1.0, 2.0]), T([1.0, 0.5])))
    torch.manual_seed(0)
    x = m.sample((5_000,))
    assert torch.allclose(x.mean(), m.mean, atol=0.05) and torch.allclose(
        x.var(), m.variance, atol=0.1
    )
    with pytest.raises(ValueError):
        D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(0.0, 1.0))
    e = D.Gumbel(0.0, 1.0).expand((3, 2))
    assert e.batch_shape == (3, 2) and e.mean.shape == (3, 2) and e.sample().shape == (3, 2)


@pytest.mark.parametrize(
    "name",
    "normal categorical bernoulli multivariate_normal kl constraints transforms utils distribution independent "
    "transformed_distribution beta dirichlet one_hot_categorical".split(),
)
def test_homes(name):
    module = importlib.import_module(f"flambeau.distributions.{name}")
    if name in ("normal", "categorical", "beta", "dirichlet", "bernoulli", "independent"):
        assert getattr(module, name.capitalize()) is getattr(D, name.capitalize())
