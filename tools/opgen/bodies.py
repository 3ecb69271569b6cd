"""Emits the pointwise bodies, forward and backward, and their tables by compute type."""

from dataclasses import dataclass

from tools.opgen import formula as F
from tools.opgen.op import Op
from tools.opgen.schema import Arg
from tools.opgen.table import PROMOTING
from tools.opgen.template import addresses, fill

LOOPS = """\
struct ${symbol}Body {
  template <class V>
  static auto call([[maybe_unused]] const V* x, [[maybe_unused]] const V* p) {
    $locals
    return $code;
  }
};
extern constinit const PointwiseTable ${symbol}Loops =
    loops_of<${symbol}Body, $sizes, $kinds>();
"""


@dataclass
class Body:
    """A formula compiled as a loop: the op itself, or the gradient of one of its inputs."""

    symbol: str
    op: str
    tensors: list[str]
    numbers: list[str]
    code: str
    types: list[str]
    rule: str = "Promote"  # DTypeRule of ops/pointwise.h
    bits: str = "0, 0"  # the tensors that take no part in promotion, the numbers that do

    def __post_init__(self):
        self.sizes = f"{len(self.tensors)}, {len(self.numbers)}"
        # The tensors and the numbers of a call.
        self.inputs = f"{addresses(self.tensors)}, {{{', '.join(self.numbers)}}}"

    def constant(self) -> str:
        """What the pointwise engine is told."""
        takes_bool = "false" if "nobool" in self.types else "true"
        rule = f"DTypeRule::{self.rule}, {self.bits}, {takes_bool}"
        tables = ", ".join(f"&{isa}::{self.symbol}Loops" for isa in ("v2", "v3", "v4"))
        value = f'"{self.op}", "{" ".join(self.tensors)}", {self.sizes}, {rule}, {{{tables}}}'
        return f"constexpr PointwiseOp k{self.symbol}{{{value}}};\n"

    def loops(self) -> str:
        return fill(LOOPS, self)

    def locals(self) -> list[str]:
        places = [(t, f"x[{i}]") for i, t in enumerate(self.tensors)]
        places += [(n, f"p[{i}]") for i, n in enumerate(self.numbers)]
        return [f"[[maybe_unused]] const V& {name} = {place};" for name, place in places]

    def kinds(self) -> str:
        """The numbers that the formula makes sense for, and what it gives."""
        kinds = " | ".join(f"k{t.capitalize()}" for t in self.types if t != "nobool")
        return f"{kinds}, Gives::{self.rule}" if self.rule in ("Bool", "Real") else kinds


def mask(names: list[str], chosen: set[str]) -> int:
    return sum(1 << i for i, name in enumerate(names) if name in chosen)


def forward(op: Op) -> Body:
    row = op.row
    values = [a.name for a in op.args if a.is_tensor or a.is_number]
    code = row.fwd or f"{row.body}()({', '.join(values)})"
    code = F.without({a.name for s in row.sigs for a in s.args} - set(values), code)
    rule = row.dtype_of("result").split()[-1].capitalize()  # "promote float" -> Float
    bits = f"{mask(op.tensors, row.ignored)}, {mask(op.numbers, PROMOTING)}"
    kind = op.tensors, op.numbers, code, row.number_types
    return Body(op.type_name, op.name, *kind, rule, bits)


def gradient(op: Op, arg: Arg) -> Body | None:
    """The derivative by an input as a body, where it is arithmetic on elements."""
    text = op.formulas[arg.name]
    if op.row.kind != "pointwise" or not F.is_arithmetic(text):
        return None
    used = F.identifiers(text)
    numbers = [n for n in op.numbers if n in used]
    tensors = ["g", *(n for n in op.tensors + op.outs if n in used)]
    if not used <= {*numbers, *tensors}:
        return None
    types = [t for t in op.row.number_types if t in ("float", "complex")]
    symbol = f"{op.type_name}Grad_{arg.name}"
    return Body(symbol, f"{op.name}_backward", tensors, numbers, text, types)


def bodies(op: Op) -> list[Body]:
    gradients = filter(None, (gradient(op, a) for a in op.inputs))
    return [forward(op), *gradients] if op.row.kind == "pointwise" else []
