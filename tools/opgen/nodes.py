"""Emits tape nodes: what a row's derivatives need is saved, nothing else."""

from tools.opgen import formula as F
from tools.opgen.schema import Arg, Signature
from tools.opgen.table import Row


class Plan:
    """What the node of one overload holds and how its backward is written."""

    def __init__(self, row: Row, sig: Signature):
        self.row, self.sig = row, sig
        # A key may name several inputs: one formula then gives the gradients of all of them.
        tensors = {a.name for a in sig.args if a.type in ("Tensor", "Tensor[]")}
        self.groups = [
            ([n for n in map(str.strip, k.split(",")) if n in tensors], f)
            for k, f in row.derivatives.items()
        ]
        self.groups = [(names, f) for names, f in self.groups if names]
        self.formulas = {n: f for names, f in self.groups for n in names}
        self.inputs = [a for a in sig.args if a.name in self.formulas]
        self.has_list = any(a.type == "Tensor[]" for a in self.inputs)
        self.type = f"{sig.type_name}Node"

    def __bool__(self):
        return bool(self.inputs)

    def needed(self, name: str) -> list[str]:
        """Inputs whose derivative mentions `name` as a value."""
        return [a.name for a in self.inputs if name in F.identifiers(self.formulas[a.name])]

    def values(self) -> list[tuple[str, Arg | None]]:
        """Saved arguments and results, in order of the signature."""
        found = [(a.name, a) for a in self.sig.args if self.needed(a.name)]
        return found + [(o, None) for o in self.sig.outs if self.needed(o) and not self.sig.arg(o)]

    def metadata(self) -> list[tuple[str, str]]:
        return sorted({m for f in self.formulas.values() for m in F.metadata(f)})

    def edge(self, arg: Arg) -> str:
        """Index of the first edge of an input: a list of tensors takes as many as it has."""
        before = self.inputs[: self.inputs.index(arg)]
        lists = [f"node->{a.name}_count" for a in before if a.type == "Tensor[]"]
        return " + ".join([str(sum(a.type == "Tensor" for a in before)), *lists])

    def is_differentiable(self, out: str) -> bool:
        """Statistics that only the backward needs (mean, rstd ...) carry no gradient themselves."""
        if len(self.sig.outs) == 1 or self.sig.is_list:
            return True
        used = set().union(*(F.identifiers(f) for f in self.formulas.values()))
        return f"g_{out}" in used or ("g" in used and out == self.sig.outs[0])

    def unused(self) -> list[str]:
        """Names a formula may mention that this overload lacks (alpha of another overload, say)."""
        known = {a.name for a in self.sig.args} | set(self.sig.outs)
        known |= {"g", "gs", "wanted", "true", "false"}
        known |= {f"g_{o}" for o in self.sig.outs}
        return sorted({n for f in self.formulas.values() for n in F.identifiers(f)} - known)


def saved_type(plan: Plan, name: str, arg: Arg | None) -> str:
    if arg is None:
        return "SavedResult" if plan.is_differentiable(name) else "Saved"
    return {"Tensor": "Saved", "Tensor[]": "SavedList"}.get(arg.type, arg.stored)


def meta_type(plan: Plan, name: str, what: str) -> str:
    arg = plan.sig.arg(name)
    kind = F.METADATA[what][0]
    return f"std::vector<{kind}>" if arg and arg.type == "Tensor[]" else kind


def struct(plan: Plan) -> str:
    count = 0 if plan.has_list else len(plan.inputs)
    lines = [f"struct {plan.type} : NodeOf<{count}> {{"]
    lines += [f"  {saved_type(plan, n, a)} {n};" for n, a in plan.values()]
    lines += [f"  {meta_type(plan, n, w)} {n}_{w};" for n, w in plan.metadata()]
    lines += [f"  InputFit fit_{a.name};" for a in plan.inputs if a.type == "Tensor"]
    lines += [f"  int {a.name}_count = 0;" for a in plan.inputs if a.type == "Tensor[]"]
    return "\n".join(lines) + "\n};\n"


def unpack(plan: Plan, name: str, arg: Arg | None) -> str:
    if arg is None:
        return f'Tensor {name} = node->{name}.get(node, "{name}");'
    if arg.type == "Tensor":
        return f'Tensor {name} = node->{name}.get(node, "{name}");'
    if arg.type == "Tensor[]":
        return f'std::vector<Tensor> {name} = node->{name}.get(node, "{name}");'
    if arg.type == "str" or arg.stored != arg.cpp:
        return f"const auto& {name} = node->{name};"
    return f"auto {name} = node->{name};"


def fused_name(plan: Plan, arg: Arg) -> str:
    return f"{plan.sig.type_name}Grad_{arg.name}"


