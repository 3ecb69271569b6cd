"""Comparing the tape's derivatives with central differences.

Complex numbers count as pairs of real ones: the gradient for a weight of 1 gives the derivatives
of the real part, for a weight of 1j those of the imaginary part.
"""

import warnings

import flambeau
from flambeau import Tensor
from flambeau.autograd import grad as _grad

__all__ = ["gradcheck", "gradgradcheck", "GradcheckError"]


class GradcheckError(RuntimeError):
    """The derivatives differ."""


def _as_tuple(value):
    if isinstance(value, Tensor):
        return (value,)
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _is_differentiable(x):
    return isinstance(x, Tensor) and x.requires_grad


def _differentiable_outputs(outputs):
    return tuple(o for o in _as_tuple(outputs) if _is_differentiable(o))


def _real(x):
    """The elements as a flat list of real numbers."""
    x = x.detach()
    x = flambeau.view_as_real(x.resolve_conj()) if x.is_complex() else x
    return x.reshape(-1)


def _check_inputs(inputs):
    wanted = [x for x in inputs if _is_differentiable(x)]
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the "
            "them have requires_grad=True."
        )
    for i, x in enumerate(inputs):
        if _is_differentiable(x) and x.dtype not in (flambeau.float64, flambeau.complex128):
            warnings.warn(
                f"gradcheck: input {i} is {x.dtype}; differences need double precision",
                stacklevel=3,
            )


def _perturbed(x, index, change):
    """A copy of `x` with real number `index` changed."""
    copy = x.detach().clone(memory_format=flambeau.contiguous_format)
    flat = flambeau.view_as_real(copy).reshape(-1) if x.is_complex() else copy.reshape(-1)
    flat[index] += change
    return copy.requires_grad_(x.requires_grad)


def get_numerical_jacobian_wrt_specific_input(fn, input_idx, inputs, outputs, eps):
    """Central differences: per output a matrix (real numbers of the input, of the output)."""
    x = inputs[input_idx]
    count = x.numel() * (2 if x.is_complex() else 1)
    columns = [[] for _ in outputs]
    for k in range(count):
        ends = []
        for change in (eps, -eps):
            moved = list(inputs)
            moved[input_idx] = _perturbed(x, k, change)
            ends.append([_real(o) for o in _differentiable_outputs(fn(*moved))])
        for column, above, below in zip(columns, *ends):
            column.append((above - below) / (2 * eps))
    return [
        flambeau.stack(c) if c else flambeau.zeros((0, _real(o).numel()), dtype=o.dtype)
        for c, o in zip(columns, outputs)
    ]


def _weights(output):
    """For each real number of the output the weight that selects it."""
    for k in range(output.numel()):
        for one in (1, 1j) if output.is_complex() else (1,):
            weight = flambeau.zeros_like(output, memory_format=flambeau.contiguous_format)
            weight.reshape(-1)[k] = one
            yield weight


def _analytical(inputs, output):
    """Per input a matrix like that of the differences, from one backward per output number."""
    rows = [[] for _ in inputs]
    for weight in _weights(output.detach()):
        grads = _grad(output, inputs, weight, retain_graph=True, allow_unused=True)
        for row, g, x in zip(rows, grads, inputs):
            row.append(_real(flambeau.zeros_like(x) if g is None else g))
            if g is not None and (g.shape != x.shape or g.dtype != x.dtype):
                raise GradcheckError(
                    f"gradcheck: a gradient must have shape {tuple(x.shape)} and dtype {x.dtype} "
                    f"like its input, got {tuple(g.shape)} and {g.dtype}"
                )
    return [
        flambeau.stack(row, 1) if row else flambeau.zeros((_real(x).numel(), 0), dtype=x.dtype)
        for row, x in zip(rows, inputs)
    ]


def _compare(numerical, analytical, i, j, atol, rtol):
    numerical = numerical.to(analytical.dtype)
    if flambeau.allclose(numerical, analytical, rtol=rtol, atol=atol):
        return
    raise GradcheckError(
        f"Jacobian mismatch for output {i} with respect to input {j},\n"
        f"numerical:{numerical}\nanalytical:{analytical}\n"
    )


