"""Emits the C++ functions of every overload: dispatch, computation, tape, in-place and out= forms."""

from tools.opgen import nodes
from tools.opgen.nodes import Plan
from tools.opgen.schema import Signature
from tools.opgen.table import PROMOTING, Row

RULES = {
    "promote": "Promote",
    "float": "Float",
    "promote float": "Float",
    "bool": "Bool",
    "same": "Same",
    "real": "Real",
}


def rule(row: Row) -> str:
    return RULES[row.dtype_of("result")]


def pointwise_op(row: Row, sig: Signature) -> str:
    """The constant that tells the pointwise engine about an overload."""
    ignored = sum(1 << i for i, a in enumerate(sig.tensors) if a.name in row.ignored)
    numbers = [a for a in sig.args if a.is_number]
    promote = sum(1 << i for i, a in enumerate(numbers) if a.name in PROMOTING)
    arguments = " ".join(a.name for a in sig.tensors)
    return pointwise_constant(
        sig.type_name,
        row.key.split(".")[0],
        arguments,
        len(sig.tensors),
        len(numbers),
        rule(row),
        ignored,
        promote,
        "false" if "nobool" in row.number_types else "true",
    )


def pointwise_constant(
    symbol, name, arguments, inputs, params, dtype_rule, ignored, promote, takes_bool="true"
) -> str:
    tables = ", ".join(f"&{isa}::{symbol}Loops" for isa in ("v2", "v3", "v4"))
    return (
        f'constexpr PointwiseOp k{symbol}{{"{name}", "{arguments}", {inputs}, {params}, DTypeRule::{dtype_rule}, '
        f"{ignored}, {promote}, {takes_bool}, {{{tables}}}}};\n"
    )


def fused_constants(plan: Plan) -> str:
    out = ""
    for a in plan.inputs:
        parts = nodes.fused(plan, a)
        if parts:
            out += pointwise_constant(
                nodes.fused_name(plan, a),
                plan.sig.name + "_backward",
                " ".join(parts[0]),
                len(parts[0]),
                len(parts[1]),
                "Promote",
                0,
                0,
            )
    return out


def arguments_of(sig: Signature) -> str:
    tensors = ", ".join("&" + a.name for a in sig.tensors)
    numbers = ", ".join(a.name for a in sig.args if a.is_number)
    return f"{{{tensors}}}, {{{numbers}}}"


def dtype_expression(row: Row, sig: Signature, out: str) -> str:
    """C++ for the dtype of an output of a reduce or structured row."""
    text = row.dtype_of(out)
    first = sig.tensors[0].name if sig.tensors else ""
    explicit = "dtype" if sig.arg("dtype") else ""
    known = {
        "same": f"{first}.dtype()",
        "float": f"to_inexact({first}.dtype())",
        "bool": "DType::Bool",
        "int64": "DType::Int64",
        "accumulate": f"accumulate_dtype({first}.dtype())",
        "real": f"real_of({first}.dtype())",
        "promote": f"promoted_dtype({{{', '.join('&' + a.name for a in sig.tensors)}}})",
    }
    found = known.get(text) or f"{text}({sig.call()})"
    return f"dtype.value_or({found})" if explicit and text in known else found


def compute(row: Row, sig: Signature) -> str:
    """The statement that makes `result`."""
    if row.kind == "pointwise":
        return f"Tensor result = pointwise(k{sig.type_name}, {arguments_of(sig)});"
    if row.kind == "reduce":
        return f"{result_type(sig)} result = {reduce_call(row, sig)};"
    if row.kind == "structured":
        return structured(row, sig)
    if row.kind == "view":
        if sig.is_list:
            return f"std::vector<Tensor> result = make_views(self, {row.impl}({sig.call()}));"
        return f"Tensor result = make_view({sig.args[0].name}, {row.impl}({sig.call()}));"
    guard = "NoGradGuard no_grad; " if row.derivatives else ""
    if sig.returns == "void":
        return f"{guard}{row.impl}({sig.call()});"
    if guard:
        return f"{result_type(sig)} result = [&] {{ {guard}return {row.impl}({sig.call()}); }}();"
    return f"{result_type(sig)} result = {row.impl}({sig.call()});"


def result_type(sig: Signature) -> str:
    return sig.returns.replace("Tensor&", "Tensor")


