"""Modules as functions of their parameters."""

import flambeau
from flambeau.nn.utils import stateless


def functional_call(
    module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    """module(*args, **kwargs) with parameters and buffers from a dict, or from several."""
    dicts = parameter_and_buffer_dicts
    if isinstance(dicts, (list, tuple)):
        names = [name for d in dicts for name in d]
        if len(names) != len(set(names)):
            twice = sorted({n for n in names if names.count(n) > 1})
            raise ValueError(f"{twice} appeared in multiple dictionaries; behavior is ambiguous")
        dicts = {name: value for d in dicts for name, value in d.items()}
    return stateless._functional_call(
        module, dicts, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def stack_module_state(models):
    """(parameters, buffers) of several models of one kind, stacked by name."""
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    if any(m.training != models[0].training for m in models):
        raise RuntimeError("stack_module_state: Expected all models to have the same training mode")
    params = {
        name: flambeau.stack(
            [dict(m.named_parameters())[name].detach() for m in models]
        ).requires_grad_(p.requires_grad)
        for name, p in models[0].named_parameters()
    }
    buffers = {
        name: flambeau.stack([dict(m.named_buffers())[name] for m in models])
        for name, _ in models[0].named_buffers()
    }
    return params, buffers


def replace_all_batch_norm_modules_(root):
    """Makes batch norms use the statistics of the batch alone, in place."""
    from flambeau.nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