def _check(func, inputs, eps, atol, rtol, nondet_tol):
    _check_inputs(inputs)
    outputs = _differentiable_outputs(func(*inputs))
    wanted = [j for j, x in enumerate(inputs) if _is_differentiable(x)]
    tensors = [inputs[j] for j in wanted]
    if not outputs:
        _check_constant(func, inputs, wanted, eps)
        return
    analytical = [_analytical(tensors, out) for out in outputs]
    for again, first in zip((_analytical(tensors, out) for out in outputs), analytical):
        for a, b in zip(again, first):
            if a.numel() and (a - b).abs().max() > nondet_tol:
                raise GradcheckError(
                    "gradcheck: two backward passes gave different gradients; raise nondet_tol if "
                    "that is expected"
                )
    for column, j in enumerate(wanted):
        numerical = get_numerical_jacobian_wrt_specific_input(func, j, inputs, outputs, eps)
        for i in range(len(outputs)):
            _compare(numerical[i], analytical[i][column], i, j, atol, rtol)


def _check_constant(func, inputs, wanted, eps):
    """No output requires grad: then the differences must vanish."""
    outputs = tuple(o for o in _as_tuple(func(*inputs)) if isinstance(o, Tensor))
    if any(o.is_floating_point() for o in outputs) and wanted:
        moved = list(inputs)
        moved[wanted[0]] = inputs[wanted[0]].detach() + eps
        after = tuple(o for o in _as_tuple(func(*moved)) if isinstance(o, Tensor))
        for a, b in zip(after, outputs):
            if a.is_floating_point() and not flambeau.equal(a, b):
                raise GradcheckError("Numerical gradient for function expected to be zero")


def gradcheck(
    func,
    inputs,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_batched_forward_grad=False,
    check_forward_ad=False,
    check_backward_ad=True,
    fast_mode=False,
    masked=None,
):
    """True if the gradients of `func` agree with central differences; else GradcheckError, or
    False without `raise_exception`. `fast_mode` makes the full comparison as well.
    """
    if not check_backward_ad and not check_forward_ad:
        raise AssertionError("Expected at least one of check_forward_ad and check_backward_ad")
    inputs = _as_tuple(inputs)
    try:
        if check_forward_ad:
            _check_forward(func, inputs, eps, atol, rtol)
        if check_backward_ad:
            _check(func, inputs, eps, atol, rtol, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check_forward(func, inputs, eps, atol, rtol):
    """Tangents against differences, along each real direction of each input."""
    from flambeau.autograd import forward_ad

    outputs = _differentiable_outputs(func(*inputs))
    for j, x in enumerate(inputs):
        if not _is_differentiable(x):
            continue
        numerical = get_numerical_jacobian_wrt_specific_input(func, j, inputs, outputs, eps)
        rows = [[] for _ in outputs]
        for direction in _weights(x.detach()):
            with forward_ad.dual_level():
                dual = list(inputs)
                dual[j] = forward_ad.make_dual(x.detach(), direction)
                for row, out in zip(rows, _as_tuple(func(*dual))):
                    tangent = forward_ad.unpack_dual(out).tangent
                    row.append(_real(flambeau.zeros_like(out) if tangent is None else tangent))
        for i, row in enumerate(rows):
            _compare(numerical[i], flambeau.stack(row), i, j, atol, rtol)


def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    gen_non_contig_grad_outputs=False,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_fwd_over_rev=False,
    check_rev_over_rev=True,
    fast_mode=False,
    masked=False,
):
    """gradcheck of the gradients of `func` with respect to `inputs` and to `grad_outputs`, which
    are random unless given.
    """
    inputs = _as_tuple(inputs)
    if grad_outputs is None:
        outputs = _differentiable_outputs(func(*inputs))
        grad_outputs = tuple(
            flambeau.randn(o.shape, dtype=_double(o.dtype), device=o.device).requires_grad_()
            for o in outputs
        )
    grad_outputs = _as_tuple(grad_outputs)
    count = len(inputs)

    def gradients(*args):
        args, weights = args[:count], args[count:]
        outputs = _differentiable_outputs(func(*args))
        tensors = [x for x in args if _is_differentiable(x)]
        found = _grad(outputs, tensors, weights, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients,
        inputs + grad_outputs,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
    )


def _double(dtype):
    if dtype in (flambeau.complex64, flambeau.complex128):
        return flambeau.complex128
    return flambeau.float64
