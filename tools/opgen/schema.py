"""Operator schemas as objects: `add.Tensor(Tensor self, *, Scalar alpha=1) -> Tensor`."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from tools.opgen.template import pascal


class Type(NamedTuple):
    parameter: str  # C++
    stored: str  # C++, of a node's field and of a result
    kind: str  # ArgKind of ops/op_info.h
    python: str  # annotation


TYPES = {
    "Tensor": Type("const Tensor&", "Tensor", "Tensor", "Tensor"),
    "Scalar": Type("const Scalar&", "Scalar", "Scalar", "Number"),
    "int": Type("int64_t", "int64_t", "Int", "int"),
    "bool": Type("bool", "bool", "Bool", "bool"),
    "float": Type("double", "double", "Double", "float"),
    "str": Type("std::string_view", "std::string", "String", "str"),
    "int[]": Type("IntList", "Ints", "IntList", "Sequence[int]"),
    "bool[]": Type("IntList", "Ints", "BoolList", "Sequence[bool]"),
    "Tensor[]": Type("TensorList", "std::vector<Tensor>", "TensorList", "Sequence[Tensor]"),
    "Scalar[]": Type("ScalarList", "std::vector<Scalar>", "ScalarList", "Sequence[Number]"),
    "float[]": Type("DoubleList", "std::vector<double>", "DoubleList", "Sequence[float]"),
    "ScalarType": Type("DType", "DType", "DType", "dtype"),
    "Device": Type("Device", "Device", "Device", "DeviceLike"),
    "Layout": Type("Layout", "Layout", "Layout", "layout"),
    "MemoryFormat": Type("MemoryFormat", "MemoryFormat", "MemoryFormat", "memory_format"),
    "Generator": Type("Generator*", "Generator*", "Generator", "Generator"),
}
DEFAULTS = {
    "None": "{}",
    "True": "true",
    "False": "false",
    "contiguous_format": "MemoryFormat::Contiguous",
    "4": "DType::Int64",  # torch's number of a dtype
}


@dataclass
class Arg:
    name: str
    type: str  # without marks: "Tensor", "int[]"
    optional: bool = False
    keyword_only: bool = False
    default: str | None = None
    written: bool = False  # Tensor(a!): the op writes it
    size: int = 0  # int[2] -> 2, int[] -> 0

    def __post_init__(self):
        self.is_tensor = self.type == "Tensor"
        self.is_list = self.type == "Tensor[]"
        self.is_number = self.type in ("Scalar", "float", "int", "bool") and not self.optional
        # In a node tensors are packed, versioned and freed; everything else is a plain field.
        self.is_saved = self.is_tensor or self.is_list
        self.field = f"saved_{self.name}" if self.is_saved else self.name
        # None needs a std::optional; tensors and generators have an empty state of their own.
        wrap = self.optional and self.type not in ("Tensor", "Generator")
        base, stored, *_ = TYPES[self.type]
        stored = f"std::optional<{stored}>" if wrap else stored
        self.field_type = {"Tensor": "Saved", "Tensor[]": "SavedList"}.get(self.type, stored)
        self.cpp = "Tensor&" if self.written else f"std::optional<{base}>" if wrap else base
        if wrap and self.type == "Scalar":
            self.cpp = "const std::optional<Scalar>&"

    @property
    def cpp_default(self) -> str:
        """The default as C++, empty if there is none."""
        text = self.default or ""
        if text in DEFAULTS and (text != "4" or self.type == "ScalarType"):
            return DEFAULTS[text]
        if self.type == "str" and text:
            return '"' + text.strip("\"'") + '"'
        if text.startswith("["):
            return "{" + text[1:-1] + "}"
        if self.type.endswith("[]") and self.size and text:
            return "{" + ", ".join([text] * self.size) + "}"
        return text


@dataclass
class Signature:
    text: str
    name: str
    overload: str
    args: list[Arg]
    outs: list[str]  # names of the results: ["result"] unless they are named
    out_types: list[str]
    named: bool  # several results with names: a named tuple in Python

    def __post_init__(self):
        self.tensors = [a.name for a in self.args if a.is_tensor]
        self.numbers = [a.name for a in self.args if a.is_number]
        self.call = ", ".join(a.name for a in self.args)
        self.mutates = bool(self.args) and self.args[0].written
        self.is_list = self.out_types == ["Tensor[]"]
        self.id = f"{self.name}_{self.overload}" if self.overload else self.name
        self.pascal = pascal(self.name)
        self.type_name = pascal(self.id) + ("InPlace" if self.mutates else "")
        types = [TYPES[t].stored for t in self.out_types]
        self.result = types[0] if len(types) == 1 else f"std::tuple<{', '.join(types)}>"

    def params(self) -> str:
        return ", ".join(f"{a.cpp} {a.name}" for a in self.args)

    def arg(self, name: str) -> Arg | None:
        return next((a for a in self.args if a.name == name), None)


ARGUMENT = re.compile(r"(\w+)(?:\((\w+!?)(?: -> \*)?\))?(\?)?(\[\d*\])?(\?)?\s+(\w+)(?:=(.+))?")
RESULT = re.compile(r"(\w+)(?:\([^)]*\))?(\[\])?(?: (\w+))?")
SCHEMA = re.compile(r"(\w+)(?:\.(\w+))?\((.*)\) -> (.+)")


def match(pattern: re.Pattern, text: str, what: str) -> tuple:
    found = pattern.fullmatch(text)
    if not found:
        raise ValueError(f"cannot read the {what} {text!r}")
    return found.groups()


def parts(text: str) -> list[str]:
    """The comma-separated parts; commas inside brackets do not count."""
    return re.split(r",\s*(?![^\[(]*[\])])", text) if text else []


def parse_arg(text: str, keyword_only: bool) -> Arg:
    base, alias, inner, run, outer, name, default = match(ARGUMENT, text, "argument")
    kind = base.replace("SymInt", "int") + ("[]" if run else "")
    size = int(run[1:-1]) if run and len(run) > 2 else 0
    optional = bool(outer or (inner and not run))
    return Arg(name, kind, optional, keyword_only, default, (alias or "").endswith("!"), size)


def parse_signature(text: str) -> Signature:
    name, overload, inside, result = match(SCHEMA, text, "schema")
    pieces = parts(inside)
    star = pieces.index("*") if "*" in pieces else len(pieces)
    args = [parse_arg(p, i > star) for i, p in enumerate(pieces) if p != "*"]
    results = parts(result[1:-1]) if result.startswith("(") else [result]
    found = [match(RESULT, r, "result") for r in results]
    types = [kind + (run or "") for kind, run, _ in found]
    several = len(found) > 1
    names = [n or (f"result{i}" if several else "result") for i, (_, _, n) in enumerate(found)]
    named = several and all(n for *_, n in found)
    return Signature(text, name, overload or "", args, names, types, named)
