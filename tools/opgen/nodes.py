"""Emits tape nodes: what a row's derivatives need is saved, nothing else."""

from tools.opgen import formula as F
from tools.opgen.bodies import gradient
from tools.opgen.schema import Arg
from tools.opgen.template import Emitter


class Node(Emitter):
    template = """\
namespace {
struct $node : NodeOf<$edge_count> {
  static constexpr const char *public_name = "${pascal}Backward0", *op = "$name";
  $fields

  void release() {
    $clears
  }
  void backward(const Tensor* grads, Tensor* out) {
    $gradients
  }
  [[gnu::always_inline]] void record($arguments) {
    $records
  }
  void keep(const auto& result) {
    $results
  }
  void shown(const SavedVisitor& visitor) {
    $shows
  }
};
}  // namespace
"""

    def fields(self) -> list[str]:
        lines = [f"{k.field_type} {k.field};" for k in self.kept]
        for name, what in self.metadata:
            many = self.arg(name) and self.arg(name).is_list
            kind = f"std::vector<{F.METADATA[what]}>" if many else F.METADATA[what]
            lines.append(f"{kind} {name}_{what};")
        lines += [f"InputFit fit_{a.name};" for a in self.inputs if a.is_tensor]
        return lines + [f"int {a.name}_count = 0;" for a in self.lists]

    def clears(self) -> list[str]:
        return [f"{k.field}.clear();" for k in self.kept if k.is_saved]

    def gradients(self) -> list[str]:
        lines = []
        if self.is_list:
            lines.append("TensorList gs(grads, output_count);")
        elif "g" in self.mentioned:  # of several outputs the first is the differentiable one
            lines.append("const Tensor& g = grads[0];")
        for i, out in enumerate(self.outs):
            if f"g_{out}" in self.mentioned:
                lines.append(f"const Tensor& g_{out} = grads[{i}];")
        for args, text in self.groups:
            lines.append(f"if ({self.condition(args, text)}) {{")
            lines += ["  " + line for line in self.group(args, text)] + ["}"]
        return lines

    def condition(self, args: list[Arg], text: str) -> str:
        """When a formula is evaluated at all."""
        if args[0].is_list:
            return f"{args[0].name}_count"
        grads = sorted(n for n in F.identifiers(text) if n == "g" or n.startswith("g_"))
        if len(args) == 1 and len(self.outs) > 1 and grads:
            return f"{self.wanted(args)} && ({' || '.join(f'{n}.defined()' for n in grads)})"
        return self.wanted(args)

    def group(self, args: list[Arg], text: str) -> list[str]:
        """The saved tensors that a formula mentions, and where its values go."""
        names, value, first = F.identifiers(text), F.flatten_metadata(text), args[0]
        saved = [k for k in self.kept if k.is_saved and k.name in names]
        lines = [f'auto {k.name} = {k.field}.get(this, "{k.name}");' for k in saved]
        if len(args) == 1 and first.is_tensor:
            body = gradient(self, first)
            if body:
                value = f"by_ops() ? Tensor({value}) : pointwise(k{body.symbol}, {body.inputs})"
            return [*lines, f"out[{self.edge(first)}] = fit_{first.name}({value});"]
        if "wanted" in names:
            wants = ", ".join(self.wanted([a]) for a in args)
            lines.append(f"std::array<bool, {len(args)}> wanted{{{wants}}};")
        fits = "".join(f", fit_{a.name}" for a in args if a.is_tensor)
        return [*lines, f"move_into(out + {self.edge(first)}, {value}{fits});"]

    def arguments(self) -> str:
        """What the op was called with, and its first result."""
        args = ["const Tensor& self" if a.written else f"{a.cpp} {a.name}" for a in self.args]
        return ", ".join([*args, "const Tensor& result0"])

    def records(self) -> list[str]:
        """Edges and saved inputs."""
        lines = [f"{a.name}_count = int({a.name}.size());" for a in self.lists]
        if self.lists:
            lines.append(f"allocate_edges(this, {self.edge()});")
        for a in self.inputs:
            fit = ", result0" if self.row.kind == "pointwise" else ""
            fit = f", fit_{a.name}{fit}" if a.is_tensor else ""
            lines.append(f"connect(this, {self.edge(a)}, {a.name}{fit});")
        for k in self.kept[: len(self.kept) - len(self.slots)]:
            users = [a for a in self.inputs if k.name in F.identifiers(self.formulas[a.name])]
            guard = "" if k.is_list or self.lists else f"if ({self.wanted(users)}) "
            saved = f"{guard}{k.field}.set({k.name});"
            lines.append(saved if k.is_saved else f"this->{k.name} = {k.name};")
        for name, what in self.metadata:
            source = name if self.arg(name) else "result0"
            lines.append(f"{name}_{what} = {what}_of({source});")
        return lines

    def results(self) -> list[str]:
        """Saved results, once they are tied to the node."""
        found = [(k.field, self.outs.index(k.name)) for k in self.slots]
        return [f"keep_result(this, {f}, output<{i}>(result), {i});" for f, i in found]

    def shows(self) -> list[str]:
        """What Python may look at, under torch's names."""
        seen = [(k.name, k.field) for k in self.kept]
        seen += [(f"{n}_sym_{w}", f"{n}_{w}") for n, w in self.metadata if w[0] in "sn"]
        return [f'show(visitor, this, "{name}", {field});' for name, field in seen]
