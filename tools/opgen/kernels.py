"""Emits the pointwise bodies, forward and backward, and their tables by compute type."""

from tools.opgen import formula as F
from tools.opgen import nodes
from tools.opgen.nodes import Plan
from tools.opgen.schema import Signature
from tools.opgen.table import Row

# compute types in the order of ops/pointwise.h, with the group of `types` that each belongs to
COMPUTE = [
    ("int32_t", "int"),
    ("int64_t", "int"),
    ("uint64_t", "int"),
    ("float", "float"),
    ("double", "float"),
    ("complex<float>", "complex"),
    ("complex<double>", "complex"),
]


def body(symbol: str, tensors: list[str], numbers: list[str], code: str, drop: list[str]) -> str:
    code = F.ones_for(drop, code)
    lines = [
        f"struct {symbol}Body {{",
        "  template <class V>",
        "  static auto call([[maybe_unused]] const V* x, [[maybe_unused]] const V* p) {",
    ]
    lines += [f"    [[maybe_unused]] const V& {n} = x[{i}];" for i, n in enumerate(tensors)]
    lines += [f"    [[maybe_unused]] const V& {n} = p[{i}];" for i, n in enumerate(numbers)]
    return "\n".join([*lines, f"    return {code};", "  }", "};\n"])


def table(symbol: str, types: list[str], out: str, inputs: int, params: int) -> str:
    cells = []
    for cpp, group in COMPUTE:
        if group not in types:
            cells.append("nullptr")
            continue
        kind = cpp.replace("complex<", "Cplx<")
        real = {"Cplx<float>": "float", "Cplx<double>": "double"}.get(kind, kind)
        target = {"bool": "bool", "real": real}.get(out, kind)
        cells.append(f"&loop<{symbol}Body, {kind}, {target}, {inputs}, {params}>")
    return f"extern constinit const PointwiseTable {symbol}Loops = {{{{{', '.join(cells)}}}}};\n"


def emit(row: Row, sig: Signature) -> str:
    tensors, numbers = [a.name for a in sig.tensors], [a.name for a in sig.args if a.is_number]
    code = (
        row.fwd
        or f"{row.body}()({', '.join(a.name for a in sig.args if a.is_tensor or a.is_number)})"
    )
    plan = Plan(row, sig)
    missing = [
        n
        for n in F.identifiers(code)
        if n in {a for s in row.sigs for a in [x.name for x in s.args]}
        and n not in tensors + numbers
    ]
    out = {"bool": "bool", "real": "real"}.get(row.dtype_of("result"), "same")
    text = f"// From ops/{row.file}.toml [{row.key}]. Do not edit.\n"
    text += body(sig.type_name, tensors, numbers, code, missing)
    text += table(sig.type_name, row.number_types, out, len(tensors), len(numbers))
    for a in plan.inputs:
        parts = nodes.fused(plan, a)
        if parts:
            symbol = nodes.fused_name(plan, a)
            text += body(symbol, *parts, plan.formulas[a.name], plan.unused())
            inexact = [t for t in row.number_types if t != "int"]
            text += table(symbol, inexact, "same", len(parts[0]), len(parts[1]))
    return text


def symbols(row: Row, sig: Signature) -> list[str]:
    plan = Plan(row, sig)
    return [sig.type_name] + [
        nodes.fused_name(plan, a) for a in plan.inputs if nodes.fused(plan, a)
    ]
