"""DLPack: tensors exchanged with other libraries without a copy."""

import enum

from flambeau import _C

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]

from_dlpack = _C.from_dlpack
to_dlpack = _C._to_dlpack


class DLDeviceType(enum.IntEnum):
    """The standard's numbers of the kinds of devices (dmlc/dlpack, include/dlpack/dlpack.h)."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17
