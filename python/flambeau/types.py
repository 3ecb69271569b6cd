"""Names of types for annotations, as torch.types has them."""

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias, Union

from flambeau import _C

Number: TypeAlias = Union[int, float, bool]
Device: TypeAlias = Union[_C.device, str, int, None]
FileLike: TypeAlias = Union[str, Any]
Storage = _C.StorageBase
_bool, _int, _float, _complex = builtins.bool, builtins.int, builtins.float, builtins.complex
_dtype, _device, _layout = _C.dtype, _C.device, _C.layout
_size: TypeAlias = Union[_C.Size, list[int], tuple[int, ...]]
_TensorOrTensors: TypeAlias = Union[_C.Tensor, Sequence[_C.Tensor]]
