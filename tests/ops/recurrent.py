"""Test rows of ops/recurrent.toml and attention.toml."""

import numpy as np

from tests.ops.rows import FLOATS, E, Op, S, V, error


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gates(x, h, w_ih, w_hh, b_ih=0, b_hh=0):
    return x @ w_ih.T + b_ih, h @ w_hh.T + b_hh


def lstm(x, hx, *weights):
    i, f, g, o = np.split(sum(gates(x, hx[0], *weights)), 4, -1)
    cell = sigmoid(f) * hx[1] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


def gru(x, h, *weights):
    a, b = (np.split(part, 3, -1) for part in gates(x, h, *weights))
    reset, update = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
    fresh = np.tanh(a[2] + reset * b[2])
    return fresh + update * (h - fresh)


def samples(k):
    return [
        S((2, 4), (2, 3), (3 * k, 4), (3 * k, 3), (3 * k,), (3 * k,)),
        S((4,), (3,), (3 * k, 4), (3 * k, 3)),
    ]


def scores_of(q, k, mask=None, is_causal=False, scale=None):
    scores = q @ np.swapaxes(k, -1, -2) * (scale or q.shape[-1] ** -0.5)
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    if mask is not None:
        scores = scores + mask
    return scores


def attention(q, k, v, *rest, **options):
    scores = scores_of(q, k, *rest, **options)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def attention_and_sums(q, k, v, *rest):
    sums = np.log(np.exp(scores_of(q, k, *rest)).sum(-1))
    return np.swapaxes(attention(q, k, v, *rest), 1, 2), sums


WRONG = [error((2, 4), (3, 3), (3, 4), (3, 3), type=RuntimeError, match="one batch size")]
HEADS = ((2, 5, 4), (2, 6, 4), (2, 6, 3))


def cell_step(mode, x, sums, h, c):
    """(state, cell, what the kernel keeps) after one step of one sequence."""
    if mode == "lstm":
        i, f, g, o = np.split(x + sums, 4, -1)
        i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
        c = f * c + i * g
        return o * np.tanh(c), c, [i, f, g, o]
    if mode == "gru":
        a, b = np.split(x, 3, -1), np.split(sums, 3, -1)
        reset, update = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
        fresh = np.tanh(a[2] + reset * b[2])
        return fresh + update * (h - fresh), c, [reset, update, fresh, b[2]]
    return (np.tanh if mode == "rnn_tanh" else lambda v: np.maximum(v, 0))(x + sums), c, []


def layer(x, h, c, w, b, w_hr, sizes, mode, reverse, for_backward):
    none, last = np.empty(0), h.copy()
    last_cell = none if c is None else c.copy()
    units = len(w) // {"lstm": 4, "gru": 3}.get(mode, 1)
    output, cells = np.empty((len(x), h.shape[1])), np.empty((len(x), units))
    kept = np.empty((len(x), 4 * units))
    starts = np.cumsum([0, *sizes])
    for t in reversed(range(len(sizes))) if reverse else range(len(sizes)):
        for n in range(sizes[t]):
            row, cell = starts[t] + n, None if c is None else last_cell[n]
            sums = last[n] @ w.T + (0 if b is None else b)
            state, cell, keep = cell_step(mode, x[row], sums, last[n], cell)
            last[n] = output[row] = state if w_hr is None else state @ w_hr.T
            if c is not None:
                last_cell[n] = cells[row] = cell
            if keep:
                kept[row] = np.concatenate(keep)
    has_cells = for_backward and c is not None
    keeps = for_backward and mode in ("lstm", "gru")
    return output, last, last_cell, cells if has_cells else none, kept if keeps else none


def layer_samples():
    for mode, k in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
        for sizes, h, bias, reverse in (([2, 2, 2], 3, True, False), ([3, 2, 1], 3, None, True)):
            n, total = sizes[0], sum(sizes)
            cell = (n, h) if mode == "lstm" else None
            rest = ((k * h,) if bias else None, None, sizes, mode, reverse, True)
            yield S((total, k * h), (n, h), cell, (k * h, h), *rest)
    # Several panels, tiles and rows enough for both; a projection; nothing kept.
    yield S((30, 80), (9, 20), (9, 20), (80, 20), (80,), None, [9, 9, 7, 5], "lstm", False, True)
    yield S((12, 120), (6, 40), None, (120, 40), None, None, [6, 4, 2], "gru", True, True)
    yield S((5, 16), (3, 2), (3, 4), (16, 2), None, (2, 4), [3, 2], "lstm", False, True)
    yield S((9, 80), (5, 3), (5, 20), (80, 3), (80,), (3, 20), [5, 4], "lstm", True, True)
    yield S((2, 3), (1, 1), None, (3, 1), None, None, [1, 1], "gru", False, False)


def net(mode, data, batch_sizes, hx, params, has_biases, layers, train, bidirectional):
    """(output, last states, last cells) over the rows of all steps."""
    hx = hx if mode == "lstm" else [hx, None]
    directions = 2 if bidirectional else 1
    per, ends = len(params) // (layers * directions), []
    for k in range(layers * directions):
        if k % directions == 0:
            inputs, data = data, []
        w_ih, w_hh, *rest = params[k * per : (k + 1) * per]
        b_ih, b_hh = rest[:2] if has_biases else (0, None)
        w_hr = rest[-1] if per == (5 if has_biases else 3) else None
        c = None if hx[1] is None else hx[1][k]
        sizes = [int(n) for n in batch_sizes]
        start = (inputs @ w_ih.T + b_ih, hx[0][k], c, w_hh, b_hh, w_hr, sizes)
        output, *end = layer(*start, mode, k % directions == 1, False)
        data.append(output)
        ends.append(end[:2])
        if k % directions == directions - 1:
            data = np.concatenate(data, -1)
    last = tuple(np.stack(part) for part in zip(*ends))
    return (data, *last[: 2 if mode == "lstm" else 1])


