"""Calling a module with other parameters than its own."""

import contextlib
import warnings

__all__ = ["functional_call"]


def _owner(module, name):
    """(module that holds `name`, last part of the name)."""
    path, _, last = name.rpartition(".")
    return (module.get_submodule(path) if path else module), last


def _aliases(module):
    """For every tied name the other names of the same tensor."""
    groups = {}
    for name, t in (
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ):
        groups.setdefault(id(t), []).append(name)
    return {n: [o for o in names if o != n] for names in groups.values() for n in names}


def _untie_named_tensors_map(module, parameters_and_buffers):
    """`parameters_and_buffers` with a value for every name of a tied tensor that it names once."""
    values = dict(parameters_and_buffers)
    for names in {tuple(sorted([n, *o])) for n, o in _aliases(module).items() if o}:
        given = [n for n in names if n in parameters_and_buffers]
        if len({id(parameters_and_buffers[n]) for n in given}) > 1:
            raise ValueError(f"functional_call: values of tied tensors differ: {given}")
        if given:
            values.update(dict.fromkeys(names, parameters_and_buffers[given[0]]))
    return values


def _check_keys(module, values) -> None:
    own = {n for n, _ in module.named_parameters(remove_duplicate=False)}
    own |= {n for n, _ in module.named_buffers(remove_duplicate=False)}
    missing, unexpected = sorted(own - values.keys()), sorted(values.keys() - own)
    if missing or unexpected:
        raise RuntimeError(
            f"functional_call: with strict=True names must match; missing {missing}, "
            f"unexpected {unexpected}"
        )


def _swap(module, name, value):
    """Puts `value` in place of a parameter or buffer; returns what undoes it."""
    owner, last = _owner(module, name)
    for held in (owner._parameters, owner._buffers):
        if last in held:
            old = held[last]
            held[last] = value
            return held, last, old
    raise AttributeError(f"functional_call: {owner._get_name()} has no parameter or buffer {last}")


@contextlib.contextmanager
def _reparametrize_module(
    module, parameters_and_buffers, *, tie_weights=False, strict=False, stack_weights=False
):
    """Within the block `module` holds the given tensors; what it writes to them is kept there."""
    values = parameters_and_buffers
    if tie_weights:
        values = _untie_named_tensors_map(module, values)
    if strict:
        _check_keys(module, values)
    undo = []
    try:
        for name, value in values.items():
            undo.append((name, *_swap(module, name, value)))
        yield
    finally:
        for name, held, last, old in reversed(undo):
            if name in parameters_and_buffers and held[last] is not parameters_and_buffers[name]:
                with contextlib.suppress(TypeError):
                    parameters_and_buffers[name] = held[last]  # a buffer that forward replaced
            held[last] = old


def _functional_call(
    module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(
        module, parameters_and_buffers, tie_weights=tie_weights, strict=strict
    ):
        return module(*args, **(kwargs or {}))


def functional_call(
    module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    """Deprecated home of `flambeau.func.functional_call`."""
    warnings.warn(
        "nn.utils.stateless.functional_call is deprecated, use func.functional_call",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
