"""One overload, its row and what its derivatives need: what the emitters of C++ work on."""

from dataclasses import dataclass

from tools.opgen import formula as F
from tools.opgen.schema import Arg, Signature
from tools.opgen.table import Row


class Op(Signature):
    def __init__(self, row: Row, sig: Signature):
        vars(self).update(vars(sig))
        self.row, self.operator = row, row.operator
        self.has_out = "out" in row.forms and {*self.out_types} == {"Tensor"} and not self.mutates
        self.infos: dict[str, str] = {}  # the entries of the run-time table, by function
        self.groups = list(self.derivatives())
        self.formulas = {a.name: text for args, text in self.groups for a in args}
        self.inputs = [a for a in self.args if a.name in self.formulas]
        self.lists = [a for a in self.inputs if a.is_list]
        self.mentioned = F.identifiers(" ".join(self.formulas.values()))
        self.metadata = sorted(F.metadata(" ".join(self.formulas.values())))
        self.node = f"{self.type_name}Node" if self.inputs else ""
        self.edge_count = 0 if self.lists else len(self.inputs)  # 0: as many as the lists have
        results = [Arg(o, "Tensor") for o in self.outs if not self.arg(o)]
        for r in results:
            r.field_type = "SavedResult" if self.carries_grad(r.name) else "Saved"
        # What derivatives mention, in order of the signature; slots are the results of it.
        self.kept = [a for a in self.args + results if a.name in self.mentioned]
        self.slots = [a for a in results if a.name in self.mentioned]
        self.recorded = ", ".join(a.name for a in self.inputs)
        # The arguments that may send a call down the slow path.
        self.watched = ", ".join(a.name for a in self.args if a.is_tensor or a.is_list)
        # How the results are called where somebody else fills them.
        self.targets = ["out"] if len(self.outs) == 1 else [f"out_{o}" for o in self.outs]

    def derivatives(self):
        """(inputs, formula): a key may name several inputs, whose gradients one formula gives."""
        outs = {*self.outs, *(f"g_{o}" for o in self.outs)}
        known = {a.name for a in self.args} | outs | {"g", "gs", "wanted"}
        for key, text in self.row.derivatives.items():
            args = [self.arg(name) for name in key.replace(",", " ").split()]
            args = [a for a in args if a and (a.is_tensor or a.is_list)]
            if args:
                yield args, F.without(F.identifiers(text) - known, text)

    def carries_grad(self, out: str) -> bool:
        """Statistics that only the backward needs (mean, rstd ...) carry no gradient themselves."""
        if len(self.outs) == 1:
            return True
        return f"g_{out}" in self.mentioned or ("g" in self.mentioned and out == self.outs[0])

    def requirements(self) -> list[str]:
        """The statements that refuse arguments for which a condition of the row does not hold."""
        lines = []
        for rule in self.row.requires or []:
            names = [a.name for a in self.args if a.name in F.identifiers(rule)]
            text = f"{self.name}: {rule} must hold, got {', '.join(n + ' {}' for n in names)}"
            lines.append(f'FL_CHECK({rule}, RuntimeError, "{text}", {", ".join(names)});')
        return lines

    def edge(self, arg: Arg | None = None) -> str:
        """Index of the first edge of an input: a list of tensors takes as many as it has."""
        before = self.inputs[: self.inputs.index(arg)] if arg else self.inputs
        lists = [f"{a.name}_count" for a in before if a.is_list]
        return " + ".join([str(len(before) - len(lists)), *lists])

    def wanted(self, args: list[Arg]) -> str:
        return f"wants({', '.join(self.edge(a) for a in args)})"


@dataclass
class OpSet:
    """All overloads of one callable name, in resolution order, with the form they are called in."""

    name: str
    ops: list[Op]
    inplace: bool

    def __post_init__(self):
        self.row = self.ops[0].row
        self.operator = "" if self.inplace else self.row.operator or ""
        self.forms = [f for f in self.row.forms if f != "inplace"]
        if self.inplace:
            self.forms = ["method", *(f for f in ("function", "nn") if f in self.row.forms)]
        for i, op in enumerate(self.ops):
            op.infos[self.name] = f"kOps_{self.name}[{i}]"


def op_sets(ops: list[Op]) -> list[OpSet]:
    found: dict[tuple[str, bool], list[Op]] = {}
    for op in ops:
        for name in [op.name, *(op.row.alias or [])]:
            found.setdefault((name, False), []).append(op)
            if "inplace" in op.row.forms:
                found.setdefault((name + "_", True), []).append(op)
    return [OpSet(name, ops, inplace) for (name, inplace), ops in sorted(found.items())]