def layers(mode):
    """The reference of the op `mode` over padded and packed input alike."""

    def run(x, *args):
        if not isinstance(args[0], list) and args[0].ndim == 1:  # packed
            sizes, hx, params, has_biases, n, _, train, bidirectional = args
            return net(mode, x, sizes, hx, params, has_biases, n, train, bidirectional)
        hx, params, has_biases, n, _, train, bidirectional, batch_first = args
        x = np.swapaxes(x, 0, 1) if batch_first else x
        steps, batch = x.shape[:2]
        rows, sizes = x.reshape(steps * batch, -1), [batch] * steps
        out, *last = net(mode, rows, sizes, hx, params, has_biases, n, train, bidirectional)
        out = out.reshape(steps, batch, -1)
        return (np.swapaxes(out, 0, 1) if batch_first else out, *last)

    return run


def net_op(mode, k):
    def params(inputs, h, biases, count, p=None):
        for i in range(count):
            yield from [(k * h, inputs if i == 0 else p or h), (k * h, p or h)]
            yield from [(k * h,), (k * h,)] if biases else []
            yield from [(p, h)] if p else []

    def state(*shape, p=None):
        return [(*shape[:2], p or shape[2]), shape] if mode == "lstm" else shape

    both = [*params(2, 3, False, 1), *params(2, 3, False, 1)]
    samples = [
        S(
            (4, 2, 2),
            state(2, 2, 3),
            list(params(2, 3, True, 2)),
            True,
            2,
            0.0,
            False,
            False,
            False,
        ),
        S((2, 3, 2), state(2, 2, 3), both, False, 1, 0.0, True, True, True),
        S(
            (6, 2),
            V([3, 2, 1]),
            state(1, 3, 3),
            [*params(2, 3, True, 1)],
            True,
            1,
            0.0,
            True,
            False,
        ),
        S((3, 2), V([2, 1]), state(2, 2, 3), both, False, 1, 0.0, False, True),
    ]
    if mode == "lstm":
        weights = list(params(2, 3, True, 1, p=2))
        hx = state(1, 2, 3, p=2)
        samples.append(S((4, 2, 2), hx, weights, True, 1, 0.0, False, False, False))
    few = S((4, 2, 2), state(1, 2, 3), [(k * 3, 2)] * 3, True, 1, 0.0, False, False, False)
    wrong = S((4, 2, 2), state(1, 3, 3), both[:2], False, 1, 0.0, False, False, False)
    errors = [E(few, RuntimeError, "parameters each"), E(wrong, RuntimeError, "must have shape")]
    # The values of batch_sizes are sizes: none are known on the meta device.
    return Op(mode, samples, layers(mode), strided=False, meta=False, errors=errors)


OPS = [
    Op(
        "_recurrent_layer",
        list(layer_samples()),
        layer,
        FLOATS,
        errors=[
            error((4, 3), (2, 3), (2, 4), (3, 3), *rest, type=RuntimeError, match="do not fit")
            for rest in [(None, None, [2, 2], "rnn_tanh", False, True)]
        ]
        + [
            error((3, 3), (2, 3), None, (3, 3), None, None, sizes, mode, False, True, **how)
            for sizes, mode, how in (
                ([1, 2], "rnn_tanh", {"type": RuntimeError, "match": "rows of hx"}),
                ([2, 3], "rnn_tanh", {"type": RuntimeError, "match": "must fall"}),
                ([2, 2], "rnn_relu", {"type": RuntimeError, "match": "rows of all steps"}),
                ([2, 1], "rnn", {"type": ValueError, "match": "mode must be"}),
            )
        ],
    ),
    net_op("gru", 3),
    net_op("lstm", 4),
    net_op("rnn_relu", 1),
    net_op("rnn_tanh", 1),
    Op(
        "_attention",
        [
            S((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 2), None, False, 0.5),
            S((1, 2, 300, 4), (1, 2, 140, 4), (1, 2, 140, 2), None, True, 0.5, grad_=False),
            S((1, 1, 5, 4), (1, 1, 6, 4), (1, 1, 6, 2), (1, 1, 5, 6), False, 1.0, grad_=False),
        ],
        attention_and_sums,
        FLOATS,
        out=False,
        errors=[
            error(
                (1, 1, 2, 3),
                (1, 1, 2, 4),
                (1, 1, 2, 4),
                None,
                False,
                1.0,
                type=RuntimeError,
                match="are needed, got",
            )
        ],
    ),
    Op("gru_cell", samples(3), gru, FLOATS),
    Op(
        "lstm_cell",
        [S((2, 4), [(2, 3), (2, 3)], (12, 4), (12, 3), (12,), (12,))],
        lstm,
        FLOATS,
        strided=False,
    ),
    Op("rnn_relu_cell", samples(1), lambda *a: np.maximum(sum(gates(*a)), 0), FLOATS),
    Op("rnn_tanh_cell", samples(1), lambda *a: np.tanh(sum(gates(*a))), FLOATS, errors=WRONG),
    Op(
        "scaled_dot_product_attention",
        [
            S(*HEADS),
            S(*HEADS, (5, 6)),
            S(*HEADS, is_causal=True),
            S(*HEADS, scale=0.5),
            S((1, 300, 4), (1, 140, 4), (1, 140, 2), is_causal=True, grad_=False),
        ],
        attention,
        FLOATS,
        errors=[error((3,), (3,), (3,), type=RuntimeError, match="at least 2 dims")],
    ),
]
