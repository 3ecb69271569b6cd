"""Probability distributions: densities, moments, entropies, samples that carry gradients, divergences.

Each class also stands in a module of its own name, such as flambeau.distributions.normal, as programs import it.
"""

import sys

from flambeau.distributions import (
    _continuous,
    _derived,
    _discrete,
    _matrix,
    _rare,
    constraint_registry,
    constraints,
    distribution,
    kl,
    transforms,
    utils,
)
from flambeau.distributions._continuous import *
from flambeau.distributions._derived import *
from flambeau.distributions._discrete import *
from flambeau.distributions._matrix import *
from flambeau.distributions._rare import *
from flambeau.distributions.constraint_registry import biject_to, transform_to
from flambeau.distributions.distribution import *
from flambeau.distributions.kl import kl_divergence, register_kl
from flambeau.distributions.transforms import *

__all__ = sorted(
    {
        *_continuous.__all__,
        *_derived.__all__,
        *_discrete.__all__,
        *_matrix.__all__,
        *_rare.__all__,
        *distribution.__all__,
        *transforms.__all__,
        "biject_to",
        "kl_divergence",
        "register_kl",
        "transform_to",
    }
)

# The homes that programs import from.
_HOMES = {
    _continuous: "beta cauchy chi2 dirichlet exponential fishersnedecor gamma "
    "laplace normal studentT uniform",
    _discrete: "bernoulli binomial categorical geometric multinomial negative_binomial one_hot_categorical poisson",
    _derived: "gumbel half_cauchy half_normal inverse_gamma kumaraswamy log_normal logistic_normal pareto "
    "relaxed_bernoulli relaxed_categorical weibull",
    _rare: "continuous_bernoulli generalized_pareto von_mises",
    _matrix: "lkj_cholesky lowrank_multivariate_normal multivariate_normal wishart",
    distribution: "exp_family independent mixture_same_family transformed_distribution",
}
for _module, _names in _HOMES.items():
    for _name in _names.split():
        sys.modules[f"{__name__}.{_name}"] = globals()[_name] = _module
