"""Context managers that also decorate functions."""

import functools

_GENERATOR = 0x20  # a flag of code objects; the module inspect would cost more than all the rest


def _generator(make, func):
    """The context is active while the generator's own code runs, not while its caller's does."""

    @functools.wraps(func)
    def run(*args, **kwargs):
        with make():
            gen = func(*args, **kwargs)
            step, value = gen.__next__, ()
        try:
            while True:
                try:
                    with make():
                        item = step(*value)
                except StopIteration as stop:
                    return stop.value
                try:
                    step, value = gen.send, ((yield item),)
                except GeneratorExit:
                    with make():
                        gen.close()
                    raise
                except BaseException as error:
                    step, value = gen.throw, (error,)
        finally:
            gen.close()

    return run


def context_decorator(ctx, func):
    """`func`, run inside a context: `ctx` makes one a call (or is one that can be entered again)."""
    make = (
        ctx.clone
        if hasattr(ctx, "clone")
        else ctx
        if not hasattr(ctx, "__enter__")
        else lambda: ctx
    )
    code = getattr(func, "__code__", None)
    if code is not None and code.co_flags & _GENERATOR:
        return _generator(make, func)

    @functools.wraps(func)
    def decorated(*args, **kwargs):
        with make():
            return func(*args, **kwargs)

    return decorated
