"""Emits what people read: type stubs. The reference is tools/reference.py's."""

from tools.opgen.op import OpSet
from tools.opgen.schema import TYPES, Signature

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


def call(op: Signature, name: str, method: bool, default="...") -> str:
    """What a call looks like, in the words of Python; an empty `default` means the schema's."""
    params = []
    for a in op.args:
        if a.keyword_only and "*" not in params:
            params.append("*")
        if method and a is op.args[0] and a.name == "self":
            params.append("self")
            continue
        shown = "input" if a.name == "self" and a.is_tensor else a.name
        optional = " | None" if a.optional else ""
        given = "" if a.default is None else f" = {default or a.default}"
        params.append(f"{shown}: {TYPES[a.type].python}{optional}{given}")
    results = [TYPES[t].python.replace("Sequence", "list") for t in op.out_types]
    result = results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]"
    return f"{name}({', '.join(params)}) -> {result}"


def stub_file(sets: list[OpSet]) -> str:
    text = STUB_HEAD
    for form, indent in (("method", "    "), ("function", "")):
        for s in (s for s in sets if form in s.forms):
            head = f"{indent}@overload\n" if len(s.ops) > 1 else ""
            for op in s.ops:
                text += f"{head}{indent}def {call(op, s.name, form == 'method')}: ...\n"
        text += "\n"
    return text
