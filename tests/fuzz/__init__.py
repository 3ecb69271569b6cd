"""Bad and odd input for every op: the calls of the test rows, each changed in one or more places."""

import contextlib
import os
import random
import resource

import flambeau as fl

BIG = (2**31, 2**40, -(2**40), 2**62, -(2**63), 2**63 - 1)
# What a user's mistake may raise; anything else is our own fault.
EXPECTED = (RuntimeError, TypeError, ValueError, IndexError, OverflowError, MemoryError)
OTHER_DTYPES = (
    "bool uint8 int8 int64 uint16 uint64 float16 bfloat16 float64 complex64 float8_e4m3fn".split()
)


# Bytes that calls may ask for beyond what the process has. A sanitizer takes more of them, and what does not fit
# into a vector of C++ ends the program.
ROOM = (2 if "asan" in os.environ.get("LD_PRELOAD", "") else 1) << 30


@contextlib.contextmanager
def little_memory(room=ROOM):
    """Huge sizes must fail at once, not fill the machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as f:
        used = int(f.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def function_of(name):
    """The op as a function; a method is called on its first argument."""
    for place in (fl, fl._C._nn, fl._C._linalg, fl._C._special, fl._C._sparse):
        if hasattr(place, name):
            return getattr(place, name)
    return getattr(fl.Tensor, name)


def one_in_first(x):
    return x[:1].expand(x.shape) if x.dim() else x.expand(3)


def index_like(value):
    return lambda x: fl.full(x.shape, value, dtype=fl.int64)


TENSOR_CHANGES = {
    **{f"as {d}": lambda x, d=d: x.detach().to(getattr(fl, d)) for d in OTHER_DTYPES},
    "without elements": lambda x: x[:0] if x.dim() else x.reshape(1)[:0],
    "without last dim": lambda x: x[..., :0] if x.dim() else x.reshape(1)[:0],
    "0-d": lambda x: x.reshape(-1)[0] if x.numel() else fl.zeros((), dtype=x.dtype),
    "flat": lambda x: x.reshape(-1),
    "one dim more": lambda x: x.unsqueeze(0),
    "two dims more": lambda x: x[None, None],
    "five dims more": lambda x: x[None, None, None, None, None],
    "a row less": lambda x: x[1:] if x.dim() else x,
    "a column less": lambda x: x[..., 1:] if x.dim() else x,
    "twice as long": lambda x: fl.cat([x, x]) if x.dim() else x,
    "expanded": one_in_first,
    "transposed": lambda x: x.mT if x.dim() > 1 else x,
    "every other": lambda x: x[::2] if x.dim() else x,
    "on meta": lambda x: x.to("meta"),
    "on fake": lambda x: x.to("fake"),
    "conjugate": lambda x: x.to(fl.complex64).conj(),
    "recorded": lambda x: x.detach().requires_grad_() if x.dtype.is_floating_point else x,
    "nan": lambda x: fl.full_like(x, float("nan")) if x.dtype.is_floating_point else x,
    "inf": lambda x: fl.full_like(x, float("inf")) if x.dtype.is_floating_point else x,
    "negative": lambda x: -x.abs() - 1 if x.dtype not in (fl.bool, fl.uint8) else x,
    "index 1000": index_like(1000),
    "index -1000": index_like(-1000),
    "index least": index_like(-(2**63)),
    "index most": index_like(2**63 - 1),
    "None": lambda x: None,
    "text": lambda x: "text",
    "number": lambda x: 1.5,
    "list": lambda x: [x, x],
    "empty list": lambda x: [],
}
NUMBER_CHANGES = {
    **{str(n): lambda x, n=n: n for n in (0, 1, -1, 7, -7, 65, *BIG)},
    **{str(v): lambda x, v=v: v for v in (1.5, -0.5, 1e308, float("nan"), float("inf"))},
    "2 ** 64": lambda x: 2**64,
    "complex": lambda x: 1 + 2j,
    "bool": lambda x: True,
    "None": lambda x: None,
    "text": lambda x: "text",
    "list": lambda x: [x],
    "nested list": lambda x: [[x]],
    "tensor": lambda x: fl.ones(2),
    "0-d tensor": lambda x: fl.tensor(2),
}
LIST_CHANGES = {
    "empty": lambda x: [],
    "longer": lambda x: [*x, 1],
    "one less": lambda x: x[:-1],
    "sixty-five": lambda x: [*x] * 65,
    "reversed": lambda x: x[::-1],
    "negative": lambda x: [-1 for _ in x],
    "zeros": lambda x: [0 for _ in x],
    "halves": lambda x: [0.5 for _ in x],
    "nones": lambda x: [None for _ in x],
    "doubled": lambda x: [x[0] for _ in x] if x else x,
    **{f"all {n}": lambda x, n=n: [n for _ in x] for n in BIG},
    "text": lambda x: "text",
    "None": lambda x: None,
    "number": lambda x: 3,
}


def changes_for(value):
    if isinstance(value, fl.Tensor):
        return TENSOR_CHANGES
    if isinstance(value, (int, float, complex)):
        return NUMBER_CHANGES
    return LIST_CHANGES if isinstance(value, (list, tuple)) else {"number": lambda x: 3}


def places(args, kwargs):
    """(container, key) of every argument, the elements of lists of tensors included."""
    found = [(args, i) for i in range(len(args))] + [(kwargs, k) for k in kwargs]
    for box, key in list(found):
        if isinstance(box[key], list) and any(isinstance(t, fl.Tensor) for t in box[key]):
            found += [(box[key], i) for i in range(len(box[key]))]
    return found


def all_changes(make):
    """(text, args, kwargs) of each call that differs from `make()` in one place, and of a few general ones."""
    args, kwargs = make()
    for place in range(len(places(args, kwargs))):
        box, key = places(*make())[place]
        for name in changes_for(box[key]):
            changed = make()
            if change(changed, place, name):
                yield f"argument {key}: {name}", *changed
    yield "no argument", [], {}
    yield "one more", [*args, fl.ones(1)], kwargs
    yield "unknown keyword", args, {**kwargs, "unknown": 1}


def change(call, place, name):
    """Changes one argument of a call; False where that change cannot be made."""
    box, key = places(*call)[place]
    try:
        box[key] = changes_for(box[key])[name](box[key])
    except EXPECTED:
        return False
    return True


def random_change(call, rng: random.Random):
    """Changes up to three arguments; the text says which."""
    done = []
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        options = places(*call)
        if not options:
            break
        place = rng.randrange(len(options))
        box, key = options[place]
        name = rng.choice(list(changes_for(box[key])))
        if change(call, place, name):
            done.append(f"argument {key}: {name}")
    return ", ".join(done) or "as it is"


def tensors_of(value):
    if isinstance(value, dict):
        return tensors_of(list(value.values()))
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors_of(v)]
    return [value] if isinstance(value, fl.Tensor) else []


def contents(tensors):
    """Sizes and bytes of tensors, to see that a failed call left them alone."""
    return [
        (t.dtype, t.shape, None if t.device.type == "meta" else bytes_of(t))
        if t.dtype in COMPARABLE
        else None
        for t in tensors
    ]


def bytes_of(t):
    return t.detach().cpu().to_dense().numpy().tobytes()


COMPARABLE = {fl.float32, fl.float64, fl.int64, fl.int32, fl.uint8, fl.bool, fl.complex64}


def call(f, args, kwargs, backward=False):
    """Runs one call. None if it did something sensible, otherwise what was wrong.

    Sensible is a result, or an exception of a class that users expect with all tensors as they were.
    """
    given = tensors_of([args, kwargs])
    before = contents(given)
    try:
        result = f(*args, **kwargs)
    except EXPECTED as e:
        if "ssertion" in str(e) or not str(e):
            return f"raised {type(e).__name__}: {e}"
        return None if contents(given) == before else f"changed its input, then raised {e}"
    except BaseException as e:
        return f"raised {type(e).__name__}: {e}"
    if backward:
        return run_backward(result)
    return None


def run_backward(result):
    outputs = [t for t in tensors_of(result) if t.requires_grad and t.device.type == "cpu"]
    try:
        for t in outputs:
            t.backward(fl.ones_like(t), retain_graph=True)
    except EXPECTED as e:
        return f"backward raised {type(e).__name__}: {e}" if "ssertion" in str(e) else None
    except BaseException as e:
        return f"backward raised {type(e).__name__}: {e}"
    return None


def forms(op, call):
    """The op's forms that take this call: function, in-place method, with out=."""
    args, kwargs = call
    yield function_of(op.name)
    if args and isinstance(args[0], fl.Tensor) and hasattr(fl.Tensor, op.name + "_"):
        yield getattr(fl.Tensor, op.name + "_")


def with_outs(call):
    """The call with results of other sizes and dtypes, and with an input as its result."""
    args, kwargs = call
    outs = [fl.empty(0), fl.empty(2, 1), fl.empty(3, dtype=fl.int64), fl.ones(1).expand(4)]
    for out in outs + tensors_of(args)[:1]:
        yield args, {**kwargs, "out": out}
