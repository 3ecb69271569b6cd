"""grad, vjp, jvp and Jacobians on the tape. Forward products are derivatives of backward ones.

The inputs that a transform differentiates are fresh views, so transforms nest. A result keeps its
history only if something outside of the transform can use it.
"""

import functools

import flambeau
from flambeau import _C, Tensor
from flambeau.autograd import grad as _grad
from flambeau.func._vmap import vmap
from flambeau.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten


def _fresh(x):
    """A tensor to differentiate by: a view of one that outer transforms differentiate by."""
    if not isinstance(x, Tensor):
        raise ValueError(f"Expected tensors to differentiate by, got {type(x).__name__}")
    if not (x.is_floating_point() or x.is_complex()):
        return x
    x = _C._vmap_everywhere(x)  # inside vmap each example has its own
    return x.view_as(x) if x.requires_grad else x.detach().requires_grad_()


class _Inputs:
    """Fresh tensors in place of those in a tree."""

    def __init__(self, tree):
        leaves, self.spec = tree_flatten(tree)
        self.given = leaves
        with flambeau.enable_grad():
            self.tensors = [_fresh(x) for x in leaves]
        self.tree = tree_unflatten(self.tensors, self.spec)

    def rebuilt(self, values):
        return tree_unflatten(values, self.spec)

    def keeps(self, outputs):
        """Do outputs depend on anything that requires grad besides the fresh tensors?"""
        if any(isinstance(x, Tensor) and x.requires_grad for x in self.given):
            return True
        roots = [o for o in outputs if isinstance(o, Tensor) and o.requires_grad]
        return bool(roots) and _C._has_other_leaves(roots, self.tensors)


def _released(tree, keep):
    """Results without history, unless it is of use outside."""
    if keep:
        return tree
    return tree_map(lambda x: x.detach() if isinstance(x, Tensor) else x, tree)


def _gradients(outputs, inputs, weights, graph=True):
    """Gradients, with a graph of their own if somebody can use it; zeros where there is no path."""
    pairs = [(o, w) for o, w in zip(outputs, weights) if o.requires_grad]
    wanted = [x for x in inputs if x.requires_grad]
    found = [None] * len(wanted)
    if pairs and wanted:
        roots, weights = zip(*pairs)
        found = _grad(
            roots, wanted, weights, retain_graph=True, create_graph=graph, allow_unused=True
        )
    found = iter(found)
    grads = [next(found) if x.requires_grad else None for x in inputs]
    return [flambeau.zeros_like(x) if g is None else g for g, x in zip(grads, inputs)]


def _tensors_of(outputs, name):
    leaves, spec = tree_flatten(outputs)
    for x in leaves:
        if not isinstance(x, Tensor):
            raise RuntimeError(
                f"{name}: the function must return tensors, got {type(x).__name__} among them"
            )
    return leaves, spec


def _selected(args, argnums):
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"Got argnum={n}, but only {len(args)} positional inputs")
    picked = tuple(args[n] for n in numbers)
    return picked[0] if isinstance(argnums, int) else picked


def _replaced(args, argnums, values):
    args = list(args)
    if isinstance(argnums, int):
        args[argnums] = values
    else:
        for n, v in zip(argnums, values):
            args[n] = v
    return args


def _split_aux(result, has_aux, name):
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"{name}: with has_aux the function must return (output, aux)")
    return result


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that returns (gradients by the arguments `argnums`, value of `func`)."""

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        inputs = _Inputs(_selected(args, argnums))
        with flambeau.enable_grad():
            result = func(*_replaced(args, argnums, inputs.tree), **kwargs)
            value, aux = _split_aux(result, has_aux, "grad")
            if not isinstance(value, Tensor):
                raise RuntimeError(
                    f"grad: the function must return a tensor, got {type(value).__name__}"
                )
            if value.dim() != 0:
                raise RuntimeError(
                    "grad: the function must return a tensor of no dims, got shape "
                    f"{tuple(value.shape)}"
                )
            keep = inputs.keeps([value])
            grads = _gradients([value], inputs.tensors, [flambeau.ones_like(value)], keep)
        value, aux = _released(value, keep), _released(aux, keep)
        grads = _released(inputs.rebuilt(grads), keep)
        return (grads, (value, aux)) if has_aux else (grads, value)

    return wrapper


def grad(func, argnums=0, has_aux=False):
    """A function that returns the gradients of `func` by the arguments `argnums`."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return wrapper


