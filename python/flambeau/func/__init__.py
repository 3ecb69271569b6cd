"""Functions of functions: derivatives and maps over a batch."""

from flambeau.func._derivatives import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)
from flambeau.func._modules import (
    functional_call,
    replace_all_batch_norm_modules_,
    stack_module_state,
)
from flambeau.func._vmap import vmap

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
