"""Recurrent layers and cells."""

from __future__ import annotations

import math
import numbers
import warnings

import flambeau
from flambeau import Tensor
from flambeau.nn import init
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _apply_permutation(tensor, permutation, dim=1):
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor, permutation, dim=1):
    """Deprecated: `tensor.index_select(dim, permutation)`."""
    warnings.warn(
        "apply_permutation is deprecated, use tensor.index_select(dim, permutation)",
        FutureWarning,
        stacklevel=2,
    )
    return _apply_permutation(tensor, permutation, dim)


class RNNBase(Module):
    """What RNN, LSTM and GRU share: parameters of all layers and directions, checks, packing.

    Parameters of layer k: weight_ih_lk (gates * H, in), weight_hh_lk (gates * H, H or proj_size),
    bias_ih_lk, bias_hh_lk (gates * H,), weight_hr_lk (proj_size, H); backwards with `_reverse`.
    """

    __constants__ = [
        "mode",
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ]
    __jit_unused_properties__ = ["all_weights"]

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._check_options(dropout)
        self._flat_weights_names = []
        self._all_weights = []
        self._make_parameters({"device": device, "dtype": dtype})
        self.reset_parameters()

    def _check_options(self, dropout) -> None:
        if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1:
            raise ValueError(f"{self.mode}: dropout must be a number in [0, 1], got {dropout!r}")
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={self.num_layers}",
                stacklevel=4,
            )
        for name in ("input_size", "hidden_size"):
            if not isinstance(getattr(self, name), int):
                kind = type(getattr(self, name)).__name__
                raise TypeError(f"{name} should be of type int, got: {kind}")
        if self.hidden_size <= 0:
            raise ValueError(f"hidden_size must be greater than zero, got {self.hidden_size}")
        if self.num_layers <= 0:
            raise ValueError(f"num_layers must be greater than zero, got {self.num_layers}")
        if self.proj_size < 0:
            raise ValueError(f"proj_size must not be negative, got {self.proj_size}")
        if self.proj_size >= self.hidden_size:
            raise ValueError(
                f"proj_size must be smaller than hidden_size {self.hidden_size}, "
                f"got {self.proj_size}"
            )
        if self.mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    def _make_parameters(self, new) -> None:
        rows = _GATES[self.mode] * self.hidden_size
        out = self.proj_size or self.hidden_size
        directions = 2 if self.bidirectional else 1
        for layer in range(self.num_layers):
            inputs = self.input_size if layer == 0 else out * directions
            for suffix in ("", "_reverse")[:directions]:
                shapes = {"weight_ih": (rows, inputs), "weight_hh": (rows, out)}
                if self.bias:
                    shapes["bias_ih"] = shapes["bias_hh"] = (rows,)
                if self.proj_size > 0:
                    shapes["weight_hr"] = (self.proj_size, self.hidden_size)
                names = [f"{kind}_l{layer}{suffix}" for kind in shapes]
                for name, shape in zip(names, shapes.values()):
                    setattr(self, name, Parameter(flambeau.empty(shape, **new)))
                self._flat_weights_names += names
                self._all_weights.append(names)

    @property
    def _flat_weights(self):
        """The parameters in the order in which the operators take them."""
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @property
    def all_weights(self):
        """The parameters, one list per layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Does nothing: the kernels take the parameters where they are."""

    def reset_parameters(self) -> None:
        """Draws all parameters from U(-k, k) with k = 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raises if `input` has a wrong dtype, number of dimensions or features."""
        dtype = getattr(self, self._flat_weights_names[0]).dtype
        if input.dtype != dtype and not flambeau.is_autocast_enabled():
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). "
                f"Convert input: input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        dims = 3 if batch_sizes is None else 2
        if input.dim() != dims:
            raise RuntimeError(f"input must have {dims} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, "
                f"got {input.size(-1)}"
            )

    def _batch(self, input, batch_sizes) -> int:
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return input.size(0) if self.batch_first else input.size(1)

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """(layers * directions, batch, hidden or proj_size)."""
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return (layers, self._batch(input, batch_sizes), self.proj_size or self.hidden_size)

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Raises if `hx` has another size than expected."""
        if tuple(hx.size()) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Tensor, batch_sizes: Tensor | None) -> None:
        """Raises if input or hidden state do not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Tensor, permutation: Tensor | None):
        """The hidden state in the order of a packed sequence's batch."""
        return hx if permutation is None else _apply_permutation(hx, permutation)

    def _check_dims(self, input) -> bool:
        """Whether an input that is no packed sequence has a batch dimension."""
        if input.dim() not in (2, 3):
            name = type(self).__name__
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        return input.dim() == 3

    def _zeros(self, input, batch, size):
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return flambeau.zeros(layers, batch, size, dtype=input.dtype, device=input.device)

    def _start(self, input, batch):
        """The hidden state to begin with when none is given."""
        return self._zeros(input, batch, self.proj_size or self.hidden_size)

    def _check_hidden_dims(self, hx, batched) -> None:
        dims = 3 if batched else 2
        if hx.dim() != dims:
            kind = "batched" if batched else "unbatched"
            raise RuntimeError(
                f"For {kind} {dims}-D input, hx should also be {dims}-D but got {hx.dim()}-D tensor"
            )

    def _add_batch(self, hx):
        return hx.unsqueeze(1)

    def _drop_batch(self, hx):
        return hx.squeeze(1)

    def _call(self, input, hx, batch_sizes):
        """(output, hidden state) of the operator."""
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        op, weights = getattr(flambeau, self.mode.lower()), self._flat_weights
        if batch_sizes is None:
            results = op(input, hx, weights, *options, self.batch_first)
        else:
            results = op(input, batch_sizes, hx, weights, *options)
        return results[0], results[1] if len(results) == 2 else results[1:]

    def forward(self, input, hx=None):
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        batched = self._check_dims(input)
        if hx is not None:
            self._check_hidden_dims(hx, batched)
            hx = hx if batched else self._add_batch(hx)
        if not batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
        if hx is None:
            hx = self._start(input, self._batch(input, None))
        self.check_forward_args(input, hx, None)
        output, hidden = self._call(input, hx, None)
        if not batched:
            output = output.squeeze(0 if self.batch_first else 1)
            hidden = self._drop_batch(hidden)
        return output, hidden

    def _forward_packed(self, packed, hx):
        data, batch_sizes, sorted_indices, unsorted_indices = packed
        if hx is None:
            hx = self._start(data, self._batch(data, batch_sizes))
        else:
            hx = self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(data, hx, batch_sizes)
        output, hidden = self._call(data, hx, batch_sizes)
        output = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
        return output, self.permute_hidden(hidden, unsorted_indices)

    def extra_repr(self) -> str:
        s = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size != 0:
            s += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            s += f", num_layers={self.num_layers}"
        if self.bias is not True:
            s += f", bias={self.bias}"
        if self.batch_first is not False:
            s += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            s += f", dropout={self.dropout}"
        if self.bidirectional is not False:
            s += f", bidirectional={self.bidirectional}"
        return s

    def __getstate__(self):
        # PyTorch keeps the list in the object, and expects it in files.
        return {**super().__getstate__(), "_flat_weights": self._flat_weights}

    def __setstate__(self, state):
        state = dict(state)
        state.pop("_flat_weights", None)
        names = state.pop("all_weights", None)
        super().__setstate__(state)
        if names is not None:
            self._all_weights = names
        if "proj_size" not in state:
            self.proj_size = 0
        if "_flat_weights_names" not in state:
            self._flat_weights_names = [n for names in self._all_weights for n in names]