def reduce_call(row: Row, sig: Signature) -> str:
    dims = "dim_list(dim)" if sig.arg("dim") else "std::nullopt"
    keepdim = "keepdim" if sig.arg("keepdim") else "false"
    p = row.param if row.param else "Scalar()"
    if row.param and not sig.arg(row.param.split("(")[0]) and row.param.isidentifier():
        p = "Scalar()"
    dtype = dtype_expression(row, sig, sig.outs[0])
    suffix = "2" if len(sig.outs) == 2 else ""
    second = f", {dtype_expression(row, sig, sig.outs[1])}" if suffix else ""
    return f'reduce_{"two" if suffix else "one"}("{sig.name}", ReduceOp::{row.body}, self, {dims}, {keepdim}, {dtype}{second}, {p})'


def shape_expression(row: Row, sig: Signature, out: str) -> str:
    shape = row.shape[out] if isinstance(row.shape, dict) else row.shape
    if shape.startswith("same("):
        return f"{shape[5:-1]}.sizes()"
    if shape == "broadcast":
        return f'broadcast_sizes("{sig.name}", {{{", ".join("&" + a.name for a in sig.tensors)}}})'
    return f"{shape}({sig.call()})"


def structured(row: Row, sig: Signature) -> str:
    """Outputs by shape rule, then the kernel, which only fills them."""
    lines, names = [], []
    device = next((f"{a.name}.device()" for a in sig.tensors if not a.optional), None)
    if device:
        lines.append(
            f'check_devices("{sig.name}", {{{", ".join("&" + a.name for a in sig.tensors)}}});'
        )
    else:
        device = next(
            f'list_device("{sig.name}", {a.name})' for a in sig.args if a.type == "Tensor[]"
        )
        lines.append(f"Device device = {device};")
        device = "device"
    for o in sig.outs:
        name = (
            o
            if len(sig.outs) > 1 and not sig.arg(o)
            else f"out_{o}"
            if len(sig.outs) > 1
            else "result"
        )
        names.append(name)
        if row.base:
            lines.append(f"Tensor {name} = base_copy({row.base}, {shape_expression(row, sig, o)});")
        else:
            lines.append(
                f"Tensor {name} = new_tensor({shape_expression(row, sig, o)}, "
                f"{dtype_expression(row, sig, o)}, {device});"
            )
    lines.append(f"if (has_memory({names[0]})) {kernel_call(row, sig, names)};")
    if len(names) > 1:
        lines.append(f"{result_type(sig)} result({', '.join(names)});")
    return "\n  ".join(lines)


def kernel_call(row: Row, sig: Signature, outs: list[str]) -> str:
    dense = (row.layout or "contiguous") == "contiguous"
    args = []
    for a in sig.args:
        if row.base and a.name == row.base:
            continue
        args.append(f"dense({a.name})" if a.is_tensor and dense else a.name)
    return f"{row.kernel}({', '.join(outs + args)})"


def kernel_declaration(row: Row, sig: Signature) -> str:
    """What the hand-written function of a row must look like."""
    if row.kind == "structured":
        params = [f"Tensor& {o if not sig.arg(o) else 'out_' + o}" for o in sig.outs]
        params += [f"{a.cpp} {a.name}" for a in sig.args if not (row.base and a.name == row.base)]
        text = f"void {row.kernel}({', '.join(params)});\n"
        shapes = row.shape.values() if isinstance(row.shape, dict) else [row.shape]
        for s in shapes:
            if s != "broadcast" and not s.startswith("same("):
                text += f"Ints {s}({sig.params(defaults=False)});\n"
        for o in sig.outs:
            if dtype_expression(row, sig, o).startswith(row.dtype_of(o) + "("):
                text += f"DType {row.dtype_of(o)}({sig.params(defaults=False)});\n"
        return text
    if row.kind == "view":
        kind = "std::vector<Geometry>" if sig.is_list else "Geometry"
        return f"{kind} {row.impl}({sig.params(defaults=False)});\n"
    if row.impl:
        return f"{sig.returns} {row.impl}({sig.params(defaults=False)});\n"
    return ""


