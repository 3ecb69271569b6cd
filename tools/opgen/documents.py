"""Emits what people read: type stubs and the reference page of every op."""

from tools.opgen.op import Op, OpSet
from tools.opgen.schema import TYPES

STUB_HEAD = """\
# Generated from flambeau/ops/*.toml. Do not edit.
from collections.abc import Sequence
from typing import Any, overload

Number = int | float | complex | bool
DeviceLike = Any
class dtype: ...
class layout: ...
class memory_format: ...
class Generator: ...

class Tensor:
"""


def stub(op: Op, name: str, method: bool) -> str:
    params = []
    for a in op.args:
        if a.keyword_only and "*" not in params:
            params.append("*")
        if method and a is op.args[0] and a.name == "self":
            params.append("self")
            continue
        shown = "input" if a.name == "self" and a.is_tensor else a.name
        optional = " | None" if a.optional else ""
        default = "" if a.default is None else " = ..."
        params.append(f"{shown}: {TYPES[a.type].python}{optional}{default}")
    results = [TYPES[t].python.replace("Sequence", "list") for t in op.out_types]
    result = results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]"
    return f"def {name}({', '.join(params)}) -> {result}: ..."


def stub_file(sets: list[OpSet]) -> str:
    text = STUB_HEAD
    for form, indent in (("method", "    "), ("function", "")):
        for s in (s for s in sets if form in s.forms):
            head = f"{indent}@overload\n" if len(s.ops) > 1 else ""
            for op in s.ops:
                text += f"{head}{indent}{stub(op, s.name, form == 'method')}\n"
        text += "\n"
    return text


def reference(sets: list[OpSet]) -> str:
    """reStructuredText: a section per op, with its schemas, forms and doc."""
    text = "Operators\n=========\n\n"
    for s in (s for s in sets if s.row.doc and not s.inplace):
        schemas = [f"    {s.name}{op.text[len(op.name) :]}\n" for op in s.ops]
        doc = [f"    {line}\n" for line in s.row.doc.strip().split("\n")]
        text += f"{s.name}\n{'-' * len(s.name)}\n\n::\n\n{''.join(schemas)}\n"
        text += f"Forms: {', '.join(s.forms)}.\n\n::\n\n{''.join(doc)}\n"
    return text
