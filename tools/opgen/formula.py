"""What a formula mentions: C++ over arguments, `g` and `result`, with `x.sizes` for metadata."""

import re

# What a formula may ask of a tensor, and the type of the node's field.
METADATA = {"sizes": "Ints", "strides": "Ints", "dtype": "DType", "device": "Device"}
METADATA |= dict.fromkeys(("offset", "ndim", "numel"), "int64_t")
META = re.compile(r"\b(\w+)\.(" + "|".join(METADATA) + r")\b")
# Functions that exist for a SIMD vector as well as for a Tensor (kernels/math.h), so that a formula
# of them compiles as a body.
SCALAR_FUNCTIONS = set(
    """abs acos acosh asin asinh atan atan2 atanh ceil conj copysign cos cosh digamma erf erfc
    erfinv exp exp2 expm1 floor fma fmod isfinite isinf isnan lgamma log log10 log1p log2 maximum
    minimum pow reciprocal remainder round rsqrt sgn sigmoid sign _depends sin sinc sinh sqrt square
    tan tanh trunc where real hypot""".split()
)


def identifiers(formula: str) -> set[str]:
    """Names used as values, calls and metadata left out."""
    plain = META.sub("", formula)
    return set(re.findall(r"(?<![\w.:])([A-Za-z_]\w*)\b(?!\s*\(|::)", plain)) - {"true", "false"}


def metadata(formula: str) -> set[tuple[str, str]]:
    return set(META.findall(formula))


def flatten_metadata(formula: str) -> str:
    """`self.sizes` -> `self_sizes`, the name of the saved field."""
    return META.sub(r"\1_\2", formula)


def without(names: set[str], formula: str) -> str:
    """The formula with 1 for arguments that this overload lacks (alpha of another one, say)."""
    return re.sub(rf"\b({'|'.join(names)})\b(?!\()", "1", formula) if names else formula


def is_arithmetic(formula: str) -> bool:
    """Is it worth a kernel of its own, and can it be one?"""
    calls = set(re.findall(r"(?<![\w.])([A-Za-z_]\w*)\s*\(", formula))
    scalar = calls <= SCALAR_FUNCTIONS and not metadata(formula) and "::" not in formula
    return scalar and not re.fullmatch(r"-?\w+", formula.strip())
