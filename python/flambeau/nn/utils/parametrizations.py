"""Ready parametrizations: orthogonal, weight norm, spectral norm."""

import flambeau
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module
from flambeau.nn.utils import parametrize
from flambeau.nn.utils.weight_norm import norm_except_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _is_orthogonal(Q, eps=None) -> bool:
    n, k = Q.size(-2), Q.size(-1)
    identity = flambeau.eye(k, dtype=Q.dtype, device=Q.device)
    eps = 10.0 * n * flambeau.finfo(Q.dtype).eps if eps is None else eps
    return flambeau.allclose(Q.mH @ Q, identity, atol=eps)


def _make_orthogonal(A):
    """The orthogonal matrix of A's column space, the closest in sign to A."""
    X, tau = flambeau.geqrf(A)
    Q = flambeau.linalg.householder_product(X, tau)
    return Q * X.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


_MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    """A matrix with orthonormal columns (or rows, if wide) made from any matrix.

    matrix_exp and cayley map the skew-symmetric part to an orthogonal matrix; householder takes
    the columns below the diagonal as reflections. A `base` moves the starting point (Lezcano 2019).
    """

    def __init__(self, weight, orthogonal_map, *, use_trivialization=True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("orthogonal: the householder map does not support complex tensors")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X):
        n, k = X.size(-2), X.size(-1)
        transposed = n < k
        if transposed:
            X, n, k = X.mT, k, n
        if self.orthogonal_map == "householder":
            Q = self._householder(X)
        else:
            Q = self._from_skew(X, n, k)
        if hasattr(self, "base") and self.base is not None:
            Q = self.base @ Q
        return Q.mT if transposed else Q

    def _householder(self, X):
        A = X.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (A * A).sum(dim=-2))
        Q = flambeau.linalg.householder_product(A, tau)
        # The diagonal of X holds the signs, 1 or -1, which make the map invertible.
        return Q * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    def _from_skew(self, X, n, k):
        X = X.tril()
        if n != k:
            pad = X.new_zeros(n, n - k).expand(*X.shape[:-2], -1, -1)
            X = flambeau.cat([X, pad], dim=-1)
        A = X - X.mH
        if self.orthogonal_map == "matrix_exp":
            Q = flambeau.matrix_exp(A)
        else:
            identity = flambeau.eye(n, dtype=A.dtype, device=A.device)
            Q = flambeau.linalg.solve(
                flambeau.add(identity, A, alpha=-0.5), flambeau.add(identity, A, alpha=0.5)
            )
        return Q[..., :k] if n != k else Q

    @flambeau.no_grad()
    def right_inverse(self, Q):
        if Q.shape != self.shape:
            raise ValueError(
                f"orthogonal: shape must stay {tuple(self.shape)}, got {tuple(Q.shape)}"
            )
        n, k = Q.size(-2), Q.size(-1)
        transposed = n < k
        Q_in, Q = Q, Q.mT if transposed else Q
        n, k = max(n, k), min(n, k)
        if not hasattr(self, "base"):
            return self._inverse_without_base(Q_in, Q, transposed)
        if _is_orthogonal(Q):
            if n != k:
                # A full basis: random columns for the complement.
                N = flambeau.cat([Q, Q.new_empty(*Q.shape[:-2], n, n - k).normal_()], dim=-1)
                Q = _make_orthogonal(N)
        else:
            N = Q if n == k else Q.new_empty(*Q.shape[:-2], n, n).normal_()
            if n != k:
                N[..., :k] = Q
            Q = _make_orthogonal(N)
        self.base = Q
        # With the base at Q the original is the identity's preimage.
        start = flambeau.zeros_like(Q_in)
        if self.orthogonal_map == "householder":
            start.diagonal(dim1=-2, dim2=-1).fill_(1.0)
        return start

    def _inverse_without_base(self, Q_in, Q, transposed):
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                f"orthogonal: assigning with the {self.orthogonal_map} map needs "
                "use_trivialization=True"
            )
        A, tau = flambeau.geqrf(Q)
        # The reflections reproduce Q up to the signs of R's diagonal, which A keeps.
        A.diagonal(dim1=-2, dim2=-1).sign_()
        A.diagonal(dim1=-2, dim2=-1)[tau == 0.0] *= -1
        return A.mT if transposed else A


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """Makes a matrix parameter orthogonal; maps: matrix_exp, cayley or householder."""
    weight = getattr(module, name, None)
    if not isinstance(weight, flambeau.Tensor):
        raise ValueError(f"orthogonal: {module._get_name()} has no parameter or buffer '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"orthogonal: expected a matrix or batch of them, got {weight.ndim}D")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1) or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(f"orthogonal: orthogonal_map must be one of {_MAPS}, got {orthogonal_map}")
    orth = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, orth, unsafe=True)
    return module


class _WeightNorm(Module):
    def __init__(self, dim=0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight):
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """Splits a parameter into length (original0) and direction (original1).

    Salimans & Kingma 2016; `dim` None takes one length for all.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict, prefix, local_metadata, strict, missing, unexpected, errors):
        old_g, old_v = f"{prefix}{name}_g", f"{prefix}{name}_v"
        if old_g in state_dict and old_v in state_dict:
            start = f"{prefix}parametrizations.{name}.original"
            state_dict[start + "0"] = state_dict.pop(old_g)
            state_dict[start + "1"] = state_dict.pop(old_v)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """The weight divided by an estimate of its largest singular value (Miyato et al. 2018)."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(f"spectral_norm: dim must be in [{-ndim}, {ndim - 1}], got {dim}")
        if n_power_iterations <= 0:
            raise ValueError(
                f"spectral_norm: n_power_iterations must be positive, got {n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._reshape_weight_to_matrix(weight)
            h, w = matrix.size()
            u = matrix.new_empty(h).normal_(0, 1)
            v = matrix.new_empty(w).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight):
        if self.dim != 0:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.flatten(1)

    @flambeau.no_grad()
    def _power_method(self, matrix, n_power_iterations) -> None:
        for _ in range(n_power_iterations):
            self._u.copy_(F.normalize(flambeau.mv(matrix, self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(flambeau.mv(matrix.H, self._u), dim=0, eps=self.eps))

    def forward(self, weight):
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Copies, so that a second forward pass leaves what the first one saved alone.
        u, v = self._u.clone(), self._v.clone()
        return weight / flambeau.vdot(u, flambeau.mv(matrix, v))

    def right_inverse(self, value):
        # Which weight it came from is unknown; the value itself is one such weight.
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides a parameter by its largest singular value, estimated by power iterations."""
    weight = getattr(module, name, None)
    if not isinstance(weight, flambeau.Tensor):
        raise ValueError(f"spectral_norm: {module._get_name()} has no parameter or buffer '{name}'")
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    parametrize.register_parametrization(
        module, name, _SpectralNorm(weight, n_power_iterations, dim, eps)
    )
    return module