def function(row: Row, sig: Signature, info: str) -> str:
    """Dispatch point, computation and tape of the plain form."""
    plan = Plan(row, sig)
    ret = sig.returns
    tensors = [a.name for a in sig.tensors]
    lists = [f"slow_mode_list({a.name})" for a in sig.args if a.type == "Tensor[]"]
    slow = " || ".join([f"slow_mode({', '.join(tensors)})", *lists])
    names = sig.call()
    out = f"static {ret} run_{sig.id}({sig.params(defaults=False)}) {{\n"
    if sig.mutates and ret == "Tensor&":
        self = sig.args[0].name
        out += f'  check_inplace("{sig.name}", {self});\n'
        if plan and "self" in {n for n, _ in plan.values()}:
            out += "  Tensor before = recording(self) ? clone(self) : self;\n"
        out += f"  {'{ NoGradGuard no_grad; ' if plan else ''}{row.impl}({names});{' }' if plan else ''}\n"
        out += f"  {self}->bump_version();\n"
        if plan:
            call = names.replace("self", "before", 1) if "before" in out else names
            out += (
                f"  if (FL_UNLIKELY({nodes.recording(plan)})) {{\n    auto* node = record_{sig.id}({call}, {self});\n"
                f"    rebase({self}, node);\n  }}\n"
            )
        out += f"  return {self};\n}}\n"
    else:
        out += f"  {compute(row, sig)}\n"
        if plan:
            first = "std::get<0>(result)" if len(sig.outs) > 1 else "result"
            first = sig.tensors[0].name if sig.is_list else first
            comma = ", " if names else ""
            out += (
                f"  if (FL_UNLIKELY({nodes.recording(plan)})) {{\n"
                f"    auto* node = record_{sig.id}({names}{comma}{first});\n    {nodes.tie(plan, 'result')}\n  }}\n"
            )
        out += "}\n" if ret == "void" else "  return result;\n}\n"
    out += f"{ret} {sig.name}({sig.params(defaults=False)}) {{\n"
    comma = ", " if names else ""
    if ret == "void":
        out += f"  if (FL_UNLIKELY({slow})) return slow_call<void>({info}, &run_{sig.id}{comma}{names});\n"
    elif ret == "Tensor&":
        out += f"  if (FL_UNLIKELY({slow})) return slow_inplace({info}, &run_{sig.id}{comma}{names});\n"
    else:
        out += f"  if (FL_UNLIKELY({slow})) return slow_call<{ret}>({info}, &run_{sig.id}{comma}{names});\n"
    return out + f"  return run_{sig.id}({names});\n}}\n"


def in_place(row: Row, sig: Signature, info: str) -> str:
    plan = Plan(row, sig)
    names, name = sig.call(), sig.name + "_"
    params = sig.params(defaults=False, first="Tensor&")
    slow = f"slow_mode({', '.join(a.name for a in sig.tensors)})"
    out = f"static Tensor& run_{sig.id}_in_place({params}) {{\n"
    out += f'  check_inplace("{name}", self);\n'
    if plan:
        node = f"record_{sig.id}({sig.call(self='before')}, self)"
        needs_copy = "self" in {n for n, _ in plan.values()}
        out += f"  {plan.type}* node = nullptr;\n"
        out += f"  if (FL_UNLIKELY({nodes.recording(plan)})) {{\n"
        out += f"    {'Tensor before = clone(self);' if needs_copy else 'const Tensor& before = self;'}\n"
        out += f"    node = {node};\n  }}\n  NodeGuard guard(node);\n"
    out += f"  {in_place_compute(row, sig)}\n  self->bump_version();\n"
    if plan:
        slots = [n for n, a in plan.values() if a is None]
        ties = "".join(f" node->{s}.set(self);" for s in slots)
        if slots:
            ties += f" keep_results(node, {{{', '.join('&node->' + s for s in slots)}}});"
        out += f"  if (node) {{ rebase(self, guard.release());{ties} }}\n"
    out += "  return self;\n}\n"
    out += f"Tensor& {name}({params}) {{\n"
    out += f"  if (FL_UNLIKELY({slow})) return slow_inplace({info}, &run_{sig.id}_in_place, {names});\n"
    return out + f"  return run_{sig.id}_in_place({names});\n}}\n"