def vjp(func, *primals, has_aux=False):
    """(func(*primals), a function from weights of the outputs to gradients by the primals)."""
    inputs = _Inputs(primals)
    with flambeau.enable_grad():
        outputs, aux = _split_aux(func(*inputs.tree), has_aux, "vjp")
        leaves, _ = _tensors_of(outputs, "vjp")
    keep = inputs.keeps(leaves)

    def back(*cotangents, retain_graph=True, create_graph=None):
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        weights = tree_leaves(given)
        if len(weights) != len(leaves):
            raise RuntimeError(f"vjp: expected {len(leaves)} cotangents, got {len(weights)}")
        outer = keep or any(w.requires_grad for w in weights)
        with flambeau.enable_grad():
            grads = _gradients(leaves, inputs.tensors, weights, outer)
        grads = _released(inputs.rebuilt(grads), outer)
        return grads

    outputs, aux = _released(outputs, keep), _released(aux, keep)
    return (outputs, back, aux) if has_aux else (outputs, back)


def _pulled(leaves, inputs):
    """(v, v J) for some v: linear in v, so that its gradient in the direction t is J t.

    Ones, not zeros: some derivatives take the logarithm of v on the way.
    """
    probes = [flambeau.ones_like(o).requires_grad_() for o in leaves]
    return probes, _gradients(leaves, inputs.tensors, probes)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(func(*primals), its Jacobian times the tangents)."""
    inputs = _Inputs(primals)
    directions = tree_leaves(tangents)
    if len(directions) != len(inputs.tensors):
        raise RuntimeError(f"jvp: expected {len(inputs.tensors)} tangents, got {len(directions)}")
    with flambeau.enable_grad():
        outputs, aux = _split_aux(func(*inputs.tree), has_aux, "jvp")
        leaves, spec = _tensors_of(outputs, "jvp")
        keep = inputs.keeps(leaves) or any(t.requires_grad for t in directions)
        probes, back = _pulled(leaves, inputs)
        pushed = tree_unflatten(_gradients(back, probes, directions, keep), spec)
    outputs, pushed, aux = (_released(x, keep) for x in (outputs, pushed, aux))
    return (outputs, pushed, aux) if has_aux else (outputs, pushed)


def linearize(func, *primals):
    """(func(*primals), the linear function from tangents to J @ tangents)."""
    outputs = func(*primals)

    def push(*tangents):
        return jvp(func, primals, tangents)[1]

    return outputs, push


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """A function that returns the Jacobian of `func` by the arguments `argnums`.

    For each output tensor there is a tree like the arguments, with tensors of shape output + input.
    """

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        inputs = _Inputs(_selected(args, argnums))
        with flambeau.enable_grad():
            result = func(*_replaced(args, argnums, inputs.tree), **kwargs)
            outputs, aux = _split_aux(result, has_aux, "jacrev")
            leaves, spec = _tensors_of(outputs, "jacrev")
            keep = inputs.keeps(leaves)
            rows = [
                inputs.rebuilt(_jacobian_rows(o, inputs.tensors, keep, chunk_size)) for o in leaves
            ]
        jacobian = _released(tree_unflatten(rows, spec), keep)
        return (jacobian, _released(aux, keep)) if has_aux else jacobian

    return wrapper


def _basis(x):
    """Every direction of a tensor, stacked."""
    return flambeau.eye(x.numel(), dtype=x.dtype, device=x.device).reshape(x.numel(), *x.shape)


def _jacobian_rows(output, inputs, keep, chunk_size):
    if output.numel() == 0:
        return [flambeau.zeros(*output.shape, *x.shape, dtype=output.dtype) for x in inputs]
    rows = vmap(
        lambda weight: tuple(_gradients([output], inputs, [weight], keep)), chunk_size=chunk_size
    )(_basis(output))
    return [g.reshape(*output.shape, *x.shape) for g, x in zip(rows, inputs)]


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """Like `jacrev`; one product with a direction per number of the inputs."""

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        inputs = _Inputs(_selected(args, argnums))
        with flambeau.enable_grad():
            result = func(*_replaced(args, argnums, inputs.tree), **kwargs)
            outputs, aux = _split_aux(result, has_aux, "jacfwd")
            leaves, spec = _tensors_of(outputs, "jacfwd")
            keep = inputs.keeps(leaves)
            probes, back = _pulled(leaves, inputs)
            columns = [
                _jacobian_columns(leaves, probes, x, g, keep) for x, g in zip(inputs.tensors, back)
            ]
        rows = [inputs.rebuilt([c[k] for c in columns]) for k in range(len(leaves))]
        jacobian = _released(tree_unflatten(rows, spec), keep)
        return (jacobian, _released(aux, keep)) if has_aux else jacobian

    return wrapper


def _jacobian_columns(leaves, probes, x, back, keep):
    """Per output the derivatives by one input, its dims last."""
    if x.numel() == 0:
        return [flambeau.zeros(*o.shape, *x.shape, dtype=o.dtype) for o in leaves]
    columns = vmap(lambda t: tuple(_gradients([back], probes, [t], keep)), out_dims=-1)(_basis(x))
    return [c.reshape(*o.shape, *x.shape) for c, o in zip(columns, leaves)]


def hessian(func, argnums=0):
    """A function that returns the second derivatives of `func` by the arguments `argnums`."""
    return jacfwd(jacrev(func, argnums), argnums)
