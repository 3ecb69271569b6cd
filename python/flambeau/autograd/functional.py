"""Jacobians, Hessians and their products with vectors, for functions of tensors."""

import flambeau
from flambeau import Tensor
from flambeau.autograd import grad as _grad

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]


def _as_tuple(value, what, name):
    """(was it a tuple, the tensors as one)."""
    single = not isinstance(value, tuple)
    values = (value,) if single else value
    if isinstance(value, list):
        values, single = tuple(value), False
    for i, v in enumerate(values):
        if not isinstance(v, Tensor):
            where = f" {i}" if not single else ""
            raise TypeError(
                f"{name}: {what}{where} must be a Tensor or a tuple of them, got {type(v)}"
            )
    return not single, values


def _prepared(inputs, create_graph):
    """Inputs to differentiate: connected to the caller's graph if that is wanted."""
    if create_graph:
        return tuple(
            x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in inputs
        )
    return tuple(x.detach().requires_grad_() for x in inputs)


def _unwrapped(values, is_tuple):
    return values if is_tuple else values[0]


def _finished(values, create_graph):
    return values if create_graph else tuple(v.detach() for v in values)


def _check_outputs(outputs, name, strict):
    for i, out in enumerate(outputs):
        if strict and not out.requires_grad:
            raise RuntimeError(
                f"{name}: output {i} is independent of the inputs, which strict mode forbids"
            )