def fused(plan: Plan, arg: Arg) -> tuple[list[str], list[str]] | None:
    """Tensors and numbers of a derivative that is compiled as a body, or None."""
    text = plan.formulas[arg.name]
    if plan.row.kind != "pointwise" or F.is_trivial(text) or not F.is_scalar(text):
        return None
    used = F.identifiers(text)
    numbers = [a.name for a in plan.sig.args if a.name in used and a.is_number]
    tensors = ["g"] + [a.name for a in plan.sig.tensors if a.name in used]
    tensors += [o for o in plan.sig.outs if o in used]
    known = {*numbers, *tensors} | set(plan.unused())
    return (tensors, numbers) if used <= known else None


def backward(plan: Plan) -> str:
    sig, outs = plan.sig, plan.sig.outs
    lines = [
        f"void backward_{sig.id}(Node* base, const Tensor* grads, Tensor* out) {{",
        f"  auto* node = static_cast<{plan.type}*>(base);",
    ]
    used = set().union(*(F.identifiers(f) for f in plan.formulas.values()))
    if sig.is_list:
        lines.append("  TensorList gs(grads, node->output_count);")
    elif len(outs) == 1:
        lines.append("  const Tensor& g = grads[0];" if "g" in used else "  (void)grads;")
    else:
        lines += [
            f"  const Tensor& g_{o} = grads[{i}];" for i, o in enumerate(outs) if f"g_{o}" in used
        ]
        if "g" in used:  # the first output is the differentiable one
            lines.append("  const Tensor& g = grads[0];")
    for name, what in plan.metadata():
        lines.append(f"  const auto& {name}_{what} = node->{name}_{what};")
    for names, text in plan.groups:
        block = (
            edge_block(plan, plan.sig.arg(names[0]))
            if len(names) == 1
            else group_block(plan, names, text)
        )
        lines += ["  " + line for line in block]
    return "\n".join(lines) + "\n}\n"


def group_block(plan: Plan, names: list[str], text: str) -> list[str]:
    """Gradients of several inputs by one call, which is told which of them are wanted."""
    args = [plan.sig.arg(n) for n in names]
    wants = [f"node->edges[{plan.edge(a)}].wanted()" for a in args]
    mentioned = F.identifiers(text)
    lines = ["  " + unpack(plan, n, a) for n, a in plan.values() if n in mentioned]
    if "wanted" in mentioned:
        lines.append(f"  std::array<bool, {len(args)}> wanted{{{', '.join(wants)}}};")
    lines.append(f"  auto found = {F.flatten_metadata(text)};")
    lines += [
        f"  out[{plan.edge(a)}] = node->fit_{a.name}(std::get<{i}>(found));"
        for i, a in enumerate(args)
    ]
    return [f"if ({' || '.join(wants)}) {{", *lines, "}"]


def edge_block(plan: Plan, arg: Arg) -> list[str]:
    text = plan.formulas[arg.name]
    mentioned = F.identifiers(text)
    grads = [n for n in sorted(mentioned) if n == "g" or n.startswith("g_")]
    if len(plan.sig.outs) > 1 and grads:
        guard = " && (" + " || ".join(f"{n}.defined()" for n in grads) + ")"
    else:
        guard = ""
    inner = [unpack(plan, n, a) for n, a in plan.values() if n in mentioned]
    expression = F.ones_for(plan.unused(), F.flatten_metadata(text))
    if arg.type == "Tensor[]":
        head = f"if (node->{arg.name}_count) {{"
        inner.append(f"int first = {plan.edge(arg)};")
        inner.append(f"std::vector<Tensor> found = {expression};")
        inner.append(
            "for (size_t i = 0; i < found.size(); i++) out[first + i] = std::move(found[i]);"
        )
        return [head, *("  " + line for line in inner), "}"]
    parts = fused(plan, arg)
    if parts:
        tensors, numbers = parts
        lists = "{" + ", ".join("&" + t for t in tensors) + "}, {" + ", ".join(numbers) + "}"
        expression = (
            f"tls.grad ? Tensor({expression}) : pointwise(k{fused_name(plan, arg)}, {lists})"
        )
    inner.append(f"out[{plan.edge(arg)}] = node->fit_{arg.name}({expression});")
    return [
        f"if (node->edges[{plan.edge(arg)}].wanted(){guard}) {{",
        *("  " + i for i in inner),
        "}",
    ]


def release(plan: Plan) -> str:
    clears = [
        f"  node->{n}.clear();"
        for n, a in plan.values()
        if saved_type(plan, n, a).startswith("Saved")
    ]
    body = (
        [f"  auto* node = static_cast<{plan.type}*>(base);", *clears]
        if clears
        else ["  (void)base;"]
    )
    return f"void release_{plan.sig.id}(Node* base) {{\n" + "\n".join(body) + "\n}\n"


