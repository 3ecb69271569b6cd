"""Normal vectors, and distributions over matrices."""

import math

import flambeau
from flambeau import nan
from flambeau.distributions import constraints
from flambeau.distributions._continuous import Beta, Chi2, standard_normal
from flambeau.distributions.distribution import Distribution, ExponentialFamily
from flambeau.distributions.utils import lazy_property

__all__ = ["LKJCholesky", "LowRankMultivariateNormal", "MultivariateNormal", "Wishart"]


def _times(matrix, vector):
    return flambeau.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def batch_mahalanobis(factor, x):
    """x.T @ inverse(M) @ x of vectors, where factor is the Cholesky factor of M; both broadcast."""
    shape = flambeau.broadcast_shapes(factor.shape[:-2], x.shape[:-1])
    factor, x = factor.expand(shape + factor.shape[-2:]), x.expand(shape + x.shape[-1:])
    return (
        flambeau.linalg.solve_triangular(factor, x.unsqueeze(-1), upper=False)
        .square()
        .sum((-2, -1))
    )


def precision_to_scale_tril(precision):
    """The Cholesky factor of the inverse of a precision matrix."""
    flipped = flambeau.linalg.cholesky(flambeau.flip(precision, (-2, -1)))
    upper = flambeau.flip(flipped, (-2, -1)).mT
    eye = flambeau.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return flambeau.linalg.solve_triangular(upper, eye.expand_as(upper), upper=False)


def log_diagonal(factor):
    """Half the log-determinant of the matrix with this Cholesky factor."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _one_of(**given):
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise ValueError(f"Exactly one of {' or '.join(given)} may be specified.")
    return names[0]


def _factor_of(name, matrix):
    """The lower Cholesky factor of the covariance that `matrix` is, inverts or is made of."""
    if name == "scale_tril":
        return matrix
    cholesky = name == "covariance_matrix"
    return flambeau.linalg.cholesky(matrix) if cholesky else precision_to_scale_tril(matrix)


class _Spread:
    """A spread kept as one Cholesky factor, from which its three forms are made when asked for."""

    def _whole(self, matrix):
        raise NotImplementedError

    @lazy_property
    def scale_tril(self):
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        factor = self._unbroadcasted_scale_tril
        return self._whole(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self):
        return self._whole(flambeau.cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(Distribution, _Spread):
    """Normal vectors with mean `loc`; their spread is given as covariance, precision or Cholesky factor."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _parameters = {"loc": 1, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}

    def __init__(
        self,
        loc,
        covariance_matrix=None,
        precision_matrix=None,
        scale_tril=None,
        validate_args=None,
    ):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {
            "covariance_matrix": covariance_matrix,
            "scale_tril": scale_tril,
            "precision_matrix": precision_matrix,
        }
        name = _one_of(**given)
        matrix = given[name]
        if matrix.dim() < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = flambeau.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = matrix.expand(batch + matrix.shape[-2:])
        self.loc = loc.expand(batch + loc.shape[-1:])
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = _factor_of(name, matrix)

    def _expand_rest(self, new, shape):
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril

    def _whole(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)

    @property
    def variance(self):
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape=()):
        eps = standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _times(self._unbroadcasted_scale_tril, eps)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        distance = batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        half = log_diagonal(self._unbroadcasted_scale_tril)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - half

    def entropy(self):
        half = log_diagonal(self._unbroadcasted_scale_tril)
        result = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + half
        return result if not self._batch_shape else result.expand(self._batch_shape)