class RNN(RNNBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh) in `num_layers` layers, or relu for tanh.

    Shapes: x (L, N, input_size) -> (L, N, directions * hidden_size), h (layers * directions, N, H);
            with batch_first (N, L, *); N may be left out.
    """

    def __init__(self, *args, **kwargs) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        modes = {"tanh": "RNN_TANH", "relu": "RNN_RELU"}
        if nonlinearity not in modes:
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(modes[nonlinearity], *args, **kwargs)
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    """Gated recurrent unit (Cho et al. 2014), the reset gate after the matrix product.

    r, z = sigmoid(W x + b + U h + c); n = tanh(W_n x + b_n + r * (U_n h + c_n));
    h' = (1 - z) * n + z * h. Shapes as for RNN.
    """

    def __init__(self, *args, **kwargs) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter & Schmidhuber 1997).

    i, f, o = sigmoid(W x + b + U h + c); g = tanh(likewise); c' = f * c + i * g; h' = o * tanh(c'),
    with proj_size then projected. Shapes as for RNN; the state is a pair (h, c).
    """

    def __init__(self, *args, **kwargs) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """(layers * directions, batch, hidden_size)."""
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return (layers, self._batch(input, batch_sizes), self.hidden_size)

    def check_forward_args(
        self, input: Tensor, hidden: tuple[Tensor, Tensor], batch_sizes: Tensor | None
    ) -> None:
        """Raises if input or hidden state do not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(
            hidden[0],
            self.get_expected_hidden_size(input, batch_sizes),
            "Expected hidden[0] size {}, got {}",
        )
        self.check_hidden_size(
            hidden[1],
            self.get_expected_cell_size(input, batch_sizes),
            "Expected hidden[1] size {}, got {}",
        )

    def permute_hidden(
        self, hx: tuple[Tensor, Tensor], permutation: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The hidden state in the order of a packed sequence's batch."""
        if permutation is None:
            return hx
        return _apply_permutation(hx[0], permutation), _apply_permutation(hx[1], permutation)

    def _start(self, input, batch):
        return super()._start(input, batch), self._zeros(input, batch, self.hidden_size)

    def _check_hidden_dims(self, hx, batched) -> None:
        dims = 3 if batched else 2
        if hx[0].dim() != dims or hx[1].dim() != dims:
            kind = "batched" if batched else "unbatched"
            raise RuntimeError(
                f"For {kind} {dims}-D input, hx and cx should also be {dims}-D but got "
                f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )

    def _add_batch(self, hx):
        return hx[0].unsqueeze(1), hx[1].unsqueeze(1)

    def _drop_batch(self, hx):
        return hx[0].squeeze(1), hx[1].squeeze(1)