def _vector(v, like, name):
    """`v` as a tuple of tensors shaped like `like`; without one, a single element stands for 1."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"{name}: v is needed unless there is a single element")
        return (flambeau.ones_like(like[0]),)
    _, vectors = _as_tuple(v, "v", name)
    if len(vectors) != len(like):
        raise RuntimeError(f"{name}: v must have {len(like)} tensors, got {len(vectors)}")
    for i, (a, b) in enumerate(zip(vectors, like)):
        if a.shape != b.shape:
            raise RuntimeError(
                f"{name}: v[{i}] must have shape {tuple(b.shape)}, got {tuple(a.shape)}"
            )
    return vectors


def _grads(outputs, inputs, vectors, create_graph, strict, name):
    """Gradients of the outputs that have a history; zeros where there is no path."""
    pairs = [(o, v) for o, v in zip(outputs, vectors) if o.requires_grad]
    if pairs:
        found = _grad(
            [o for o, _ in pairs],
            inputs,
            [v for _, v in pairs],
            create_graph=create_graph,
            retain_graph=True,
            allow_unused=True,
        )
    else:
        found = (None,) * len(inputs)
    for i, g in enumerate(found):
        if strict and (g is None or (create_graph and not g.requires_grad)):
            raise RuntimeError(
                f"{name}: the result is independent of input {i}, which strict mode forbids"
            )
    return tuple(flambeau.zeros_like(x) if g is None else g for g, x in zip(found, inputs))


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v @ its Jacobian)."""
    with flambeau.enable_grad():
        is_tuple, inputs = _as_tuple(inputs, "inputs", "vjp")
        inputs = _prepared(inputs, create_graph)
        out_tuple, outputs = _as_tuple(func(*inputs), "outputs", "vjp")
        _check_outputs(outputs, "vjp", strict)
        vectors = _vector(v, outputs, "vjp")
        result = _grads(outputs, inputs, vectors, create_graph, strict, "vjp")
    outputs, result = _finished(outputs, create_graph), _finished(result, create_graph)
    return _unwrapped(outputs, out_tuple), _unwrapped(result, is_tuple)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), its Jacobian @ v), by differentiating the vjp with respect to its vector."""
    with flambeau.enable_grad():
        _, inputs = _as_tuple(inputs, "inputs", "jvp")
        inputs = _prepared(inputs, create_graph)
        vectors = _vector(v, inputs, "jvp")
        out_tuple, outputs = _as_tuple(func(*inputs), "outputs", "jvp")
        _check_outputs(outputs, "jvp", strict)
        probes = tuple(flambeau.zeros_like(o).requires_grad_() for o in outputs)
        back = _grads(outputs, inputs, probes, True, strict, "jvp")
        result = _grads(back, probes, vectors, create_graph, False, "jvp")
    outputs, result = _finished(outputs, create_graph), _finished(result, create_graph)
    return _unwrapped(outputs, out_tuple), _unwrapped(result, out_tuple)


def jacobian(
    func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"
):
    """All derivatives: element [i, j] is of shape output i's + input j's."""
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode". ')
    if strategy == "forward-mode" and create_graph:
        raise NotImplementedError("jacobian: forward-mode does not support create_graph=True")
    with flambeau.enable_grad():
        is_tuple, inputs = _as_tuple(inputs, "inputs", "jacobian")
        inputs = _prepared(inputs, create_graph)
        out_tuple, outputs = _as_tuple(func(*inputs), "outputs", "jacobian")
        _check_outputs(outputs, "jacobian", strict)
        rows = [_jacobian_of(out, inputs, create_graph, strict) for out in outputs]
    rows = tuple(_unwrapped(_finished(r, create_graph), is_tuple) for r in rows)
    return _unwrapped(rows, out_tuple)


def _jacobian_of(out, inputs, create_graph, strict):
    columns = [[] for _ in inputs]
    for element in out.reshape(-1):
        one = (flambeau.ones_like(element),)
        for column, g in zip(
            columns, _grads((element,), inputs, one, create_graph, strict, "jacobian")
        ):
            column.append(g)
    return tuple(
        flambeau.stack(column).reshape(tuple(out.shape) + tuple(x.shape))
        if column
        else x.new_zeros(tuple(out.shape) + tuple(x.shape))
        for column, x in zip(columns, inputs)
    )


def _scalar_output(func, inputs, name, strict):
    out_tuple, outputs = _as_tuple(func(*inputs), "outputs", name)
    if out_tuple or outputs[0].numel() != 1:
        raise RuntimeError(f"{name}: the function must return one tensor with a single element")
    _check_outputs(outputs, name, strict)
    return outputs[0]


def hessian(
    func,
    inputs,
    create_graph=False,
    strict=False,
    vectorize=False,
    outer_jacobian_strategy="reverse-mode",
):
    """All second derivatives of a function with a single element as its result."""
    is_tuple, inputs = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode". ')

    def gradient(*args):
        args = tuple(x if x.requires_grad else x.requires_grad_() for x in args)
        value = _scalar_output(func, args, "hessian", strict)
        one = (flambeau.ones_like(value),)
        return _grads((value,), args, one, True, strict, "hessian")

    result = jacobian(gradient, inputs, create_graph=create_graph, strict=strict)
    return result if is_tuple else result[0][0]


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v @ its Hessian)."""
    with flambeau.enable_grad():
        is_tuple, inputs = _as_tuple(inputs, "inputs", "vhp")
        inputs = _prepared(inputs, create_graph)
        vectors = _vector(v, inputs, "vhp")
        value = _scalar_output(func, inputs, "vhp", strict)
        one = (flambeau.ones_like(value),)
        first = _grads((value,), inputs, one, True, strict, "vhp")
        result = _grads(first, inputs, vectors, create_graph, strict, "vhp")
    (value,), result = _finished((value,), create_graph), _finished(result, create_graph)
    return value, _unwrapped(result, is_tuple)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), its Hessian @ v); where the Hessian is symmetric, `vhp` is cheaper."""
    with flambeau.enable_grad():
        is_tuple, inputs = _as_tuple(inputs, "inputs", "hvp")
        inputs = _prepared(inputs, create_graph)
        vectors = _vector(v, inputs, "hvp")
        value = _scalar_output(func, inputs, "hvp", strict)
        one = (flambeau.ones_like(value),)
        first = _grads((value,), inputs, one, True, strict, "hvp")
        probes = tuple(flambeau.zeros_like(x).requires_grad_() for x in inputs)
        back = _grads(first, inputs, probes, True, strict, "hvp")
        result = _grads(back, probes, vectors, create_graph, False, "hvp")
    (value,), result = _finished((value,), create_graph), _finished(result, create_graph)
    return value, _unwrapped(result, is_tuple)