def _capacitance_tril(w, d):
    """The Cholesky factor of I + W.T @ inverse(D) @ W, through which D + W @ W.T is inverted (Woodbury)."""
    k = w.mT / d.unsqueeze(-2) @ w
    return flambeau.linalg.cholesky(k + flambeau.eye(k.shape[-1], dtype=k.dtype, device=k.device))


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with covariance cov_factor @ cov_factor.T + diag(cov_diag)."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _parameters = {"loc": 1, "cov_diag": 1, "cov_factor": 2}

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() < 1 or cov_factor.dim() < 2:
            raise ValueError(
                "loc must be at least one-dimensional and cov_factor at least two-dimensional."
            )
        n = loc.shape[-1:]
        if cov_factor.shape[-2:-1] != n:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {n[0]} x m")
        if cov_diag.shape[-1:] != n:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {tuple(n)}")
        try:
            batch = flambeau.broadcast_shapes(
                loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]
            )
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self.loc, self.cov_diag = loc.expand(batch + n), cov_diag.expand(batch + n)
        self.cov_factor = cov_factor.expand(batch + cov_factor.shape[-2:])
        self._capacitance_tril = _capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch, n, validate_args=validate_args)

    def _expand_rest(self, new, shape):
        for name in ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"):
            new.__dict__[name] = self.__dict__[name]

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self):
        squares = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return squares.expand(self._batch_shape + self._event_shape)

    def _whole(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        inner = scaled @ scaled.mT
        eye = flambeau.eye(inner.shape[-1], dtype=inner.dtype, device=inner.device)
        return self._whole(root * flambeau.linalg.cholesky(inner + eye))

    @lazy_property
    def covariance_matrix(self):
        w = self._unbroadcasted_cov_factor
        return self._whole(w @ w.mT + flambeau.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self):
        d = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.mT / d.unsqueeze(-2)
        a = flambeau.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._whole(flambeau.diag_embed(d.reciprocal()) - a.mT @ a)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        like = {"dtype": self.loc.dtype, "device": self.loc.device}
        few = standard_normal(shape[:-1] + self.cov_factor.shape[-1:], **like)
        each = standard_normal(shape, **like)
        return (
            self.loc
            + _times(self._unbroadcasted_cov_factor, few)
            + self._unbroadcasted_cov_diag.sqrt() * each
        )

    def _log_det(self):
        return 2 * log_diagonal(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        x = value - self.loc
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        plain = (x.pow(2) / self._unbroadcasted_cov_diag).sum(-1)
        distance = plain - batch_mahalanobis(self._capacitance_tril, _times(scaled, x))
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self):
        result = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return result if not self._batch_shape else result.expand(self._batch_shape)


class Wishart(ExponentialFamily, _Spread):
    """Sums of `df` outer products of normal vectors with mean zero; df is above n - 1.

    Samples by Bartlett's decomposition: chi variables on the diagonal, normal ones below.
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    arg_constraints = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.greater_than(0),
    }
    _parameters = {"df": 0, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}

    def __init__(
        self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None
    ):
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        name = _one_of(**given)
        matrix = given[name]
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch dimensions"
            )
        if not flambeau.is_tensor(df):
            df = flambeau.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch = flambeau.broadcast_shapes(matrix.shape[:-2], df.shape)
        event = matrix.shape[-2:]
        self.df = df.expand(batch)
        self.__dict__[name] = matrix.expand(batch + event)
        self.arg_constraints = {
            **type(self).arg_constraints,
            "df": constraints.greater_than(event[-1] - 1),
        }
        if not bool((self.df > event[-1] - 1).all()):
            raise ValueError(
                f"Value of df={df} expected to be greater than ndim - 1 = {event[-1] - 1}."
            )
        super().__init__(batch, event, validate_args=validate_args)
        self._unbroadcasted_scale_tril = _factor_of(name, matrix)
        self._make_chi2()

    def _make_chi2(self):
        places = flambeau.arange(self._event_shape[-1], dtype=self.df.dtype, device=self.df.device)
        self._dist_chi2 = Chi2(df=self.df.unsqueeze(-1) - places.expand(self._batch_shape + (-1,)))

    def expand(self, batch_shape, _instance=None):
        new = super().expand(batch_shape, _instance)
        new.arg_constraints = self.arg_constraints
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        new._make_chi2()
        return new

    def _whole(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape)

    @property
    def mean(self):
        return self.df.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def mode(self):
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = factor.masked_fill(factor <= 0, nan)
        return factor.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self):
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self.df.view(self._batch_shape + (1, 1)) * (
            v.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        )

    def rsample(self, sample_shape=(), max_try_correction=None):
        shape, n = flambeau.Size(sample_shape) + self._batch_shape, self._event_shape[-1]
        noise = self._dist_chi2.rsample(sample_shape).sqrt().diag_embed()
        rows, cols = flambeau.tril_indices(n, n, offset=-1)
        below = standard_normal(shape + (n * (n - 1) // 2,), noise.dtype, noise.device)
        noise[..., rows, cols] = below
        chol = self._unbroadcasted_scale_tril @ noise
        return chol @ chol.mT

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        spread = -nu * (p * math.log(2) / 2 + log_diagonal(self._unbroadcasted_scale_tril))
        density = (nu - p - 1) / 2 * flambeau.linalg.slogdet(value).logabsdet
        solved = flambeau.cholesky_solve(value, self._unbroadcasted_scale_tril)
        trace = solved.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        return spread - flambeau.mvlgamma(nu / 2, p=p) + density - trace / 2

    def entropy(self):
        nu, p = self.df, self._event_shape[-1]
        half = log_diagonal(self._unbroadcasted_scale_tril)
        slopes = _mvdigamma(nu / 2, p)
        return (
            (p + 1) * (p * math.log(2) / 2 + half)
            + flambeau.mvlgamma(nu / 2, p=p)
            - (nu - p - 1) / 2 * slopes
            + nu * p / 2
        )

    @property
    def _natural_params(self):
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x, y):
        p = self._event_shape[-1]
        return (y + (p + 1) / 2) * (
            -flambeau.linalg.slogdet(-2 * x).logabsdet + math.log(2) * p
        ) + flambeau.mvlgamma(y + (p + 1) / 2, p=p)


def _mvdigamma(x, p):
    """The slope of mvlgamma."""
    steps = flambeau.arange(p, dtype=x.dtype, device=x.device).div(2)
    return flambeau.digamma(x.unsqueeze(-1) - steps.expand(x.shape + (-1,))).sum(-1)


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices M of n variables, dense like det(M) ** (concentration - 1).

    Source: Lewandowski, Kurowicka and Joe 2009; samples grow row by row ("onion").
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _parameters = {"concentration": 0}

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = flambeau.broadcast_tensors(flambeau.as_tensor(concentration))
        shape = self.concentration.size()
        marginal = self.concentration + 0.5 * (dim - 2)
        offset = flambeau.arange(
            dim - 1, dtype=self.concentration.dtype, device=self.concentration.device
        )
        offset = flambeau.cat([offset.new_zeros((1,)), offset])
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        super().__init__(shape, (dim, dim), validate_args)

    def _expand_rest(self, new, shape):
        new.dim = self.dim
        new._beta = self._beta.expand(shape + (self.dim,))

    def sample(self, sample_shape=()):
        with flambeau.no_grad():
            y = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            below = flambeau.randn(shape, dtype=y.dtype, device=y.device).tril(-1)
            direction = below / below.norm(dim=-1, keepdim=True)
            direction[..., 0, :].fill_(0.0)  # the first row has no direction
            w = flambeau.sqrt(y) * direction
            rest = flambeau.clamp(
                1 - flambeau.sum(w**2, dim=-1), min=flambeau.finfo(w.dtype).tiny
            ).sqrt()
            return w + flambeau.diag_embed(rest)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = flambeau.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        density = flambeau.sum(order * diagonal.log(), dim=-1)
        m = self.dim - 1
        alpha = self.concentration + 0.5 * m
        above = flambeau.lgamma(alpha) * m
        below = flambeau.mvlgamma(alpha - 0.5, m)
        return density - (0.5 * m * math.log(math.pi) + below - above)
