"""Test rows of ops/recurrent.toml and attention.toml."""

import numpy as np

from tests.ops.rows import FLOATS, Op, S, error


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


def lstm_layer(x, h, c, w, b, reverse):
    states, cells, acts = (
        np.empty(x.shape[:2] + (n,)) for n in (h.shape[1], h.shape[1], x.shape[2])
    )
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        i, f, g, o = np.split(x[t] + h @ w.T + (0 if b is None else b), 4, -1)
        i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
        c = f * c + i * g
        h = o * np.tanh(c)
        states[t], cells[t], acts[t] = h, c, np.concatenate([i, f, g, o], -1)
    return states, cells, acts


OPS = [
    Op(
        "_lstm_layer",
        [
            S((4, 2, 12), (2, 3), (2, 3), (12, 3), (12,), False),
            S((3, 2, 80), (2, 20), (2, 20), (80, 20), None, True),
            S((1, 1, 4), (1, 1), (1, 1), (4, 1), None, False),
        ],
        lstm_layer,
        FLOATS,
        out=False,
        errors=[
            error(
                (2, 2, 12),
                (2, 3),
                (2, 4),
                (12, 3),
                None,
                False,
                type=RuntimeError,
                match="do not fit",
            )
        ],
    ),
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
