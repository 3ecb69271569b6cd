"""Calling several modules at once, one thread each."""

import threading

import flambeau

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj):
    """The first tensor in a nested structure, or None."""
    if isinstance(obj, flambeau.Tensor):
        return obj
    items = obj.items() if isinstance(obj, dict) else obj if isinstance(obj, (list, tuple)) else ()
    for item in items:
        found = get_a_var(item)
        if found is not None:
            return found
    return None


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """[module(*input, **kwargs), ...], in threads; the first error is raised here."""
    if len(modules) != len(inputs):
        raise AssertionError(
            f"parallel_apply: as many modules as inputs, got {len(modules)} and {len(inputs)}"
        )
    kwargs_tup = ({},) * len(modules) if kwargs_tup is None else kwargs_tup
    results = [None] * len(modules)
    errors = [None] * len(modules)
    grad = flambeau.is_grad_enabled()

    def work(i):
        args = inputs[i] if isinstance(inputs[i], (list, tuple)) else (inputs[i],)
        try:
            with flambeau.set_grad_enabled(grad):
                results[i] = modules[i](*args, **kwargs_tup[i])
        except Exception as e:
            errors[i] = e

    if len(modules) == 1:
        work(0)
    else:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(modules))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    for e in errors:
        if e is not None:
            raise e
    return results