def record(plan: Plan) -> str:
    """Makes the node after the op has run: edges, saved inputs, and the outputs tied to it."""
    sig = plan.sig
    lines = [
        f"{plan.type}* record_{sig.id}({sig_params(sig)}, const Tensor& result0) {{",
        f"  auto* node = new_node<{plan.type}>(kNode_{sig.id});",
        "  (void)result0;",
    ]
    lines += [f"  (void){a.name};" for a in sig.args]
    if plan.has_list:
        lines += [
            f"  node->{a.name}_count = int({a.name}.size());"
            for a in plan.inputs
            if a.type == "Tensor[]"
        ]
        singles = sum(a.type == "Tensor" for a in plan.inputs)
        counts = " + ".join(
            [str(singles), *(f"node->{a.name}_count" for a in plan.inputs if a.type == "Tensor[]")]
        )
        lines.append(f"  allocate_edges(node, {counts});")
    for a in plan.inputs:
        if a.type == "Tensor[]":
            lines.append(f"  connect_list(node, {plan.edge(a)}, {a.name});")
            continue
        lines.append(f"  connect(node, {plan.edge(a)}, {a.name});")
        fit = f"{a.name}, result0" if plan.row.kind == "pointwise" else a.name
        lines.append(f"  node->fit_{a.name}.set({fit});")
    for name, arg in plan.values():
        if arg is None:
            continue
        users = [a for a in plan.inputs if a.name in plan.needed(name)]
        store = (
            f"node->{name}.set({name});"
            if arg.type.startswith("Tensor")
            else f"node->{name} = {keep(arg)};"
        )
        if plan.has_list or not arg.is_tensor:
            lines.append("  " + store)
        else:
            wants = " || ".join(f"node->edges[{plan.edge(u)}].wanted()" for u in users)
            lines.append(f"  if ({wants}) {store}")
    for name, what in plan.metadata():
        arg = sig.arg(name)
        if arg and arg.type == "Tensor[]":
            lines.append(
                f"  for (const Tensor& t : {name}) node->{name}_{what}.push_back({F.METADATA[what][1].format('t')});"
            )
        else:
            source = name if arg else "result0"
            guard = f"if ({name}.defined()) " if arg and arg.optional else ""
            value = F.METADATA[what][1].format(source)
            lines.append(f"  {guard}node->{name}_{what} = {value};")
    return "\n".join(lines) + "\n  return node;\n}\n"


def keep(arg: Arg) -> str:
    """An argument turned into what the node owns."""
    if arg.stored == arg.cpp or not arg.type.endswith("[]") or arg.optional:
        return arg.name if arg.type != "str" else f"std::string({arg.name})"
    return (
        arg.name if arg.stored == "Ints" else f"{arg.stored}({arg.name}.begin(), {arg.name}.end())"
    )


def sig_params(sig: Signature) -> str:
    return ", ".join(
        f"{a.cpp.replace('Tensor&', 'const Tensor&').replace('const const', 'const')} {a.name}"
        for a in sig.args
    )


def node_type(plan: Plan) -> str:
    i = plan.sig.id
    name = "".join(p[:1].upper() + p[1:] for p in plan.sig.name.split("_") if p) + "Backward0"
    return (
        f'const NodeType kNode_{i} = {{"{name}", "{plan.sig.name}", backward_{i}, release_{i}, destroy_node<{plan.type}>, '
        f"sizeof({plan.type})}};\n"
    )


def emit(plan: Plan) -> str:
    forward = f"extern const NodeType kNode_{plan.sig.id};\n"
    return struct(plan) + forward + backward(plan) + release(plan) + node_type(plan) + record(plan)


def recording(plan: Plan) -> str:
    """The condition under which a node is made."""
    singles = [a.name for a in plan.inputs if a.type == "Tensor"]
    lists = [f"recording_list({a.name})" for a in plan.inputs if a.type == "Tensor[]"]
    parts = ([f"recording({', '.join(singles)})"] if singles else []) + lists
    return " || ".join(parts)


def tie(plan: Plan, result: str) -> str:
    """Gives the node to the results, after the results it saves were noted."""
    sig = plan.sig
    multi = len(sig.outs) > 1
    where = {o: f"std::get<{i}>({result})" if multi else result for i, o in enumerate(sig.outs)}
    numbers = {o: f", {i}" if plan.is_differentiable(o) else "" for i, o in enumerate(sig.outs)}
    lines = [f"node->{n}.set({where[n]}{numbers[n]});" for n, a in plan.values() if a is None]
    slots = [n for n, a in plan.values() if a is None and plan.is_differentiable(n)]
    if slots:
        lines.append(f"keep_results(node, {{{', '.join('&node->' + s for s in slots)}}});")
    if sig.is_list:
        target = f"TensorList({result})"
    elif multi:
        marks = ("&" + w if plan.is_differentiable(o) else "nullptr" for o, w in where.items())
        target = "{" + ", ".join(marks) + "}"
    else:
        target = result
    lines.append(f"attach({target}, node);")
    return " ".join(lines)
