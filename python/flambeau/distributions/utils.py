"""Helpers of distributions: broadcasting parameters, probabilities and their logarithms."""

from numbers import Number

import flambeau
from flambeau.nn import functional as F

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "euler_constant",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def broadcast_all(*values):
    """Numbers and tensors as tensors of one shape; numbers take dtype and device of the tensors.

    Raises:  ValueError for what is neither.
    """
    if not all(flambeau.is_tensor(v) or isinstance(v, Number) for v in values):
        raise ValueError("Input arguments must all be instances of Number or torch.Tensor.")
    tensors = [v for v in values if flambeau.is_tensor(v)]
    like = {"dtype": tensors[0].dtype, "device": tensors[0].device} if tensors else {}
    if not tensors:
        like["dtype"] = flambeau.get_default_dtype()
    return flambeau.broadcast_tensors(
        *(v if flambeau.is_tensor(v) else flambeau.tensor(v, **like) for v in values)
    )


def logits_to_probs(logits, is_binary=False):
    """Probabilities from their logarithms up to a constant, or from log-odds."""
    return flambeau.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def clamp_probs(probs):
    """Probabilities kept away from 0 and 1 by the dtype's precision."""
    eps = flambeau.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs, is_binary=False):
    """Logarithms of probabilities, or log-odds."""
    clamped = clamp_probs(probs)
    return flambeau.log(clamped) - flambeau.log1p(-clamped) if is_binary else flambeau.log(clamped)


def shares(part):
    """A decorator: the class has what `part` defines, as far as it does not define that itself.

    The bases of a distribution stay those that programs ask for.
    """

    def decorator(cls):
        for name, value in vars(part).items():
            if name not in vars(cls) and (not name.startswith("__") or name == "__init__"):
                setattr(cls, name, value)
        return cls

    return decorator


class lazy_property:  # noqa: N801
    """A method whose value is computed when it is first asked for, and kept in the object."""

    def __init__(self, wrapped):
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        with flambeau.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.name, value)
        return value


def tril_matrix_to_vec(mat, diag=0):
    """The elements on and below a diagonal, row after row: (*, n, n) -> (*, m)."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, cols = flambeau.tril_indices(n, n, diag, device=mat.device)
    return mat[..., rows, cols]


def vec_to_tril_matrix(vec, diag=0):
    """The matrix with these elements on and below a diagonal: (*, m) -> (*, n, n)."""
    m = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * m + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > flambeau.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {m} which cannot be expressed as the lower triangle."
        )
    n = round(n.item() if flambeau.is_tensor(n) else n)
    rows, cols = flambeau.tril_indices(n, n, diag, device=vec.device)
    mat = vec.new_zeros(vec.shape[:-1] + (n, n))
    mat[..., rows, cols] = vec
    return mat
