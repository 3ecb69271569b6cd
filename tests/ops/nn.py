"""Test rows of convolution, pooling, normalisation, softmax and losses: by their definitions, in plain loops."""

import itertools
import math

import numpy as np

from tests.ops.rows import FLOATS, HALVES, Op, S, V, error

TOL = {"float32": 2e-5, "float16": 2e-2, "bfloat16": 2e-1, "float64": 1e-10}


def each(value, dims):
    return [value] * dims if isinstance(value, int) else list(value)


def conv(x, w, b=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolution of (n, c, *) by the definition."""
    dims = w.ndim - 2
    batched = x.ndim == w.ndim
    x = x if batched else x[None]
    stride, dilation = each(stride, dims), each(dilation, dims)
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, w.shape[2:])]
        pad = [(t // 2, t - t // 2) for t in total]
    else:
        pad = [(p, p) for p in each(0 if padding == "valid" else padding, dims)]
    x = np.pad(x, [(0, 0), (0, 0), *pad])
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:])]
    size = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, stride)]
    out = np.zeros((x.shape[0], w.shape[0], *size))
    per_in, per_out = w.shape[1], w.shape[0] // groups
    for place in itertools.product(*map(range, size)):
        cut = tuple(
            slice(p * s, p * s + r, d) for p, s, r, d in zip(place, stride, reach, dilation)
        )
        for o in range(w.shape[0]):
            first = o // per_out * per_in
            window = x[(slice(None), slice(first, first + per_in), *cut)]
            out[(slice(None), o, *place)] = (window * w[o]).reshape(x.shape[0], -1).sum(1)
    if b is not None:
        out += b.reshape(-1, *[1] * dims)
    return out if batched else out[0]


def conv_transpose(x, w, b=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    dims = w.ndim - 2
    stride, padding, extra, dilation = (
        each(v, dims) for v in (stride, padding, output_padding, dilation)
    )
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:])]
    full = [(n - 1) * s + r + e for n, s, r, e in zip(x.shape[2:], stride, reach, extra)]
    per_in = w.shape[0] // groups
    out = np.zeros((x.shape[0], w.shape[1] * groups, *full))
    for place in itertools.product(*map(range, x.shape[2:])):
        cut = tuple(
            slice(p * s, p * s + r, d) for p, s, r, d in zip(place, stride, reach, dilation)
        )
        for i in range(w.shape[0]):
            first = i // per_in * w.shape[1]
            value = x[(slice(None), i, *place)].reshape(-1, *[1] * (dims + 1))
            out[(slice(None), slice(first, first + w.shape[1]), *cut)] += value * w[i]
    out = out[(slice(None), slice(None), *(slice(p, n - p) for p, n in zip(padding, full)))]
    return out if b is None else out + b.reshape(-1, *[1] * dims)


def windows(x, kernel, stride, padding, fill):
    """Every window of the last dims, as (place, values)."""
    dims = len(kernel)
    x = np.pad(x, [(0, 0)] * (x.ndim - dims) + [(p, p) for p in padding], constant_values=fill)
    size = [(n - k) // s + 1 for n, k, s in zip(x.shape[-dims:], kernel, stride)]
    for place in itertools.product(*map(range, size)):
        cut = tuple(slice(p * s, p * s + k) for p, s, k in zip(place, stride, kernel))
        yield size, place, x[(..., *cut)].reshape(*x.shape[:-dims], -1)


def pool(reduce, fill, dims):
    def run(x, kernel_size, stride=None, padding=0, *rest):
        kernel, padding = each(kernel_size, dims), each(padding, dims)
        stride = each(stride, dims) if stride else kernel
        out = None
        for size, place, values in windows(x, kernel, stride, padding, fill):
            out = np.zeros((*x.shape[:-dims], *size)) if out is None else out
            out[(..., *place)] = reduce(values)
        return out

    return run


def adaptive(dims):
    def run(x, output_size):
        size = each(output_size, dims)
        out = np.zeros((*x.shape[:-dims], *size))
        for place in itertools.product(*map(range, size)):
            cut = [
                slice(p * n // s, -(-(p + 1) * n // s))
                for p, s, n in zip(place, size, x.shape[-dims:])
            ]
            out[(..., *place)] = x[(..., *cut)].mean(tuple(range(-dims, 0)))
        return out

    return run


mean_of, max_of = (lambda v: v.mean(-1)), (lambda v: v.max(-1))


def standard(x, axis, weight=None, bias=None, eps=1e-5, shape=None):
    y = (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + eps)
    shape = shape or [1] * x.ndim
    if weight is not None:
        y = y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def batch_norm(x, w, b, mean, var, training, momentum, eps, *rest):
    shape = [1, -1] + [1] * (x.ndim - 2)
    axis = (0, *range(2, x.ndim))
    if training:
        return standard(x, axis, w, b, eps, shape)
    y = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + eps)
    return y * w.reshape(shape) + b.reshape(shape)


def group_norm(x, groups, weight=None, bias=None, eps=1e-5, *rest):
    y = standard(x.reshape(x.shape[0], groups, -1), 2, eps=eps).reshape(x.shape)
    shape = [1, -1] + [1] * (x.ndim - 2)
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def layer_norm(x, size, weight=None, bias=None, eps=1e-5, *rest):
    y = standard(x, tuple(range(-len(size), 0)), eps=eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def rms_norm(x, size, weight=None, eps=1e-5):
    y = x / np.sqrt((x * x).mean(tuple(range(-len(size), 0)), keepdims=True) + eps)
    return y if weight is None else y * weight


def softmax(x, dim):
    e = np.exp(x - x.max(dim, keepdims=True))
    return e / e.sum(dim, keepdims=True)


def nll(x, target, weight=None, reduction=1, ignore=-100, *rest):
    losses, weights = [], []
    x = x if x.ndim > 1 else x[None]
    target = np.atleast_1d(target)
    for place in np.ndindex(*target.shape):
        t = target[place]
        w = 0.0 if t == ignore else 1.0 if weight is None else weight[t]
        losses.append(-w * x[(place[0], 0 if t == ignore else t, *place[1:])])
        weights.append(w)
    losses = np.array(losses).reshape(target.shape)
    return losses if reduction == 0 else losses.sum() / (sum(weights) if reduction == 1 else 1.0)


def cross_entropy(x, target, weight=None, reduction=1, ignore=-100, smoothing=0.0):
    logs = np.log(softmax(x, 1 if x.ndim > 1 else 0))
    if smoothing == 0.0:
        return nll(logs, target, weight, reduction, ignore)
    plain = nll(logs, target, weight, reduction, ignore)
    spread = -logs.sum(1) / x.shape[1]
    return (1 - smoothing) * plain + smoothing * spread.mean()


def nn(name, ref, *samples, dtypes=FLOATS + HALVES, **kw):
    return Op(name, list(samples), ref, dtypes, tol=TOL, inplace=False, **kw)


CLASSES = V([1, 0, 3])
BAD_CLASS = [
    error((3, 5), V([0, 7, 2]), type=IndexError, match=r"target 7 at \(1,\) is outside \[0, 5\)")
]

OPS = [
    nn("_convolution_weight", None, S((2, 3, 4), (2, 2, 6), [3, 2, 3], [1], [0], [1], False, 1)),
    nn(
        "conv_tbc",
        lambda x, w, b, pad=0: conv(
            x.transpose(1, 2, 0), w.transpose(2, 1, 0), b, 1, pad
        ).transpose(2, 0, 1),
        S((5, 2, 3), (2, 3, 4), (4,)),
        S((3, 1, 2), (3, 2, 1), (1,), 1),
        errors=[error((5, 2), (2, 3, 4), (4,), type=RuntimeError, match=r"got \(5, 2\)")],
    ),
    nn(
        "conv1d",
        conv,
        S((2, 4, 7), (6, 2, 3), (6,), 2, 1, 1, 2),
        S((4, 7), (3, 4, 2)),
        S((1, 2, 5), (3, 2, 3), None, 1, "same"),
    ),
    nn(
        "conv2d",
        conv,
        S((2, 3, 5, 6), (4, 3, 3, 2), (4,), [2, 1], [1, 0]),
        S((1, 4, 6, 6), (4, 1, 3, 3), None, 1, 2, 2, 4),
        errors=[
            error((1, 3, 5, 5), (4, 2, 3, 3), type=RuntimeError, match="needs 2 input channels")
        ],
    ),
    nn("conv3d", conv, S((1, 2, 4, 4, 3), (3, 2, 2, 3, 2), (3,), 1, 1)),
    nn("conv_transpose1d", conv_transpose, S((2, 4, 5), (4, 3, 3), (6,), 2, 1, 1, 2)),
    nn("conv_transpose2d", conv_transpose, S((1, 2, 3, 4), (2, 3, 3, 2), (3,), [2, 1], [1, 0])),
    nn("conv_transpose3d", conv_transpose, S((1, 2, 2, 3, 2), (2, 2, 2, 2, 2))),
    nn(
        "convolution",
        lambda x, w, b, *rest: conv(x, w, b),
        S((1, 2, 5), (3, 2, 2), (3,), [1], [0], [1], False, [0], 1),
    ),
    nn("_adaptive_avg_pool", adaptive(2), S((1, 2, 5, 6), [3, 2]), out=False),
    nn("_adaptive_avg_pool_grad", None, S((1, 2, 3), [1, 2, 5])),
    nn("_avg_pool", pool(mean_of, 0, 1), S((1, 2, 7), [3], [2], [1], False, True, 0)),
    nn("_avg_pool_grad", None, S((1, 2, 4), [1, 2, 7], [3], [2], [1], False, True, 0)),
    nn("_max_pool", None, S((1, 2, 7), [3], [2], [1], [1], False)),
    nn("_max_pool_gather", None, S((1, 2, 5), V([[[0, 4], [2, 2]]]))),
    nn("_max_pool_grad", None, S((1, 2, 2), V([[[0, 4], [2, 2]]]), [1, 2, 5])),
    nn("adaptive_avg_pool1d", adaptive(1), S((2, 3, 7), 3), S((3, 7), 2)),
    nn("adaptive_avg_pool2d", adaptive(2), S((1, 2, 5, 6), [2, 3])),
    nn("adaptive_avg_pool3d", adaptive(3), S((1, 2, 3, 4, 5), 2)),
    nn("avg_pool1d", pool(mean_of, 0, 1), S((2, 3, 7), 3, 2, 1), S((3, 6), 2)),
    nn(
        "avg_pool2d",
        pool(mean_of, 0, 2),
        S((1, 2, 5, 6), 2),
        S((1, 2, 5, 6), [3, 2], 1, 1),
        errors=[error((2, 0, 2, 2), 1, type=RuntimeError, match="only the batch may be empty")],
    ),
    nn("avg_pool3d", pool(mean_of, 0, 3), S((1, 2, 4, 4, 4), 2)),
    nn(
        "max_pool1d",
        pool(max_of, -np.inf, 1),
        S((2, 3, 7), 3, 2, 1),
        errors=[
            error((1, 1, 4), 2, 2, 2, type=RuntimeError, match="half the kernel"),
            error((0, 4), 1, type=RuntimeError, match=r"only the batch may be empty.*\(1, 0, 4\)"),
        ],
    ),
    nn("max_pool1d_with_indices", None, S((2, 3, 7), 3)),
    nn("max_pool2d", pool(max_of, -np.inf, 2), S((1, 2, 5, 6), 2), S((1, 2, 5, 6), [3, 2], 1, 1)),
    nn("max_pool2d_with_indices", None, S((1, 2, 5, 6), 2)),
    nn(
        "max_pool3d",
        pool(max_of, -np.inf, 3),
        S((1, 2, 4, 4, 4), 2),
        errors=[error((0, 1, 2, 3), 1, type=RuntimeError, match="only the batch may be empty")],
    ),
    nn("max_pool3d_with_indices", None, S((1, 2, 4, 4, 4), 2)),
    nn("_batch_norm", None, S((4, 3), (3,), (3,), None, None, True, 0.1, 1e-5), out=False),
    nn("_group_norm", None, S((2, 4, 3), (4,), (4,), 2, 1e-5), out=False),
    nn("_layer_norm", None, S((2, 3, 4), [4], (4,), (4,), 1e-5, True), out=False),
    nn(
        "batch_norm",
        batch_norm,
        S((4, 3), (3,), (3,), None, None, True, 0.1, 1e-5, False),
        S((2, 3, 2, 2), (3,), (3,), (3,), (3,), False, 0.1, 1e-5, False, low_=0.5, grad_=False),
        dtypes=("float32", "float64"),
    ),
    nn("group_norm", group_norm, S((2, 4, 3), 2, (4,), (4,)), S((2, 4), 4)),
    nn(
        "instance_norm",
        lambda x, *rest: standard(x, 2),
        S((2, 3, 5), None, None, None, None, True, 0.1, 1e-5, False),
    ),
    nn(
        "layer_norm",
        layer_norm,
        S((2, 3, 4), [4], (4,), (4,)),
        S((2, 3, 4), [3, 4]),
        errors=[
            error((2, 3), [4], type=RuntimeError, match=r"must end in \(4,\), got shape \(2, 3\)")
        ],
    ),
    nn("native_batch_norm", None, S((4, 3), (3,), (3,), None, None, True, 0.1, 1e-5)),
    nn("native_group_norm", None, S((2, 4, 3), (4,), (4,), 2, 4, 3, 2, 1e-5)),
    nn("native_layer_norm", None, S((2, 3, 4), [4], (4,), (4,), 1e-5)),
    nn("rms_norm", rms_norm, S((2, 3, 4), [4], (4,), 1e-5)),
    nn("_softmax_backward", None, S((3, 4), (3, 4), 1, False), S((3, 4), (3, 4), 0, True)),
    nn("log_softmax", lambda x, dim: np.log(softmax(x, dim)), S((3, 5), dim=1), S((4, 3), dim=0)),
    nn(
        "softmax",
        softmax,
        S((3, 5), dim=1),
        S((4, 3), dim=0),
        S((1, 70_00), dim=1),
        errors=[error((3, 5), dim=2, type=IndexError, match=r"dim must be in \[-2, 1\], got 2")],
    ),
    nn("_cross_entropy", None, S((3, 5), CLASSES, None, 1, -100, 0.1), out=False),
    nn("_nll_loss", None, S((3, 5), CLASSES, None, 1, -100), out=False),
    nn(
        "cross_entropy_loss",
        cross_entropy,
        S((3, 5), CLASSES),
        S((3, 5), CLASSES, (5,), 2, low_=0.1, grad_=False),
        S((3, 5), CLASSES, None, 0, 3),
        S((3, 5), CLASSES, None, 1, -100, 0.2),
        S((2, 4, 3), V([[0, 1, 2], [3, 3, 0]])),
        errors=BAD_CLASS,
    ),
    nn(
        "nll_loss",
        nll,
        S((3, 5), CLASSES),
        S((3, 5), CLASSES, (5,), 1, low_=0.1, grad_=False),
        S((5,), V(2)),
        errors=BAD_CLASS,
    ),
    nn("nll_loss2d", nll, S((2, 4, 1, 3), V([[[0, 1, 2]], [[3, 3, 0]]]))),
    nn("nll_loss_nd", nll, S((2, 4, 3), V([[0, 1, 2], [3, 3, 0]]))),
]
assert math.isclose(cross_entropy(np.zeros((1, 2)), np.array([0])), math.log(2))