class RNNCellBase(Module):
    """What the cells share: two weights of `num_chunks` gates and two biases."""

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        new = {"device": device, "dtype": dtype}
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(flambeau.empty((rows, input_size), **new))
        self.weight_hh = Parameter(flambeau.empty((rows, hidden_size), **new))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(flambeau.empty(rows, **new)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters from U(-k, k) with k = 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _check(self, input, *hidden) -> bool:
        """Whether there is a batch dimension; raises where dimensions are wrong."""
        batched = input.dim() == 2
        for t in (input, *hidden):
            if t is not None and t.dim() not in (1, 2):
                what, name = "input" if t is input else "hidden", type(self).__name__
                raise ValueError(f"{name}: Expected {what} to be 1D or 2D, got {t.dim()}D instead")
        return batched

    def _zeros(self, input):
        shape = (input.size(0), self.hidden_size)
        return flambeau.zeros(shape, dtype=input.dtype, device=input.device)

    def _step(self, op, input, hx):
        batched = self._check(input, hx)
        if not batched:
            input = input.unsqueeze(0)
            hx = None if hx is None else hx.unsqueeze(0)
        hx = self._zeros(input) if hx is None else hx
        out = op(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return out if batched else out.squeeze(0)

    def extra_repr(self) -> str:
        s = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            s += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            s += f", nonlinearity={self.nonlinearity}"
        return s


class RNNCell(RNNCellBase):
    """One step of an RNN: (N, input_size), h (N, hidden_size) -> h'."""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity == "tanh":
            return self._step(flambeau.rnn_tanh_cell, input, hx)
        if self.nonlinearity == "relu":
            return self._step(flambeau.rnn_relu_cell, input, hx)
        raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")


class LSTMCell(RNNCellBase):
    """One step of an LSTM: (N, input_size), (h, c) of (N, hidden_size) -> (h', c')."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device=None, dtype=None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        batched = self._check(input, *(() if hx is None else hx))
        if not batched:
            input = input.unsqueeze(0)
            hx = None if hx is None else (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        hx = (self._zeros(input),) * 2 if hx is None else hx
        h, c = flambeau.lstm_cell(
            input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """One step of a GRU: (N, input_size), h (N, hidden_size) -> h'."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device=None, dtype=None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(flambeau.gru_cell, input, hx)
