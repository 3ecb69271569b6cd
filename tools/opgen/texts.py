"""Emits what people read: type stubs and the reference page of every op."""

from tools.opgen.schema import TYPES, Signature
from tools.opgen.table import OpSet


def annotation(type_name: str, optional: bool) -> str:
    text = TYPES[type_name][3]
    return f"{text} | None" if optional else text


def stub_params(sig: Signature, method: bool) -> str:
    out, star = [], False
    for i, a in enumerate(sig.args):
        if a.keyword_only and not star:
            out.append("*")
            star = True
        if method and a.name == "self" and i == 0:
            out.append("self")
            continue
        name = "input" if a.name == "self" and a.is_tensor else a.name
        default = "" if a.default is None else " = ..."
        out.append(f"{name}: {annotation(a.type, a.optional)}{default}")
    return ", ".join(out)


def stub_return(sig: Signature) -> str:
    types = {
        "": "None",
        "Tensor[]": "list[Tensor]",
        "int": "int",
        "bool": "bool",
        "float": "float",
        "Scalar": "Number",
        "ScalarType": "dtype",
    }
    names = [types.get(t, "Tensor") for t in sig.out_types]
    return names[0] if len(names) == 1 else f"tuple[{', '.join(names)}]"


def stubs(sets: list[OpSet], method: bool) -> str:
    form, indent = ("method", "    ") if method else ("function", "")
    text = ""
    for s in sets:
        if form not in s.forms:
            continue
        for _, sig in s.entries:
            if len(s.entries) > 1:
                text += f"{indent}@overload\n"
            text += f"{indent}def {s.name}({stub_params(sig, method)}) -> {stub_return(sig)}: ...\n"
    return text


def stub_file(sets: list[OpSet]) -> str:
    head = (
        "# Generated from flambeau/ops/*.toml. Do not edit.\n"
        "from collections.abc import Sequence\nfrom typing import Any, overload\n\n"
        "Number = int | float | complex | bool\nDeviceLike = Any\n"
        "class dtype: ...\nclass layout: ...\nclass memory_format: ...\nclass Generator: ...\n\n"
    )
    return head + "class Tensor:\n" + stubs(sets, True) + "\n" + stubs(sets, False)


def reference(sets: list[OpSet]) -> str:
    """reStructuredText: a section per op, with its schemas, forms and doc."""
    text = "Operators\n=========\n\n"
    for s in sets:
        if s.inplace or not s.entries[0][0].doc:
            continue
        text += f"{s.name}\n{'-' * len(s.name)}\n\n::\n\n"
        text += "".join(f"    {s.name}{sig.text[len(sig.name) :]}\n" for _, sig in s.entries)
        text += f"\nForms: {', '.join(s.forms)}.\n\n"
        text += (
            "::\n\n"
            + "".join(f"    {line}\n" for line in s.entries[0][0].doc.strip().split("\n"))
            + "\n"
        )
    return text