def in_place_compute(row: Row, sig: Signature) -> str:
    if row.kind == "pointwise":
        return f"pointwise_into(k{sig.type_name}, self, {arguments_of(sig)});"
    if row.kind == "structured" and row.base:
        checks = f"{shape_expression(row, sig, sig.outs[0])};"
        return f"(void){checks} if (has_memory(self)) {kernel_call(row, sig, ['self'])};"
    if row.kind == "composite" and not row.fields.get("grad"):
        # No node of its own: while the tape records, copy_ carries the result over.
        tensors = ", ".join(a.name for a in sig.tensors)
        result = f"{sig.name}({sig.call()})"
        copied = f"if (FL_UNLIKELY(recording({tensors}))) return copy_(self, {result});\n  "
    else:
        copied = ""
    return (
        copied
        + f'write_into("{sig.name}_", self, [&] {{ NoGradGuard no_grad; return {sig.name}({sig.call()}); }}());'
    )


def out_form(row: Row, sig: Signature) -> str:
    outs = out_names(sig)
    params = ", ".join([f"Tensor& {o}" for o in outs] + [sig.params(defaults=False)])
    tensors = ", ".join("&" + a.name for a in sig.tensors)
    text = f"{out_return(sig)} {sig.name}_out({params}) {{\n"
    text += f'  check_out("{sig.name}", {{{tensors}}}, {{{", ".join("&" + o for o in outs)}}});\n  NoGradGuard no_grad;\n'
    if row.kind == "pointwise":
        text += f"  pointwise_out(k{sig.type_name}, {outs[0]}, {arguments_of(sig)});\n"
    else:
        cast = "true" if row.kind in ("reduce", "composite") else "false"
        text += f"  auto result = {sig.name}({sig.call(**out_options(sig))});\n"
        for i, o in enumerate(outs):
            value = f"std::get<{i}>(result)" if len(outs) > 1 else "result"
            text += f'  give_out("{sig.name}", {o}, {value}, {cast});\n'
    if len(outs) == 1:
        return text + f"  return {outs[0]};\n}}\n"
    return text + f"  return {{{', '.join(outs)}}};\n}}\n"


def out_options(sig: Signature) -> dict[str, str]:
    """A factory's out= decides the dtype and the device that the caller left open."""
    if not sig.arg("pin_memory"):
        return {}
    default = sig.arg("dtype").cpp_default
    open_dtype = "!dtype" if default == "{}" else f"dtype.value_or({default}) == {default}"
    return {
        "dtype": f"{open_dtype} ? out.dtype() : dtype",
        "device": "device ? device : out.device()",
    }


def out_names(sig: Signature) -> list[str]:
    return ["out"] if len(sig.outs) == 1 else [f"out_{o}" for o in sig.outs]


def out_return(sig: Signature) -> str:
    return "Tensor&" if len(sig.outs) == 1 else result_type(sig)


def declarations(row: Row, sig: Signature) -> str:
    # Defaults that make a call like a shorter overload's would be ambiguous in C++.
    shorter = any(
        [a.cpp for a in s.args] == [a.cpp for a in sig.args[: len(s.args)]]
        and all(a.default for a in sig.args[len(s.args) :])
        for s in row.sigs
        if len(s.args) < len(sig.args)
    )
    text = f"FL_API {sig.returns} {sig.name}({sig.params(defaults=not shorter)});\n"
    if "inplace" in row.forms:
        text += f"FL_API Tensor& {sig.name}_({sig.params(first='Tensor&')});\n"
    if has_out(row, sig):
        outs = ", ".join(f"Tensor& {o}" for o in out_names(sig))
        comma = ", " if sig.args else ""
        text += f"FL_API {out_return(sig)} {sig.name}_out({outs}{comma}{sig.params()});\n"
    return text


def has_out(row: Row, sig: Signature) -> bool:
    return (
        "out" in row.forms
        and not sig.is_list
        and not sig.mutates
        and set(sig.out_types) == {"Tensor"}
    )


def definitions(row: Row, sig: Signature, info: str, inplace_info: str) -> str:
    plan = Plan(row, sig)
    text = f"// From ops/{row.file}.toml [{row.key}]. Do not edit.\n"
    if row.kind == "pointwise":
        text += pointwise_op(row, sig) + fused_constants(plan)
    if plan:
        text += "namespace {\n" + nodes.emit(plan) + "}  // namespace\n"
    text += function(row, sig, info)
    if "inplace" in row.forms:
        text += in_place(row, sig, inplace_info)
    if has_out(row, sig):
        text += out_form(row, sig)
    return text
