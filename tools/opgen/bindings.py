"""Emits the run-time table (ops/op_info.h), which is the binding, and the operator structs."""

from tools.opgen import ops
from tools.opgen.op import Op, OpSet
from tools.opgen.schema import TYPES, Arg
from tools.opgen.template import quoted


def param(a: Arg) -> str:
    flags = [str(v).lower() for v in (a.optional, a.keyword_only, a.default is None)]
    kind = f"ArgKind::{TYPES[a.type].kind}"
    cells = [quoted(a.name), kind, *flags, str(a.size), quoted(a.default or "")]
    return "{" + ", ".join(cells) + "}"


def entry(op: Op, s: OpSet) -> str:
    """An OpInfo: one overload in one set."""
    form, *others = ops.forms(op)
    positional = sum(not a.keyword_only for a in op.args)
    params = f"kParams_{op.id}" if op.args else "nullptr"
    has_out = op.has_out and not s.inplace
    out = f"{others[-1].pointer()}, {len(op.outs)}" if has_out else "nullptr, nullptr, 0"
    inner = op.row.kind == "composite" and not (op.node or s.inplace or op.mutates)
    flags = (s.inplace, op.node, inner and "whole" not in (op.row.tags or ""))
    flags = ", ".join(str(bool(f)).lower() for f in flags)
    return f"""\
  {{"{s.name}", "{op.overload}",
   {quoted(s.name + op.text[len(op.name) :])},
   OpKind::{op.row.kind.capitalize()}, {params}, {len(op.args)}, {positional},
   {quoted(" ".join(op.outs) if op.named else "")},
   {(others[0] if s.inplace else form).pointer()},
   {out}, {flags}}},
"""


def op_set(s: OpSet) -> str:
    doc = (s.row.doc or "").strip("\n").splitlines(keepends=True)
    doc = "\n    ".join(quoted(line) for line in doc) or '""'
    return f"""\
const OpInfo kOps_{s.name}[] = {{
{"".join(entry(op, s) for op in s.ops)}}};
const OpSet kSet_{s.name} = {{"{s.name}", kOps_{s.name}, {len(s.ops)}, "{" ".join(s.forms)}",
    "{s.operator}",
    {doc}}};
"""


def emit_sets(sets: list[OpSet]) -> str:
    params = {op.id: ", ".join(map(param, op.args)) for s in sets for op in s.ops if op.args}
    lines = [f"constexpr Param kParams_{name}[] = {{{text}}};\n" for name, text in params.items()]
    return "".join(lines) + "".join(op_set(s) for s in sets)


def operator(op: Op) -> str:
    """What Python's number protocol calls directly: a row with an `operator`."""
    calls = [("call", "const auto&... a", f"ops::{op.name}(a...)")]
    if "inplace" in op.row.forms:
        calls.append(("inplace", "Tensor& self, const auto&... a", f"ops::{op.name}_(self, a...)"))
    calls = [f"  static auto {n}({p}) -> decltype({e}) {{ return {e}; }}\n" for n, p, e in calls]
    names = f'static constexpr const char *name = "{op.name}", *symbol = "{op.operator}";'
    return f"struct {op.pascal}Operator {{\n  {names}\n{''.join(calls)}}};\n"


def operators(sets: list[OpSet]) -> str:
    own = [s.ops[0] for s in sets if s.operator and s.name == s.ops[0].name]
    names = ", ".join(f"{op.pascal}Operator" for op in own)
    text = "template <class... T>\nstruct TypeList {};\n" + "".join(map(operator, own))
    return f"{text}using Operators = TypeList<{names}>;\n"


def declarations(sets: list[OpSet]) -> str:
    text = f"inline constexpr int kOpSets = {len(sets)};\n"
    declared = "extern const OpInfo kOps_{0}[];\nextern const OpSet kSet_{0};\n"
    return text + "".join(declared.format(s.name) for s in sets)


def autocast(sets: list[OpSet]) -> str:
    casting = [s for s in sets if s.row.autocast and not s.inplace]
    lines = "".join(f'    {{"{s.name}", "{s.row.autocast}"}},\n' for s in casting)
    return f"inline constexpr const char* kAutocast[][2] = {{\n{lines}}};\n"


def index(sets: list[OpSet]) -> str:
    addresses = "".join(f"    &kSet_{s.name},\n" for s in sets)
    all_ops = "std::span<const OpSet* const> all_ops() { return kAll; }\n"
    return f"static const OpSet* const kAll[] = {{\n{addresses}}};\n{all_ops}"
