"""What a test row is made of. Rows are data: they import neither flambeau nor torch, only numpy and math."""

import random
from dataclasses import dataclass, field

FLOATS = ("float32", "float64")
HALVES = ("float16", "bfloat16")
INTS = ("int64", "int32", "uint8")
COMPLEX = ("complex64", "complex128")

# Relative and absolute tolerance against a reference in double precision.
TOLERANCE = {
    "float64": 1e-12,
    "float32": 2e-6,
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
    "complex64": 4e-6,
    "complex128": 1e-12,
}


class S:
    """A sample call. A tuple is a tensor of that shape, anything else is passed as it is (lists for sizes).

    `V([...])` gives explicit values, a list of tuples a list of tensors. Keywords that end in an underscore steer the
    inputs: `low_` and `high_` are their range, `dtype_` one dtype whatever the sweep, `strided_` makes them strided; `grad_=False` keeps the sample out of derivatives.
    """

    def __init__(self, *args, **kwargs):
        self.low, self.high = kwargs.pop("low_", -2.0), kwargs.pop("high_", 2.0)
        self.dtype = kwargs.pop("dtype_", None)
        self.strided = kwargs.pop("strided_", False)
        self.grad = kwargs.pop("grad_", True)
        self.args, self.kwargs = args, kwargs

    def __repr__(self):
        parts = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs.items()]
        return f"S({', '.join(parts)})"

    def make(self, library, dtype, device="cpu", requires_grad=False, strided=False):
        """Arguments and keywords for a call, the same values every time."""
        rng = random.Random(17)

        def build(a):
            if isinstance(a, V):
                return a.make(library, device, requires_grad, dtype)
            if isinstance(a, list) and a and all(isinstance(x, (tuple, V)) for x in a):
                return [build(x) for x in a]
            if not isinstance(a, tuple):
                return a
            return self.tensor(library, a, dtype, device, rng, requires_grad, strided)

        return [build(a) for a in self.args], {k: build(v) for k, v in self.kwargs.items()}

    def tensor(self, library, shape, dtype, device, rng, requires_grad, strided):
        dtype = self.dtype or dtype
        count = 1
        for n in shape:
            count *= n
        values = [self.value(dtype, rng) for _ in range(count)]
        t = library.tensor(values, dtype=getattr(library, dtype), device=device)
        t = t.reshape(list(shape)).clone()  # memory of its own: not a view
        if (self.strided or strided) and shape:
            t = library.stack([t, t], -1)[..., 0]
        inexact = "float" in dtype or "complex" in dtype
        return t.requires_grad_() if requires_grad and inexact else t

    def value(self, dtype, rng):
        if dtype == "bool":
            return rng.random() < 0.5
        if "int" in dtype:
            low = max(int(self.low), 0) if dtype.startswith("u") else int(self.low)
            return rng.randint(low, max(low, int(self.high)))
        if "complex" in dtype:
            return complex(rng.uniform(-1, 1), rng.uniform(-1, 1))
        if dtype == "float64":  # the sweeps of derivatives want no ties
            return rng.uniform(self.low, self.high)
        # Steps of 1/64 are exact in every floating dtype: all of them see one input.
        return round(rng.uniform(self.low, self.high) * 64) / 64


def holds_floats(values):
    return any(map(holds_floats, values)) if isinstance(values, list) else isinstance(values, float)


class V:
    """A tensor with explicit values; `dtype` defaults to what the values say."""

    def __init__(self, values, dtype=None):
        self.values, self.dtype = values, dtype

    def __repr__(self):
        return f"V({self.values!r})"

    def make(self, library, device, requires_grad, sweep):
        kind = getattr(library, self.dtype) if self.dtype else None
        if kind is None and "float" in sweep and holds_floats(self.values):
            kind = getattr(library, sweep)
        t = library.tensor(self.values, dtype=kind, device=device)
        inexact = t.dtype.is_floating_point or t.dtype.is_complex
        return t.requires_grad_() if requires_grad and inexact else t


class Sparse(V):
    """The elements of explicit values that are not zero, as a sparse tensor without gradient."""

    def make(self, library, device, requires_grad, sweep):
        return super().make(library, device, False, sweep).to_sparse()


@dataclass
class E:
    """A call that must fail: a sample, the exception's type and a pattern of its text."""

    sample: S
    type: type
    match: str
    dtype: str = "float32"


def error(*args, type, match, dtype="float32", **kwargs):
    return E(S(*args, **kwargs), type, match, dtype)


@dataclass
class Op:
    """One row of tests for the op `name`: a function, an nn function or a method.

    ref(*arrays, **kwargs) is the same in NumPy, on doubles. `inplace`, `out`, `grad`, `second` switch sweeps off where
    they make no sense; `strided` the one with strided inputs, `meta` the one without values; `exact` asks for equality; `random` means that only shape and dtype can be compared.
    """

    name: str
    samples: list
    ref: object = None
    dtypes: tuple = FLOATS + HALVES
    tol: dict = field(default_factory=dict)
    errors: list = field(default_factory=list)
    grad: bool = True
    second: bool = True
    inplace: bool = True
    out: bool = True
    exact: bool = False
    random: bool = False
    strided: bool = True
    meta: bool = True

    def tolerance(self, dtype):
        return 0.0 if self.exact else self.tol.get(dtype, TOLERANCE.get(dtype, 0.0))
