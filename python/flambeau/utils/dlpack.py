"""DLPack: tensors exchanged with other libraries without a copy."""

from flambeau import _C

from_dlpack = _C.from_dlpack
to_dlpack = _C._to_dlpack
