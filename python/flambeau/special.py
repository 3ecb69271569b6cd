"""Special functions: the ops of this namespace, and those that others have under another name."""

from flambeau import _C

_PREFIX = "special_"
_ELSEWHERE = {
    "expit": "sigmoid",
    "gammainc": "igamma",
    "gammaincc": "igammac",
    "gammaln": "lgamma",
    "multigammaln": "mvlgamma",
    "psi": "digamma",
} | {
    name: name
    for name in (
        "digamma erf erfc erfinv exp2 expm1 i0 log1p log_softmax logit logsumexp polygamma "
        "round sinc softmax xlogy"
    ).split()
}
_FUNCTIONS = {
    name.removeprefix(_PREFIX): function
    for name, function in vars(_C._special).items()
    if not name.startswith("__")
} | {name: getattr(_C._VariableFunctions, other) for name, other in _ELSEWHERE.items()}
globals().update(_FUNCTIONS)
__all__ = sorted(_FUNCTIONS)
