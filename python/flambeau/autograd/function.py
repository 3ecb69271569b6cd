"""Custom functions: Function, its context, and what wraps their backward."""

import functools

import flambeau
from flambeau import _C, Tensor

__all__ = [
    "FunctionCtx",
    "BackwardCFunction",
    "Function",
    "once_differentiable",
    "InplaceFunction",
    "NestedIOFunction",
]

FunctionCtx = _C._FunctionBase


class BackwardCFunction(_C._FunctionBase):
    """The context of one call, which is also the grad_fn of its results."""

    def apply(self, *args):
        """Calls the class's backward with these gradients."""
        cls = self._forward_cls
        name = "backward" if cls.backward is not Function.backward else "vjp"
        return getattr(cls, name)(self, *args)

    def _register_hook_dict(self, tensor):
        raise NotImplementedError("_register_hook_dict: register hooks on the tensor")


class Function(_C._FunctionApply):
    """An op with a gradient written in Python.

    Define `forward(ctx, *args)` and `backward(ctx, *grads)` as static methods (or `forward(*args)`
    with `setup_context(ctx, inputs, output)`) and call `apply`.
    """

    generate_vmap_rule = False

    def __init__(self, *args, **kwargs):
        raise RuntimeError(
            f"{type(self).__name__} should not be instantiated. Methods on autograd functions are "
            f"all static, so you should invoke them on the class itself: "
            f"{type(self).__name__}.apply(...)"
        )

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls._backward_cls = type(
            cls.__name__ + "Backward",
            (BackwardCFunction,),
            {"_forward_cls": cls, "__module__": cls.__module__},
        )

    @classmethod
    def _dual_context(cls, inputs, output):
        context = _DualContext(tuple(isinstance(x, Tensor) for x in inputs))
        with flambeau.no_grad():
            if cls.setup_context is not Function.setup_context:
                cls.setup_context(context, tuple(inputs), output)
            else:
                cls.forward(context, *inputs)
        return context

    @staticmethod
    def forward(*args, **kwargs):
        """To be defined by every subclass."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Where defined, `forward` gets no context and this saves what backward needs."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """The gradients of forward's arguments, None for those that have none."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def vjp(ctx, *grad_outputs):
        """Another name of `backward`; define one of the two."""
        raise NotImplementedError("vjp: define backward or vjp")

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """The tangents of the results, for forward mode."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info, in_dims, *args):
        """What the function does under vmap."""
        raise NotImplementedError("vmap: define the static method or set generate_vmap_rule")


Function.__module__ = FunctionCtx.__module__ = __name__


class InplaceFunction(Function):
    """A Function that may work in place; the old form of `mark_dirty`."""

    def __init__(self, inplace=False):
        self.inplace = inplace


def _bound_arguments(cls, args, kwargs):
    """The arguments of `forward`, keywords and defaults in their places."""
    if cls.setup_context is Function.setup_context:
        raise TypeError(f"{cls.__name__}.apply() takes no keyword arguments")
    if not kwargs and not getattr(cls.forward, "__defaults__", None):
        return args
    import inspect

    bound = inspect.signature(cls.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def _apply_dual(cls, args):
    """`apply` on dual tensors: forward on the primals, then the class's jvp on the tangents."""
    duals = [_C._unpack_dual(a) if isinstance(a, Tensor) else (a, None) for a in args]
    primals, tangents = [p for p, _ in duals], [t for _, t in duals]
    result = cls.apply(*primals)
    single = not isinstance(result, tuple)
    results = (result,) if single else result
    context = cls._dual_context(primals, result)
    changes = cls.jvp(context, *tangents)
    changes = changes if isinstance(changes, tuple) else (changes,)
    if len(changes) != len(results):
        raise RuntimeError(
            f"{cls.__name__}.jvp: must return {len(results)} tangents, got {len(changes)}"
        )
    results = tuple(r if t is None else _C._make_dual(r, t) for r, t in zip(results, changes))
    return results[0] if single else results


def _apply_batched(cls, args):
    """`apply` inside vmap: the class's own vmap on all examples, or once per example."""
    from flambeau.func._vmap import apply_function

    return apply_function(cls, args, cls.vmap is not Function.vmap)


class _DualContext:
    """What `forward` or `setup_context` puts aside for `jvp`."""

    def __init__(self, needs):
        self.needs_input_grad, self.saved_tensors = needs, ()

    def save_for_backward(self, *tensors):
        """Nothing runs backward through this context."""

    def save_for_forward(self, *tensors):
        self.saved_tensors = tensors

    def mark_dirty(self, *tensors):
        raise NotImplementedError("jvp of a function that works in place")

    def mark_non_differentiable(self, *tensors):
        self.non_differentiable = tensors

    def set_materialize_grads(self, value):
        self.materialize_grads = value


class _Undifferentiable(Function):
    """The identity whose backward fails: the results of a backward that ops cannot follow."""

    @staticmethod
    def forward(ctx, message, *tensors):
        ctx.message = message
        return tensors

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(ctx.message)


def once_differentiable(fn):
    """For a backward that uses other things than ops: a second derivative is an error."""

    @functools.wraps(fn)
    def wrapper(ctx, *args):
        with flambeau.no_grad():
            outputs = fn(ctx, *args)
        needed = any(isinstance(a, Tensor) and a.requires_grad for a in args)
        if not (flambeau.is_grad_enabled() and needed):
            return outputs
        single = not isinstance(outputs, tuple)
        outputs = (outputs,) if single else outputs
        marked = [None if v is None else v.detach().requires_grad_(True) for v in outputs]
        message = (
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )
        blocked = _Undifferentiable.apply(message, *marked)
        return blocked[0] if single else blocked

    return wrapper


def _leaves(structure):
    if isinstance(structure, Tensor):
        yield structure
    elif isinstance(structure, (list, tuple)):
        for item in structure:
            yield from _leaves(item)


def _rebuilt(structure, leaves):
    """`structure` with its tensors replaced by the next ones of `leaves`."""
    if isinstance(structure, Tensor):
        return next(leaves)
    if isinstance(structure, (list, tuple)):
        return type(structure)(_rebuilt(item, leaves) for item in structure)
    return structure


class NestedIOFunction(Function):
    """A Function whose arguments and results may be nested lists and tuples of tensors."""

    @classmethod
    def apply_nested(cls, *args):
        """Runs `forward_extended` on nested arguments."""
        return _rebuilt(args, iter(cls.apply(*_leaves(args))))
