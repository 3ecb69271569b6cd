"""Operator schemas: `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor` as objects."""

import re
from dataclasses import dataclass, field

# schema type -> C++ parameter type, stored type, ArgKind of ops/op_info.h, Python annotation
TYPES = {
    "Tensor": ("const Tensor&", "Tensor", "Tensor", "Tensor"),
    "Scalar": ("const Scalar&", "Scalar", "Scalar", "Number"),
    "int": ("int64_t", "int64_t", "Int", "int"),
    "bool": ("bool", "bool", "Bool", "bool"),
    "float": ("double", "double", "Double", "float"),
    "str": ("std::string_view", "std::string", "String", "str"),
    "int[]": ("IntList", "Ints", "IntList", "Sequence[int]"),
    "bool[]": ("IntList", "Ints", "BoolList", "Sequence[bool]"),
    "Tensor[]": ("TensorList", "std::vector<Tensor>", "TensorList", "Sequence[Tensor]"),
    "Scalar[]": ("ScalarList", "std::vector<Scalar>", "ScalarList", "Sequence[Number]"),
    "float[]": ("DoubleList", "std::vector<double>", "DoubleList", "Sequence[float]"),
    "ScalarType": ("DType", "DType", "DType", "dtype"),
    "Device": ("Device", "Device", "Device", "DeviceLike"),
    "Layout": ("Layout", "Layout", "Layout", "layout"),
    "MemoryFormat": ("MemoryFormat", "MemoryFormat", "MemoryFormat", "memory_format"),
    "Generator": ("Generator*", "Generator*", "Generator", "Generator"),
}
RETURNS = {
    "Tensor": "Tensor",
    "Tensor[]": "std::vector<Tensor>",
    "bool": "bool",
    "int": "int64_t",
    "float": "double",
    "Scalar": "Scalar",
    "ScalarType": "DType",
    "": "void",
}


@dataclass
class Arg:
    name: str
    type: str  # without marks: "Tensor", "int[]"
    optional: bool
    keyword_only: bool
    default: str | None
    alias: str  # "a", "a!" or ""
    size: int  # int[2] -> 2, int[] -> 0

    @property
    def is_tensor(self) -> bool:
        return self.type == "Tensor"

    @property
    def is_number(self) -> bool:
        return self.type in ("Scalar", "float", "int", "bool") and not self.optional

    @property
    def cpp(self) -> str:
        base = TYPES[self.type][0]
        if not self.optional or self.type in ("Tensor", "Generator"):
            return "Tensor&" if self.alias.endswith("!") else base
        if self.type == "Scalar":
            return "const std::optional<Scalar>&"
        return f"std::optional<{base}>"

    @property
    def stored(self) -> str:
        base = TYPES[self.type][1]
        if not self.optional or self.type in ("Tensor", "Generator"):
            return base
        return f"std::optional<{base}>"

    @property
    def cpp_default(self) -> str | None:
        if self.default is None:
            return None
        if self.default == "None":
            return "{}"
        words = {
            "True": "true",
            "False": "false",
            "contiguous_format": "MemoryFormat::Contiguous",
            "preserve_format": "MemoryFormat::Preserve",
            "inf": "kInf",
        }
        if self.default in words:
            return words[self.default]
        if self.type == "ScalarType":  # torch's number of a dtype
            return {"4": "DType::Int64"}[self.default]
        if self.type == "str":
            return '"' + self.default.strip("\"'") + '"'
        if self.default.startswith("["):
            return "{" + self.default[1:-1] + "}"
        if self.type.endswith("[]") and self.size:
            return "{" + ", ".join([self.default] * self.size) + "}"
        return self.default


@dataclass
class Signature:
    text: str
    name: str
    overload: str
    args: list[Arg]
    outs: list[str]  # names of the results: ["result"] unless they are named
    out_types: list[str]
    named: bool  # several results with names: a named tuple in Python
    ids: dict = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.name}_{self.overload}" if self.overload else self.name

    @property
    def type_name(self) -> str:
        return "".join(p[:1].upper() + p[1:] for p in self.id.split("_") if p) + (
            "InPlace" if self.mutates else ""
        )

    @property
    def tensors(self) -> list[Arg]:
        return [a for a in self.args if a.is_tensor]

    @property
    def mutates(self) -> bool:
        return bool(self.args) and self.args[0].alias.endswith("!")

    @property
    def returns(self) -> str:
        if self.mutates and self.out_types == ["Tensor"]:
            return "Tensor&"
        if len(self.out_types) == 1:
            return RETURNS[self.out_types[0]]
        return "std::tuple<" + ", ".join(RETURNS[t] for t in self.out_types) + ">"

    @property
    def is_list(self) -> bool:
        return self.out_types == ["Tensor[]"]

    def params(self, defaults=True, first=None) -> str:
        out = []
        for a in self.args:
            cpp = first if first and a is self.args[0] else a.cpp
            tail = f" = {a.cpp_default}" if defaults and a.cpp_default is not None else ""
            out.append(f"{cpp} {a.name}{tail}")
        return ", ".join(out)

    def call(self, /, **replace) -> str:
        return ", ".join(replace.get(a.name, a.name) for a in self.args)

    def arg(self, name: str) -> Arg | None:
        return next((a for a in self.args if a.name == name), None)


def split_top(text: str) -> list[str]:
    """The comma-separated parts of `text`; commas inside brackets do not count."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [p for p in parts + [text[start:].strip()] if p]


def parse_arg(text: str, keyword_only: bool) -> Arg:
    m = re.fullmatch(
        r"(\w+)(?:\((\w+!?)(?: -> \*)?\))?(\?)?(\[\d*\])?(\?)?\s+(\w+)(?:=(.+))?", text
    )
    if not m:
        raise ValueError(f"cannot read the argument {text!r}")
    base, alias, inner, run, outer, name, default = m.groups()
    kind = base.replace("SymInt", "int") + ("[]" if run else "")
    size = int(run[1:-1]) if run and len(run) > 2 else 0
    return Arg(
        name, kind, bool(outer or (inner and not run)), keyword_only, default, alias or "", size
    )


def parse_signature(text: str) -> Signature:
    m = re.fullmatch(r"(\w+)(?:\.(\w+))?\((.*)\) -> (.+)", text)
    if not m:
        raise ValueError(f"cannot read the schema {text!r}")
    name, overload, inside, result = m.groups()
    args, keyword_only = [], False
    for part in split_top(inside):
        if part == "*":
            keyword_only = True
        else:
            args.append(parse_arg(part, keyword_only))
    parts = split_top(result[1:-1]) if result.startswith("(") else [result]
    found = [re.fullmatch(r"(\w+)(?:\([^)]*\))?(\[\])?(?: (\w+))?", p).groups() for p in parts]
    types = [t + (run or "") for t, run, _ in found] or [""]
    names = [
        n or ("result" if len(found) == 1 else f"result{i}") for i, (_, _, n) in enumerate(found)
    ]
    named = len(found) > 1 and all(n for *_, n in found)
    return Signature(text, name, overload or "", args, names, types, named)
