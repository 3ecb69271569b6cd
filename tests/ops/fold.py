"""Test rows of ops/fold.toml: windows as columns, channels shuffled, sequences without padding."""

import numpy as np

from tests.ops.rows import COMPLEX, FLOATS, HALVES, INTS, Op, S, V, error


def window_places(n, k, dilation, pad, stride):
    count = (n + 2 * pad - dilation * (k - 1) - 1) // stride + 1
    return [[i * stride + j * dilation for i in range(count)] for j in range(k)]


def im2col_ref(x, kernel, dilation, pad, stride):
    if x.ndim == 3:
        return im2col_ref(x[None], kernel, dilation, pad, stride)[0]
    rows, cols = (
        window_places(x.shape[d + 2], kernel[d], dilation[d], pad[d], stride[d]) for d in (0, 1)
    )
    x = np.pad(x, [(0, 0), (0, 0), (pad[0],) * 2, (pad[1],) * 2])
    parts = [x[:, :, r][..., c].reshape(len(x), x.shape[1], -1) for r in rows for c in cols]
    return np.stack(parts, 2).reshape(len(x), -1, parts[0].shape[-1])


def col2im_ref(x, size, kernel, dilation, pad, stride):
    """The transpose of im2col, applied to a basis of images."""
    if x.ndim == 2:
        return col2im_ref(x[None], size, kernel, dilation, pad, stride)[0]
    basis = np.eye(size[0] * size[1]).reshape(-1, 1, *size)
    matrix = im2col_ref(basis, kernel, dilation, pad, stride)
    window = matrix.shape[1]
    x = x.reshape(len(x), -1, window, x.shape[-1])
    return np.einsum("ncwl,pwl->ncp", x, matrix).reshape(len(x), -1, *size)


def shuffle_ref(x, groups):
    shape = x.shape
    x = x.reshape(shape[0], groups, shape[1] // groups, *shape[2:])
    return np.swapaxes(x, 1, 2).reshape(shape)


def packed_ref(x, lengths, batch_first):
    x = np.swapaxes(x, 0, 1) if batch_first else x
    sizes = [sum(n > t for n in lengths) for t in range(max(lengths))]
    return np.concatenate([x[t, :n] for t, n in enumerate(sizes)]), np.array(sizes)


def padded_ref(data, sizes, batch_first, value, total):
    steps, batch = max(len(sizes), total), sizes[0]
    out = np.full((steps, batch) + data.shape[1:], value, dtype=data.dtype)
    start = 0
    for t, n in enumerate(sizes):
        out[t, :n] = data[start : start + n]
        start += n
    lengths = np.array([sum(n > i for n in sizes) for i in range(batch)])
    return (np.swapaxes(out, 0, 1) if batch_first else out), lengths


ALL = FLOATS + HALVES + INTS + COMPLEX
SETTINGS = [
    ([2, 3], [1, 1], [0, 0], [1, 1]),
    ([2, 2], [2, 1], [1, 2], [2, 1]),
    ([3, 1], [1, 1], [1, 0], [2, 3]),
]
L321, L2 = V([3, 2, 1]), V([2, 2])


def shuffles(name):
    return Op(
        name,
        [S((2, 6, 2), 3), S((1, 4, 2, 3), 2), S((0, 4, 2), 4)],
        shuffle_ref,
        ALL,
        exact=True,
        out=False,
        errors=[error((1, 4, 2), 3, type=RuntimeError, match="4 channels, got 3")],
    )


OPS = [
    Op(
        "_pack_padded_sequence",
        [S((3, 3, 2), L321, False), S((2, 4, 1), L2, True), S((4, 2), L2, False)],
        packed_ref,
        ALL,
        exact=True,
        errors=[
            error((3, 2), V([1, 2]), False, type=RuntimeError, match="got 2 after 1"),
            error((3, 2), V([4, 2]), False, type=RuntimeError, match="3 steps .*got 4"),
        ],
    ),
    Op(
        "_pad_packed_sequence",
        [S((6, 2), L321, False, 0.0, 0), S((4,), L2, True, 7.0, 3)],
        padded_ref,
        FLOATS,
        exact=True,
        errors=[error((5,), L321, False, 0.0, 0, type=RuntimeError, match="6 rows")],
    ),
    shuffles("channel_shuffle"),
    Op(
        "col2im",
        [
            S((2, 12, 9), [4, 5], *SETTINGS[0]),
            S((1, 4, 16), [4, 5], *SETTINGS[1], strided_=True),
            S((3, 4), [4, 5], *SETTINGS[2]),
        ],
        col2im_ref,
        out=False,
        errors=[
            error((1, 4, 3), [4, 5], *SETTINGS[0], type=RuntimeError, match="6 elements"),
            error((1, 6, 3), [4, 5], *SETTINGS[0], type=RuntimeError, match="got 3 columns"),
        ],
    ),
    Op(
        "im2col",
        [
            S((2, 2, 4, 5), *SETTINGS[0]),
            S((1, 1, 4, 5), *SETTINGS[1], strided_=True),
            S((1, 4, 5), *SETTINGS[2]),
        ],
        im2col_ref,
        ALL,
        exact=True,
        out=False,
        errors=[
            error((1, 1, 1, 5), *SETTINGS[0], type=RuntimeError, match="kernel of 2 .* 1 elements")
        ],
    ),
    shuffles("native_channel_shuffle"),
]
