"""Emits the methods of the C++ Tensor: declarations for core/tensor.h, bodies for programs."""

import re

from tools.opgen.op import OpSet
from tools.opgen.ops import Form, forms

DECLARED = """\
// What Tensor inherits. A template, so that a program compiles only the methods that it calls.
template <class T>
class TensorMethods {
  T& self() const { return const_cast<T&>(static_cast<const T&>(*this)); }
 public:
"""
# Parameters that take more than the function's: one int for a list of ints; no int for a bool.
WIDER = {"IntList": "IntArg", "std::optional<IntList>": "OptionalIntArg", "bool": "Flag"}


class Method(Form):
    """A form of an op, called on its tensor `self`; an alias calls the function it stands for."""

    template = """\
template <class T>
$returns TensorMethods<T>::$method($params) const {
  return ops::$function($given);
}
"""

    def __init__(self, form: Form, method: str):
        super().__init__(form.subject, form.function, form.returns)
        self.form, self.method = form, method
        self.given = ", ".join("self()" if a.name == "self" else a.name for a in self.args)

    def parameters(self) -> list[tuple[str, str, str]]:
        found = [p for p in self.form.parameters() if p[1] != "self"]
        return [(WIDER.get(kind, kind), name, default) for kind, name, default in found]


def emit(sets: list[OpSet]) -> tuple[str, str]:
    """The declarations, and the bodies."""
    found = []
    for s in (s for s in sets if "method" in s.forms and not s.name.startswith("_")):
        for op in (op for op in s.ops if "self" in op.tensors):
            found.append(Method(forms(op)[s.inplace and not op.mutates], s.name))
    lines = "".join(f"  {m.returns} {m.method}({m.declared()}) const;\n" for m in found)
    texts = lines, "".join(m.text() for m in found)
    lines, bodies = (re.sub(r"\bTensor\b", "T", text) for text in texts)
    return f"{DECLARED}{lines}}};\n", bodies
