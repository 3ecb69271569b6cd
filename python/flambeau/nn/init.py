"""Ways to fill parameters. Each changes its tensor in place, unrecorded, and returns it."""

import math
import warnings

import flambeau
from flambeau import no_grad

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

_GAINS = {
    "linear": 1,
    "conv1d": 1,
    "conv2d": 1,
    "conv3d": 1,
    "conv_transpose1d": 1,
    "conv_transpose2d": 1,
    "conv_transpose3d": 1,
    "sigmoid": 1,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity, param=None):
    """The factor by which a nonlinearity shrinks the standard deviation; `param` is its slope."""
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"calculate_gain: unsupported nonlinearity {nonlinearity}")
    if param is None:
        slope = 0.01
    elif isinstance(param, (int, float)) and not isinstance(param, bool):
        slope = param
    else:
        raise ValueError(f"calculate_gain: negative slope must be a number, got {param!r}")
    return math.sqrt(2.0 / (1 + slope**2))


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Fills with draws from U(a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Fills with draws from N(mean, std^2)."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Fills with draws from N(mean, std^2), drawn again where they fall outside [a, b].

    `a` and `b` are values, not multiples of `std`.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "trunc_normal_: mean is more than 2 std from [a, b]; "
            "the distribution of values may be incorrect",
            stacklevel=2,
        )
    with no_grad():
        tensor.normal_(mean, std, generator=generator)
        while True:
            outside = (tensor < a) | (tensor > b)
            if not outside.any():
                return tensor
            again = flambeau.empty_like(tensor).normal_(mean, std, generator=generator)
            tensor.copy_(flambeau.where(outside, again, tensor))


def constant_(tensor, val):
    """Fills with `val`."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor):
    """Fills with 1."""
    with no_grad():
        return tensor.fill_(1.0)


def zeros_(tensor):
    """Fills with 0."""
    with no_grad():
        return tensor.zero_()


def eye_(tensor):
    """Makes a matrix the identity."""
    if tensor.ndimension() != 2:
        raise ValueError(f"eye_: tensor must have 2 dimensions, got {tensor.ndimension()}")
    with no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1)
    return tensor


def dirac_(tensor, groups=1):
    """Makes a convolution's weight the identity on as many channels as possible, per group."""
    dims = tensor.ndimension()
    if dims not in (3, 4, 5):
        raise ValueError(f"dirac_: tensor must have 3, 4 or 5 dimensions, got {dims}")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError(f"dirac_: size of dim 0 ({sizes[0]}) must be divisible by {groups} groups")
    per_group = sizes[0] // groups
    centre = tuple(n // 2 for n in sizes[2:])
    with no_grad():
        tensor.zero_()
        for g in range(groups):
            for d in range(min(per_group, sizes[1])):
                tensor[(g * per_group + d, d, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    """Inputs and outputs per element: channels times the receptive field."""
    dims = tensor.dim()
    if dims < 2:
        raise ValueError(f"fan in and fan out: tensor must have 2 or more dimensions, got {dims}")
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode must be one of ['fan_in', 'fan_out'], got {mode}")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Fills from U(-a, a), a = gain * sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    std = gain * math.sqrt(2.0 / float(fan_in + fan_out))
    a = math.sqrt(3.0) * std
    return uniform_(tensor, -a, a, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Fills from N(0, std^2), std = gain * sqrt(2 / (fan_in + fan_out)) (Glorot & Bengio 2010)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _is_empty(tensor) -> bool:
    if 0 not in tensor.shape:
        return False
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return True


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Fills from U(-bound, bound), bound = gain * sqrt(3 / fan) (He et al. 2015)."""
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Fills from N(0, std^2), std = gain / sqrt(fan) (He et al. 2015)."""
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor, gain=1, generator=None):
    """Fills with rows (or columns) that are orthonormal, times `gain` (Saxe et al. 2013)."""
    if tensor.ndimension() < 2:
        raise ValueError(
            f"orthogonal_: tensor must have 2 or more dimensions, got {tensor.ndimension()}"
        )
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    cols = tensor.numel() // rows
    with no_grad():
        flat = tensor.new_empty((rows, cols)).normal_(0, 1, generator=generator)
        if rows < cols:
            flat = flat.t()
        q, r = flambeau.linalg.qr(flat)
        q *= flambeau.diag(r, 0).sign()  # makes the distribution uniform (Mezzadri 2006)
        if rows < cols:
            q = q.t()
        tensor.view_as(q).copy_(q)
        tensor.mul_(gain)
    return tensor


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Fills a matrix from N(0, std^2) and zeroes a share `sparsity` of each column."""
    if tensor.ndimension() != 2:
        raise ValueError(f"sparse_: tensor must have 2 dimensions, got {tensor.ndimension()}")
    rows, cols = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for col in range(cols):
            tensor[flambeau.randperm(rows)[:zeros], col] = 0
    return tensor


def _deprecated(new):
    old = new.__name__[:-1]

    def f(*args, **kwargs):
        warnings.warn(
            f"nn.init.{old} is deprecated in favor of nn.init.{new.__name__}",
            FutureWarning,
            stacklevel=2,
        )
        return new(*args, **kwargs)

    f.__name__ = f.__qualname__ = old
    f.__doc__ = f"Deprecated name of `{new.__name__}`."
    f.__wrapped__ = new
    return f


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
