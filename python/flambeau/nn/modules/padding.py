"""Padding by a constant, by reflection, by the edge or around."""

from __future__ import annotations

from flambeau import _C, Tensor
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.utils import _ntuple, _pair, _quadruple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]

_nn = _C._nn
_sextuple = _ntuple(6)


class _CircularPadNd(Module):
    __constants__ = ["padding"]

    def _check_input_dim(self, input):
        raise NotImplementedError

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return _nn.pad(input, self.padding, "circular")

    def extra_repr(self) -> str:
        return f"{self.padding}"


def _check_dim(input, low, high) -> None:
    if input.dim() not in (low, high):
        raise ValueError(f"expected {low}D or {high}D input (got {input.dim()}D input)")


class CircularPad1d(_CircularPadNd):
    """Continues the last dimension from its other end."""

    def __init__(self, padding: int | tuple[int, int]) -> None:
        super().__init__()
        self.padding = _pair(padding)

    def _check_input_dim(self, input) -> None:
        _check_dim(input, 2, 3)


class CircularPad2d(_CircularPadNd):
    """Continues the last two dimensions from their other ends: (left, right, top, bottom)."""

    def __init__(self, padding: int | tuple[int, int, int, int]) -> None:
        super().__init__()
        self.padding = _quadruple(padding)

    def _check_input_dim(self, input) -> None:
        _check_dim(input, 3, 4)


class CircularPad3d(_CircularPadNd):
    """Continues the last three dimensions from their other ends."""

    def __init__(self, padding: int | tuple[int, int, int, int, int, int]) -> None:
        super().__init__()
        self.padding = _sextuple(padding)

    def _check_input_dim(self, input) -> None:
        _check_dim(input, 4, 5)


class _ConstantPadNd(Module):
    __constants__ = ["padding", "value"]

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return _nn.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Adds `value` at both ends of the last dimension."""

    def __init__(self, padding: int | tuple[int, int], value: float) -> None:
        super().__init__(value)
        self.padding = _pair(padding)


class ConstantPad2d(_ConstantPadNd):
    """Adds `value` around the last two dimensions: (left, right, top, bottom)."""

    __constants__ = ["padding", "value"]

    def __init__(self, padding: int | tuple[int, int, int, int], value: float) -> None:
        super().__init__(value)
        self.padding = _quadruple(padding)


class ConstantPad3d(_ConstantPadNd):
    """Adds `value` around the last three dimensions."""

    def __init__(self, padding: int | tuple[int, int, int, int, int, int], value: float) -> None:
        super().__init__(value)
        self.padding = _sextuple(padding)


class _ReflectionPadNd(Module):
    __constants__ = ["padding"]

    def forward(self, input: Tensor) -> Tensor:
        return _nn.pad(input, self.padding, "reflect")

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ReflectionPad1d(_ReflectionPadNd):
    """Mirrors the last dimension at its ends, which are not repeated."""

    def __init__(self, padding: int | tuple[int, int]) -> None:
        super().__init__()
        self.padding = _pair(padding)


class ReflectionPad2d(_ReflectionPadNd):
    """Mirrors the last two dimensions: (left, right, top, bottom)."""

    def __init__(self, padding: int | tuple[int, int, int, int]) -> None:
        super().__init__()
        self.padding = _quadruple(padding)


class ReflectionPad3d(_ReflectionPadNd):
    """Mirrors the last three dimensions."""

    def __init__(self, padding: int | tuple[int, int, int, int, int, int]) -> None:
        super().__init__()
        self.padding = _sextuple(padding)


class _ReplicationPadNd(Module):
    __constants__ = ["padding"]

    def forward(self, input: Tensor) -> Tensor:
        return _nn.pad(input, self.padding, "replicate")

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ReplicationPad1d(_ReplicationPadNd):
    """Repeats the ends of the last dimension."""

    def __init__(self, padding: int | tuple[int, int]) -> None:
        super().__init__()
        self.padding = _pair(padding)


class ReplicationPad2d(_ReplicationPadNd):
    """Repeats the edges of the last two dimensions: (left, right, top, bottom)."""

    def __init__(self, padding: int | tuple[int, int, int, int]) -> None:
        super().__init__()
        self.padding = _quadruple(padding)


class ReplicationPad3d(_ReplicationPadNd):
    """Repeats the faces of the last three dimensions."""

    def __init__(self, padding: int | tuple[int, int, int, int, int, int]) -> None:
        super().__init__()
        self.padding = _sextuple(padding)


class ZeroPad1d(ConstantPad1d):
    """ConstantPad1d with zeros."""

    def __init__(self, padding: int | tuple[int, int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """ConstantPad2d with zeros."""

    def __init__(self, padding: int | tuple[int, int, int, int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """ConstantPad3d with zeros."""

    def __init__(self, padding: int | tuple[int, int, int, int, int, int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"
