"""Recurrent cells and layers in terms of linear and pointwise ops.

Input products of all steps are one matrix product; steps are a loop. A batch that shrinks over
time (a packed sequence) is the general case, a padded one has the same size at every step.
"""

import flambeau
from flambeau import _C

_nn = _C._nn


def rnn_step(act):
    """h' = act(gi + gh)."""

    def step(gi, gh, state):
        return (act(gi + gh),)

    return step


def gru_step(gi, gh, state):
    """r, z = sigmoid(i + h); n = tanh(i_n + r * h_n); h' = n + z * (h - n)."""
    i_r, i_z, i_n = gi.chunk(3, -1)
    h_r, h_z, h_n = gh.chunk(3, -1)
    reset, keep = (i_r + h_r).sigmoid(), (i_z + h_z).sigmoid()
    new = (i_n + reset * h_n).tanh()
    return (new + keep * (state[0] - new),)


def lstm_step(gi, gh, state):
    """c' = sigmoid(f) * c + sigmoid(i) * tanh(g); h' = sigmoid(o) * tanh(c')."""
    i, f, g, o = (gi + gh).chunk(4, -1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return (o.sigmoid() * c.tanh(), c)


_STEPS = {
    "RNN_TANH": rnn_step(lambda x: x.tanh()),
    "RNN_RELU": rnn_step(lambda x: x.relu()),
    "GRU": gru_step,
    "LSTM": lstm_step,
}


_LAYER_DTYPES = (flambeau.float32, flambeau.float64)


def _lstm(data, steps, state, weights, backward):
    """_direction for one op: an LSTM whose batch has one size and whose states are not projected."""
    w_ih, w_hh, b_ih, b_hh, _ = weights
    products = _nn.linear(data, w_ih, b_ih)
    products = products.view(steps, -1, products.size(1))
    out, cells, _ = flambeau._lstm_layer(products, *state, w_hh, b_hh, backward)
    last = 0 if backward else -1
    return out.flatten(0, 1), (out[last], cells[last])


def _direction(mode, data, sizes, state, weights, backward):
    """(outputs of all steps one after the other, last state) of one layer in one direction.

    `sizes` are the batch sizes of the steps, which only fall; `state` has the largest.
    """
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    plain = w_hr is None and sizes[0] == sizes[-1] and data.dtype in _LAYER_DTYPES
    if _C._autocast_is_on():
        # The products are of the lower type, and as in torch the states of an LSTM with them.
        plain = False
        state = tuple(s.to(_C._autocast_dtype()) for s in state) if mode == "LSTM" else state
    if mode == "LSTM" and plain:
        return _lstm(data, len(sizes), state, weights, backward)
    gates = _nn.linear(data, w_ih, b_ih).split(sizes)
    step, outputs, finished = _STEPS[mode], [], []
    start, size = state, sizes[-1] if backward else sizes[0]
    state = tuple(s[:size] for s in start)
    for t in reversed(range(len(sizes))) if backward else range(len(sizes)):
        if sizes[t] < size:
            finished.append(tuple(s[sizes[t] :] for s in state))
            state = tuple(s[: sizes[t]] for s in state)
        elif sizes[t] > size:  # backwards, longer sequences join as time goes back
            state = tuple(flambeau.cat([s, b[size : sizes[t]]]) for s, b in zip(state, start))
        size = sizes[t]
        state = step(gates[t], _nn.linear(state[0], w_hh, b_hh), state)
        if w_hr is not None:
            state = (_nn.linear(state[0], w_hr), *state[1:])
        outputs.append(state[0])
    if backward:
        outputs.reverse()
    pieces = [state, *reversed(finished)]
    last = tuple(flambeau.cat(p) if len(p) > 1 else p[0] for p in zip(*pieces))
    return flambeau.cat(outputs), last


def _unpack(params, per_layer, has_biases, projected):
    """Parameters as (w_ih, w_hh, b_ih, b_hh, w_hr) per layer and direction."""
    for i in range(0, len(params), per_layer):
        group = params[i : i + per_layer]
        biases = group[2:4] if has_biases else (None, None)
        yield (*group[:2], *biases, group[-1] if projected else None)


def layers(mode, data, sizes, state, params, has_biases, num_layers, dropout, train, bidirectional):
    """All layers over `data`, the steps one after the other; `state` (layers * directions, N, *)."""
    directions = 2 if bidirectional else 1
    per_layer = len(params) // (num_layers * directions)
    projected = per_layer == (5 if has_biases else 3)
    weights = list(_unpack(params, per_layer, has_biases, projected))
    last = []
    for layer in range(num_layers):
        outputs = []
        for d in range(directions):
            k = layer * directions + d
            start = tuple(s[k] for s in state)
            out, end = _direction(mode, data, sizes, start, weights[k], d == 1)
            outputs.append(out)
            last.append(end)
        data = outputs[0] if directions == 1 else flambeau.cat(outputs, -1)
        if dropout > 0 and train and layer < num_layers - 1:
            data = flambeau.dropout(data, dropout, True)
    return (data, *(flambeau.stack(s) for s in zip(*last)))


def padded(mode, input, state, params, has_biases, n, dropout, train, bidirectional, batch_first):
    """`layers` over (T, N, *), or (N, T, *) with batch_first."""
    if batch_first:
        input = input.transpose(0, 1)
    steps, batch = input.shape[:2]
    data = input.reshape(steps * batch, input.size(2))
    out, *last = layers(
        mode, data, [batch] * steps, state, params, has_biases, n, dropout, train, bidirectional
    )
    out = out.view(steps, batch, out.size(1))
    return (out.transpose(0, 1) if batch_first else out, *last)
