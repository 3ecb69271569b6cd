"""Emits the run-time table (ops/op_info.h), which is the binding, and the operator structs."""

from tools.opgen import ops
from tools.opgen.schema import TYPES, Arg, Signature
from tools.opgen.table import OpSet, Row


def quoted(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def long_text(text: str) -> str:
    """A string constant, one source line per line of text."""
    lines = text.strip("\n").split("\n")
    return "\n    ".join(
        quoted(line + ("\n" if i + 1 < len(lines) else "")) for i, line in enumerate(lines)
    )


def param(a: Arg) -> str:
    flags = [str(v).lower() for v in (a.optional, a.keyword_only, a.default is None)]
    return (
        f"{{{quoted(a.name)}, ArgKind::{TYPES[a.type][2]}, {', '.join(flags)}, {a.size}, "
        f"{quoted(a.default or '')}}}"
    )


def pointer(name: str, returns: str, types: list[str]) -> tuple[str, str]:
    kind = f"{returns} (*)({', '.join(types)})"
    return f"(void*)static_cast<{kind}>(&ops::{name})", f"&AdapterOf<{kind}>::call"


def overload(row: Row, sig: Signature, inplace: bool, alias: str) -> str:
    types = [a.cpp for a in sig.args]
    name = sig.name
    empty = ("nullptr", "nullptr")
    if inplace:
        types[0] = "Tensor&"
        plain, out = pointer(name + "_", "Tensor&", types), empty
    else:
        plain, out = pointer(name, sig.returns, types), empty
        if ops.has_out(row, sig):
            out = pointer(name + "_out", ops.out_return(sig), ["Tensor&"] * len(sig.outs) + types)
    positional = sum(not a.keyword_only for a in sig.args)
    results = quoted(" ".join(sig.outs)) if sig.named else '""'
    schema = alias + sig.text[len(sig.name) :]
    kind = row.kind.capitalize()
    outs = len(sig.outs) if out is not empty else 0
    return (
        f"    {{{quoted(alias)}, {quoted(sig.overload)},\n     {quoted(schema)},\n     OpKind::{kind}, "
        f"{params_name(sig) if sig.args else 'nullptr'}, {len(sig.args)}, {positional}, {results},\n"
        f"     {plain[0]},\n     {plain[1]},\n     {out[0]},\n     {out[1]}, {outs}, {str(inplace).lower()}}},\n"
    )


def params_name(sig: Signature) -> str:
    return f"kParams_{sig.id}{'' if not sig.name.endswith('_') else 'mutates'}"


def set_name(s: OpSet) -> str:
    return f"kSet_{s.name}"


def emit_sets(sets: list[OpSet]) -> str:
    text, done = "", set()
    for s in sets:
        for _, sig in s.entries:
            name = params_name(sig)
            if sig.args and name not in done:
                done.add(name)
                text += f"constexpr Param {name}[] = {{{', '.join(param(a) for a in sig.args)}}};\n"
        text += f"const OpInfo kOps_{s.name}[] = {{\n"
        text += "".join(overload(row, sig, s.inplace, s.name) for row, sig in s.entries) + "};\n"
        doc = s.entries[0][0].doc or ""
        operator = s.entries[0][0].operator or ""
        text += (
            f"const OpSet {set_name(s)} = {{{quoted(s.name)}, kOps_{s.name}, {len(s.entries)}, "
            f"{quoted(' '.join(s.forms))}, {quoted(operator if not s.inplace else '')},\n    {long_text(doc)}}};\n"
        )
    return text


def operator_structs(sets: list[OpSet]) -> str:
    """One struct per row with an `operator`: what the number protocol of the Python type calls directly."""
    by_name = {s.name: s for s in sets}
    text, names = "", []
    for s in sets:
        symbol = s.entries[0][0].operator
        row = s.entries[0][0]
        if not symbol or s.inplace or s.name != row.key.split(".")[0]:
            continue
        struct = "".join(p.capitalize() for p in s.name.split("_") if p) + "Operator"
        names.append(struct)
        text += f"struct {struct} {{\n  static constexpr const char *name = {quoted(s.name)}, *symbol = {quoted(symbol)};\n"
        for _, sig in s.entries:
            text += operator_calls(sig, s.name, f"{s.name}_" in by_name)
        text += "};\n"
    return text + "using Operators = TypeList<" + ", ".join(names) + ">;\n"


def operator_calls(sig: Signature, name: str, has_inplace: bool) -> str:
    required = [a for a in sig.args if a.default is None]
    if len(required) > 2 or any(a.cpp not in ("const Tensor&", "const Scalar&") for a in required):
        return ""
    params = ", ".join(f"{a.cpp} {n}" for a, n in zip(required, "ab"))
    names = ", ".join("ab"[: len(required)])
    text = f"  static Tensor call({params}) {{ return ops::{name}({names}); }}\n"
    if has_inplace and required[0].is_tensor and len(required) == 2:
        params = params.replace("const Tensor& a", "Tensor& a")
        text += f"  static Tensor& inplace({params}) {{ return ops::{name}_({names}); }}\n"
    return text


def emit_index(sets: list[OpSet]) -> str:
    text = "".join(f"extern const OpSet {set_name(s)};\n" for s in sets)
    text += "static const OpSet* const kAll[] = {\n"
    text += "".join(f"    &{set_name(s)},\n" for s in sets) + "};\n"
    return text + "std::span<const OpSet* const> all_ops() { return kAll; }\n"
