"""Convolutions and their transposes in one, two and three dimensions."""

from __future__ import annotations

import math

import flambeau
from flambeau import _C, Tensor
from flambeau.nn import init
from flambeau.nn.modules.lazy import LazyModuleMixin
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.utils import _ntuple, _pair, _reverse_repeat_tuple, _single, _triple
from flambeau.nn.parameter import Parameter, UninitializedParameter

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

_nn = _C._nn


def _check_arguments(in_channels, out_channels, stride, padding, groups, padding_mode) -> None:
    if groups <= 0:
        raise ValueError(f"groups must be a positive integer, got {groups}")
    if in_channels % groups != 0:
        raise ValueError(f"in_channels must be divisible by groups, got {in_channels}, {groups}")
    if out_channels % groups != 0:
        raise ValueError(f"out_channels must be divisible by groups, got {out_channels}, {groups}")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"padding must be 'same', 'valid' or a size, got {padding!r}")
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError(f"padding='same' needs a stride of 1, got {stride}")
    if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
        raise ValueError(
            "padding_mode must be 'zeros', 'reflect', 'replicate' or 'circular', "
            f"got {padding_mode!r}"
        )


class _ConvNd(Module):
    """What all convolutions share."""

    __constants__ = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        _check_arguments(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.dilation, self.transposed = dilation, transposed
        self.output_padding, self.groups = output_padding, groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._pad_sizes()
        new = {"device": device, "dtype": dtype}
        if transposed:
            shape = (in_channels, out_channels // groups, *kernel_size)
        else:
            shape = (out_channels, in_channels // groups, *kernel_size)
        self.weight = Parameter(flambeau.empty(shape, **new))
        if bias:
            self.bias = Parameter(flambeau.empty(out_channels, **new))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _pad_sizes(self):
        """What `F.pad` takes for padding modes other than zeros: last dimension first."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        sizes = [0, 0] * len(self.kernel_size)
        if self.padding == "same":
            pairs = zip(reversed(self.dilation), reversed(self.kernel_size))
            for i, (d, k) in enumerate(pairs):
                total = d * (k - 1)
                sizes[2 * i : 2 * i + 2] = [total // 2, total - total // 2]
        return sizes

    def reset_parameters(self) -> None:
        """Draws weight and bias from U(-k, k) with k = 1 / sqrt(fan_in)."""
        # a = sqrt(5) makes kaiming's bound that k; its rounding is part of the numbers.
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _pad_first(self, op, input, weight, bias):
        input = _nn.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
        return op(input, weight, bias, self.stride, 0, self.dilation, self.groups)

    def extra_repr(self) -> str:
        s = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        n = len(self.kernel_size)
        if self.padding != (0,) * len(self.padding):
            s += f", padding={self.padding}"
        if self.dilation != (1,) * n:
            s += f", dilation={self.dilation}"
        if self.output_padding != (0,) * n:
            s += f", output_padding={self.output_padding}"
        if self.groups != 1:
            s += f", groups={self.groups}"
        if self.bias is None:
            s += ", bias=False"
        if self.padding_mode != "zeros":
            s += f", padding_mode={self.padding_mode}"
        return s

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "padding_mode"):
            self.padding_mode = "zeros"


def _size_or_name(padding, tuple_of):
    return padding if isinstance(padding, str) else tuple_of(padding)


class Conv1d(_ConvNd):
    """Cross-correlation of (N, C_in, L) with a weight (C_out, C_in / groups, k) -> (N, C_out, L')."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] = 1,
        padding: str | int | tuple[int] = 0,
        dilation: int | tuple[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            _single(kernel_size),
            _single(stride),
            _size_or_name(padding, _single),
            _single(dilation),
            False,
            _single(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None):
        if self.padding_mode != "zeros":
            return self._pad_first(flambeau.conv1d, input, weight, bias)
        return flambeau.conv1d(
            input, weight, bias, self.stride, self.padding, self.dilation, self.groups
        )

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv2d(_ConvNd):
    """Cross-correlation of (N, C_in, H, W) with a weight (C_out, C_in / groups, kh, kw).

    H' = (H + 2 * padding - dilation * (kh - 1) - 1) // stride + 1. N may be left out.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: str | int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            _pair(kernel_size),
            _pair(stride),
            _size_or_name(padding, _pair),
            _pair(dilation),
            False,
            _pair(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None):
        if self.padding_mode != "zeros":
            return self._pad_first(flambeau.conv2d, input, weight, bias)
        return flambeau.conv2d(
            input, weight, bias, self.stride, self.padding, self.dilation, self.groups
        )

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv3d(_ConvNd):
    """Cross-correlation of (N, C_in, D, H, W) with a weight (C_out, C_in / groups, kd, kh, kw)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] = 1,
        padding: str | int | tuple[int, int, int] = 0,
        dilation: int | tuple[int, int, int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            _triple(kernel_size),
            _triple(stride),
            _size_or_name(padding, _triple),
            _triple(dilation),
            False,
            _triple(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None):
        if self.padding_mode != "zeros":
            return self._pad_first(flambeau.conv3d, input, weight, bias)
        return flambeau.conv3d(
            input, weight, bias, self.stride, self.padding, self.dilation, self.groups
        )

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class _ConvTransposeNd(_ConvNd):
    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        bias,
        padding_mode,
        device=None,
        dtype=None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f'{type(self).__name__}: padding_mode must be "zeros", got {padding_mode!r}'
            )
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(
        self, input, output_size, stride, padding, kernel_size, num_spatial_dims, dilation=None
    ):
        """How much to add on one side so that the result has `output_size`."""
        if output_size is None:
            return _ntuple(num_spatial_dims)(self.output_padding)
        n = num_spatial_dims
        if input.dim() == n + 2 == len(output_size):
            output_size = output_size[2:]
        elif input.dim() == n + 1 == len(output_size):
            output_size = output_size[1:]
        if len(output_size) != n:
            raise ValueError(
                f"ConvTranspose{n}d: output_size must have {n} or {input.dim()} elements, "
                f"got {len(output_size)}"
            )
        dilation = (1,) * n if dilation is None else dilation
        least = [
            (input.size(d - n) - 1) * stride[d]
            - 2 * padding[d]
            + dilation[d] * (kernel_size[d] - 1)
            + 1
            for d in range(n)
        ]
        most = [least[d] + stride[d] - 1 for d in range(n)]
        if not all(a <= size <= b for a, size, b in zip(least, output_size, most)):
            raise ValueError(
                f"ConvTranspose{n}d: output_size must be between {least} and {most} for an input "
                f"of {list(input.shape[-n:])}, got {list(output_size)}"
            )
        return [size - a for size, a in zip(output_size, least)]

    def _transposed(self, op, n, input, output_size):
        if output_size is None:
            extra = self.output_padding
        else:
            extra = self._output_padding(
                input, output_size, self.stride, self.padding, self.kernel_size, n, self.dilation
            )
        return op(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            extra,
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTransposeNd):
    """The gradient of Conv1d as a layer: weight (C_in, C_out / groups, k), L grows by the stride."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] = 1,
        padding: int | tuple[int] = 0,
        output_padding: int | tuple[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int] = 1,
        padding_mode: str = "zeros",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            _single(kernel_size),
            _single(stride),
            _single(padding),
            _single(dilation),
            True,
            _single(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        return self._transposed(flambeau.conv_transpose1d, 1, input, output_size)


class ConvTranspose2d(_ConvTransposeNd):
    """The gradient of Conv2d as a layer: weight (C_in, C_out / groups, kh, kw).

    H' = (H - 1) * stride - 2 * padding + dilation * (kh - 1) + output_padding + 1.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        output_padding: int | tuple[int, int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, int] = 1,
        padding_mode: str = "zeros",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            _pair(kernel_size),
            _pair(stride),
            _pair(padding),
            _pair(dilation),
            True,
            _pair(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        return self._transposed(flambeau.conv_transpose2d, 2, input, output_size)


class ConvTranspose3d(_ConvTransposeNd):
    """The gradient of Conv3d as a layer: weight (C_in, C_out / groups, kd, kh, kw)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] = 1,
        padding: int | tuple[int, int, int] = 0,
        output_padding: int | tuple[int, int, int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, int, int] = 1,
        padding_mode: str = "zeros",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            _triple(kernel_size),
            _triple(stride),
            _triple(padding),
            _triple(dilation),
            True,
            _triple(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        return self._transposed(flambeau.conv_transpose3d, 3, input, output_size)


class _LazyConvXdMixin(LazyModuleMixin):
    """Takes `in_channels` from the first input."""

    def _make_lazy(self, out_channels, bias, device, dtype) -> None:
        new = {"device": device, "dtype": dtype}
        self.weight = UninitializedParameter(**new)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(**new)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input, *args, **kwargs) -> None:
        """Sizes the parameters after the channels of `input` and draws them."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError(
                f"in_channels must be divisible by groups, got {self.in_channels}, {self.groups}"
            )
        channels = [self.out_channels, self.in_channels]
        if self.transposed:
            channels.reverse()
        self.weight.materialize((channels[0], channels[1] // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input) -> int:
        n = self._get_num_spatial_dims()
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {tuple(input.shape)}"
            )
        return input.shape[1] if input.dim() == n + 2 else input.shape[0]

    def _get_num_spatial_dims(self) -> int:
        return len(self.kernel_size)


class LazyConv1d(_LazyConvXdMixin, Conv1d):
    """A Conv1d that takes `in_channels` from its first input."""

    cls_to_become = Conv1d

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] = 1,
        padding: int | tuple[int] = 0,
        dilation: int | tuple[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            False,
            padding_mode,
            device,
            dtype,
        )
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConv2d(_LazyConvXdMixin, Conv2d):
    """A Conv2d that takes `in_channels` from its first input."""

    cls_to_become = Conv2d

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            False,
            padding_mode,
            device,
            dtype,
        )
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConv3d(_LazyConvXdMixin, Conv3d):
    """A Conv3d that takes `in_channels` from its first input."""

    cls_to_become = Conv3d

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] = 1,
        padding: int | tuple[int, int, int] = 0,
        dilation: int | tuple[int, int, int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            False,
            padding_mode,
            device,
            dtype,
        )
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyConvXdMixin, ConvTranspose1d):
    """A ConvTranspose1d that takes `in_channels` from its first input."""

    cls_to_become = ConvTranspose1d

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] = 1,
        padding: int | tuple[int] = 0,
        output_padding: int | tuple[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int] = 1,
        padding_mode: str = "zeros",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            False,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConvTranspose2d(_LazyConvXdMixin, ConvTranspose2d):
    """A ConvTranspose2d that takes `in_channels` from its first input."""

    cls_to_become = ConvTranspose2d

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        output_padding: int | tuple[int, int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int = 1,
        padding_mode: str = "zeros",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            False,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConvTranspose3d(_LazyConvXdMixin, ConvTranspose3d):
    """A ConvTranspose3d that takes `in_channels` from its first input."""

    cls_to_become = ConvTranspose3d

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] = 1,
        padding: int | tuple[int, int, int] = 0,
        output_padding: int | tuple[int, int, int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, int, int] = 1,
        padding_mode: str = "zeros",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            False,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        self._make_lazy(out_channels, bias, device, dtype)
