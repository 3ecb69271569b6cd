"""The text of a tensor, character for character torch's."""

import contextlib
import math
from types import SimpleNamespace

from flambeau import _C

PRINT_OPTS = SimpleNamespace(precision=4, threshold=1000, edgeitems=3, linewidth=80, sci_mode=None)
_PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None
):
    """Sets how tensors are shown: digits, from how many elements and with how many at each edge
    they are summarised, the width of a line, scientific notation (None: where it reads better).
    """
    if profile is not None:
        PRINT_OPTS.__dict__.update(_PROFILES[profile])
    options = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    PRINT_OPTS.__dict__.update((k, v) for k, v in options.items() if v is not None)
    PRINT_OPTS.sci_mode = sci_mode


def get_printoptions() -> dict:
    """The settings of set_printoptions."""
    return dict(vars(PRINT_OPTS))


@contextlib.contextmanager
def printoptions(**kwargs):
    """set_printoptions for the length of a with statement."""
    before = get_printoptions()
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        PRINT_OPTS.__dict__.update(before)


def _flat(values):
    if isinstance(values, list):
        for v in values:
            yield from _flat(v)
    else:
        yield values


class _RealFormat:
    """One width and notation for all floats that are shown."""

    def __init__(self, values):
        self.precision = PRINT_OPTS.precision
        self.width, self.whole, self.scientific = 1, True, False
        shown = [v for v in values if v != 0 and math.isfinite(v)]
        if shown:
            self.measure(shown)
        elif PRINT_OPTS.sci_mode is not None:
            self.scientific = PRINT_OPTS.sci_mode

    def measure(self, shown):
        low, high = min(map(abs, shown)), max(map(abs, shown))
        self.whole = all(v == math.ceil(v) for v in shown)
        wide = high / low > 1000 or high > 1e8 or (not self.whole and low < 1e-4)
        self.scientific = wide if PRINT_OPTS.sci_mode is None else PRINT_OPTS.sci_mode
        self.width = max(len(self.text(v)) for v in shown)

    def text(self, v):
        if self.scientific:
            return f"{v:.{self.precision}e}"
        if self.whole:
            return f"{v:.0f}." if math.isfinite(v) else f"{v:.0f}"
        return f"{v:.{self.precision}f}"

    def __call__(self, v):
        return self.text(v).rjust(self.width)


class _PlainFormat:
    """Integers and bools."""

    def __init__(self, values):
        self.width = max((len(str(v)) for v in values), default=0)

    def __call__(self, v):
        return str(v).rjust(self.width)


class _ComplexFormat:
    """Real and imaginary parts, each with a notation of its own."""

    def __init__(self, values):
        values = list(values)
        self.real = _RealFormat([v.real for v in values])
        self.imag = _RealFormat([v.imag for v in values])
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, v):
        imag = self.imag(v.imag).lstrip() + "j"
        return self.real(v.real) + ("" if imag[0] in "+-" else "+") + imag


def _vector(values, size, indent, show, cut):
    edge = PRINT_OPTS.edgeitems
    texts = [show(v) for v in values]
    if cut and size > 2 * edge:
        texts[edge:edge] = [" ..."]
    if cut and not edge:
        texts = ["..."]
    per_line = max(1, (PRINT_OPTS.linewidth - indent) // (show.width + 2))
    lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _nested(values, shape, indent, show, cut):
    if not shape:
        return show(values)
    if len(shape) == 1:
        return _vector(values, shape[0], indent, show, cut)
    edge = PRINT_OPTS.edgeitems
    parts = [_nested(v, shape[1:], indent + 1, show, cut) for v in values]
    if cut and shape[0] > 2 * edge:
        parts[edge:edge] = ["..."]
    return "[" + ("," + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(parts) + "]"


def _contents(t, indent):
    """The values between the brackets; large tensors show the edges of every dim."""
    if t.numel() == 0:
        return "[]"
    cut = t.numel() > PRINT_OPTS.threshold
    values = _C._edge_list(t, PRINT_OPTS.edgeitems if cut else -1)
    kind = (
        _RealFormat
        if t.dtype.is_floating_point
        else _ComplexFormat
        if t.dtype.is_complex
        else _PlainFormat
    )
    return _nested(values, tuple(t.shape), indent, kind(list(_flat(values))), cut)


def _has_default_dtype(t):
    default = _C.get_default_dtype()
    complex_default = _C.complex128 if default is _C.float64 else _C.complex64
    return t.dtype in (default, complex_default, _C.int64, _C.bool)


def _facts(t):
    """What follows the values: device, size, dtype, history."""
    meta = t.device.type == "meta"
    if t.device != _C.device("cpu"):
        yield f"device='{t.device}'"
    if meta or t.numel() == 0:
        if meta or t.dim() != 1:
            yield f"size={tuple(t.shape)}"
        if t.dtype != _C.get_default_dtype():
            yield f"dtype={t.dtype}"
    elif not _has_default_dtype(t):
        yield f"dtype={t.dtype}"
    yield from _history(t)


def _history(t):
    if t.grad_fn is not None:
        yield f"grad_fn=<{type(t.grad_fn).__name__}>"
    elif t.requires_grad:
        yield "requires_grad=True"


def _with_facts(text, facts, indent):
    length = len(text) - text.rfind("\n") + 1
    for fact in facts:
        if length + len(fact) + 2 > PRINT_OPTS.linewidth:
            text += ",\n" + " " * indent + fact
            length = indent + len(fact)
        else:
            text += ", " + fact
            length += len(fact) + 2
    return text + ")"


_PARTS = {
    "sparse_coo": ("_indices", "_values"),
    "sparse_csr": ("crow_indices", "col_indices", "values"),
    "sparse_csc": ("ccol_indices", "row_indices", "values"),
}


def _sparse_contents(t, layout, indent):
    """The parts of a sparse tensor, one below the other, and what is known of it."""
    parts = [getattr(t.detach(), name)() for name in _PARTS[layout]]
    names = [name.lstrip("_") for name in _PARTS[layout]]
    texts = [
        f"{name}=tensor({_contents(part, indent + len(name) + 8)}"
        + ("" if part.numel() else f", size={tuple(part.shape)}")
        + ")"
        for name, part in zip(names, parts)
    ]
    return (",\n" + " " * indent).join(texts)


def _sparse_facts(t, layout):
    yield f"size={tuple(t.shape)}"
    yield f"nnz={t._nnz()}"
    if not _has_default_dtype(t):
        yield f"dtype={t.dtype}"
    yield f"layout=torch.{layout}"
    yield from _history(t)


def _str(t, *, tensor_contents=None):
    if batched := _C._vmap_values(t):
        values, level = batched
        return f"BatchedTensor(lvl={level}, bdim=0, value={_str(values)})"
    plain = type(t) in (_C.Tensor, _C.Parameter)
    prefix = "tensor(" if plain else type(t).__name__ + "("
    _C._disable_overrides(1)
    try:
        layout = str(t.layout).removeprefix("torch.")
        if layout != "strided":
            text = prefix + _sparse_contents(t, layout, len(prefix))
            facts = ", ".join(_sparse_facts(t, layout))
            return f"{text},\n{' ' * len(prefix)}{facts})"
        if tensor_contents is None:
            meta = t.device.type == "meta"
            tensor_contents = "..." if meta else _contents(t, len(prefix))
        return _with_facts(prefix + tensor_contents, _facts(t), len(prefix))
    finally:
        _C._disable_overrides(-1)
