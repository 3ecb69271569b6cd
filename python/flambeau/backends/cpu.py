"""The CPU's kernels."""


def get_cpu_capability() -> str:
    """The widest instruction set that the kernels use: "AVX512", "AVX2" or "DEFAULT"."""
    with open("/proc/cpuinfo") as file:
        flags = next((line for line in file if line.startswith("flags")), "").split()
    return "AVX512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "DEFAULT"
