"""Emits the C++ functions of every overload: dispatch, computation, in-place and out= forms."""

from tools.opgen import rules
from tools.opgen.bodies import bodies, forward
from tools.opgen.nodes import Node
from tools.opgen.op import Op
from tools.opgen.template import Emitter, addresses

PLAIN = """\
template <bool below> static $returns run_$id($params) {
  $body
}
"""
IN_PLACE = """\
template <bool below> static Tensor& run_$id$suffix($params) {
  check_inplace("$function", self);
  $record
  if (!below || !written_below()) {
    $compute
    self->bump_version();
  }
  $rebase
  return self;
}
"""
DISPATCH = """\
$returns $function($params) {
  $requirements
  if (FL_UNLIKELY(slow_mode($watched))) return slow_call($slow);
  return run_$id$suffix<false>($call);
}
"""
OUT = """\
$returns $function($params) {
  check_out("$name", $given_tensors, {$watched});
  $requirements
  NoGradGuard no_grad;
  return $value;
}
"""


class Form(Emitter):
    """A C++ function of an op: it gives a new value, or writes `self`, or writes `out`."""

    def __init__(self, op: Op, function: str, returns: str, filled=()):
        super().__init__(op)
        self.function, self.returns = function, returns
        self.filled = filled  # tensors of the caller that take the results
        self.suffix = "" if function == op.name else "_in_place"

    def parameters(self) -> list[tuple[str, str, str]]:
        """Type, name and default."""
        shown = [a.cpp_default if i >= self.least else "" for i, a in enumerate(self.args)]
        own = [(a.cpp, a.name, default) for a, default in zip(self.args, shown)]
        return [("Tensor&", name, "") for name in self.filled] + own

    def params(self) -> str:
        return ", ".join(f"{kind} {name}" for kind, name, _ in self.parameters())

    def pointer(self) -> str:
        """The function and the adapter that calls it with boxed arguments."""
        kind = f"{self.returns} (*)({', '.join(kind for kind, *_ in self.parameters())})"
        return f"(void*)static_cast<{kind}>(&ops::{self.function}),\n &AdapterOf<{kind}>::call"

    def declared(self) -> str:
        return ", ".join(f"{t} {n} = {d}" if d else f"{t} {n}" for t, n, d in self.parameters())

    def slow(self) -> str:
        run = f"run_{self.id}{self.suffix}"
        bodies = f"&{run}<false>", f"&Rare<&{run}<true>>::call"
        return ", ".join([self.infos[self.function], *bodies, *(a.name for a in self.args)])


class Plain(Form):
    template = PLAIN + DISPATCH

    def body(self) -> list[str]:
        check = [rules.device_check(self)] if self.row.kind == "structured" else []
        value = f"below ? ask_below<{self.result}>() : {self.value()}"
        if not self.node:
            return [*check, f"return {value};"]
        first = sum(map(self.carries_grad, self.outs))
        tape = f"tape<{self.node}, below>(result, {first}, {self.call});"
        record = f"if (FL_UNLIKELY(recording({self.recorded}))) {tape}"
        return [*check, f"{self.result} result = {value};", record, "return result;"]

    def value(self) -> str:
        """The expression that computes the result."""
        row, call = self.row, f"{self.row.impl}({self.call})"
        if row.kind == "pointwise":
            return f"pointwise(k{self.type_name}, {forward(self).inputs})"
        if row.kind == "reduce":
            return rules.reduction(self)
        if row.kind == "structured":
            return rules.structured(self)
        if row.kind == "view":
            return f"make_view{'s' if self.is_list else ''}({self.args[0].name}, {call})"
        return f"[&] {{ NoGradGuard no_grad; return {call}; }}()" if self.node else call


class InPlace(Form):
    template = IN_PLACE + DISPATCH

    def parameters(self) -> list[tuple[str, str, str]]:
        return [("Tensor&", "self", ""), *super().parameters()[1:]]

    def record(self) -> list[str]:
        saves_self = any(k.name == "self" for k in self.kept)
        before = self.call.replace("self", "clone(self)", 1) if saves_self else self.call
        record = f"if (FL_UNLIKELY(recording({self.recorded}))) tape.record({before}, self);"
        return [f"InPlaceTape<{self.node}> tape;", record] if self.node else []

    def rebase(self) -> list[str]:
        return ["tape.rebase(self);"] if self.node else []

    def compute(self) -> list[str]:
        row, name = self.row, self.name
        if self.mutates:
            call = f"{row.impl}({self.call});"
            return ["{", "  NoGradGuard no_grad;", f"  {call}", "}"] if self.node else [call]
        if row.kind == "pointwise":
            return [f"pointwise_into(k{self.type_name}, self, {forward(self).inputs});"]
        if row.kind == "structured" and row.base:
            check, call = rules.shape(self, self.outs[0]), rules.kernel_call(self, ["self"])
            return [rules.device_check(self), f"(void){check};", f"if (has_memory(self)) {call};"]
        value = f"{name}({self.call})"
        lines = [f'write_into("{name}_", self, [&] {{ NoGradGuard no_grad; return {value}; }}());']
        if row.kind == "composite" and not row.grad:
            # No node of its own: while the tape records, copy_ carries the result over.
            recorded = f"recording({', '.join(self.tensors)})"
            kept = value.replace("self", "clone(self)", 1)
            lines.insert(0, f"if (FL_UNLIKELY({recorded})) return copy_(self, {kept});")
        return lines


class Out(Form):
    template = OUT

    def given_tensors(self) -> str:
        places = {"aligned", "apart", "based"} & {*(self.row.tags or "").split()}
        return f"{addresses(self.targets)}, Out::{''.join(places).capitalize() or 'Anywhere'}"

    def value(self) -> str:
        target = f"std::tie({', '.join(self.targets)})" if len(self.targets) > 1 else "out"
        if self.row.kind == "pointwise":
            return f"pointwise_out(k{self.type_name}, {target}, {forward(self).inputs})"
        cast = "true" if self.row.kind in ("reduce", "composite") else "false"
        call = f"{self.name}({', '.join(self.given(a) for a in self.args)})"
        return f'give_out("{self.name}", {target}, {call}, {cast})'

    def given(self, arg) -> str:
        """A factory's out= decides the dtype and the device that the caller left open."""
        if self.arg("pin_memory") and arg.name == "device":
            return "device ? device : out.device()"
        if self.arg("pin_memory") and arg.name == "dtype":
            default = "" if arg.default == "None" else f" || dtype == {arg.cpp_default}"
            return f"!dtype{default} ? out.dtype() : dtype"
        return arg.name


def forms(op: Op) -> list[Form]:
    found = [InPlace(op, op.name, "Tensor&") if op.mutates else Plain(op, op.name, op.result)]
    if "inplace" in op.row.forms:
        found.append(InPlace(op, op.name + "_", "Tensor&"))
    if op.has_out:
        returns = "Tensor&" if len(op.outs) == 1 else op.result
        found.append(Out(op, op.name + "_out", returns, op.targets))
    return found


def definitions(op: Op) -> str:
    text = f"// From ops/{op.row.file}.toml [{op.row.key}].\n"
    text += "".join(b.constant() for b in bodies(op)) + (Node(op).text() if op.node else "")
    return text + "".join(form.text() for form in forms(op))
