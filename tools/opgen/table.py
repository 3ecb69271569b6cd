"""Reads and checks the rows of flambeau/ops/*.toml."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from tools.opgen.schema import Signature, parse_signature

KINDS = ("pointwise", "reduce", "structured", "view", "composite", "factory", "random", "other")
NAMESPACES = ("nn", "linalg", "fft", "special", "sparse", "nested")
FORMS = ("function", "method", "inplace", "out") + NAMESPACES
BODIES = ("fwd", "body", "kernel", "impl")
FIELDS = {
    "sig",
    "kind",
    "forms",
    "operator",
    "alias",
    "dtype",
    "types",
    "shape",
    "layout",
    "base",
    "param",
    "ignore",
    "init",
    "grad",
    "jvp",
    "autocast",
    "batch",
    "tags",
    "doc",
    *BODIES,
}
DEFAULT_FORMS = {
    "pointwise": "function method inplace out",
    "reduce": "function method out",
    "structured": "function method out",
    "view": "function method",
    "composite": "function method",
    "factory": "function",
    "random": "function",
    "other": "function",
}
# Numbers that take part in type promotion when a pointwise row has them.
PROMOTING = {"self", "other", "exponent", "min", "max"}


class TableError(Exception):
    """A row that breaks a rule of the table; the text names the file and the row."""


@dataclass
class Row:
    key: str  # "add" or "max.dim"
    file: str  # "pointwise"
    fields: dict
    sigs: list[Signature]

    def __getattr__(self, name):
        return self.fields.get(name)

    @property
    def forms(self) -> list[str]:
        return self.fields.get("forms", DEFAULT_FORMS[self.kind]).split()

    @property
    def body_field(self) -> str:
        return next(b for b in BODIES if b in self.fields)

    @property
    def derivatives(self) -> dict[str, str]:
        grad = self.fields.get("grad")
        return grad if isinstance(grad, dict) else {}

    @property
    def ignored(self) -> set[str]:
        """Tensors that do not take part in type promotion."""
        return set(self.fields.get("ignore", "condition mask").split())

    def dtype_of(self, out: str) -> str:
        rule = self.fields.get("dtype", "promote" if self.kind == "pointwise" else "same")
        return rule[out] if isinstance(rule, dict) else rule

    @property
    def number_types(self) -> list[str]:
        """Which compute types the formula is compiled for."""
        default = "float" if "float" in self.dtype_of("result").split() else "int float"
        return self.fields.get("types", default).split()


def check(row: Row) -> None:
    def bad(why):
        raise TableError(f"{row.file}.toml [{row.key}]: {why}")

    unknown = set(row.fields) - FIELDS
    if unknown:
        bad(f"unknown field {', '.join(sorted(unknown))}")
    if row.kind not in KINDS:
        bad(f"kind must be one of {', '.join(KINDS)}, got {row.kind!r}")
    bodies = [b for b in BODIES if b in row.fields]
    if len(bodies) != 1:
        bad(f"exactly one of {', '.join(BODIES)} is needed, got {bodies or 'none'}")
    for form in row.forms:
        if form not in FORMS:
            bad(f"unknown form {form!r}")
    base = row.key.split(".")[0]
    for sig in row.sigs:
        if sig.name != base:
            bad(f"the schema names {sig.name!r}")
    names = {a.name for sig in row.sigs for a in sig.args}
    for name in [n.strip() for key in row.derivatives for n in key.split(",")]:
        if name not in names:
            bad(f"a derivative for {name!r}, which no overload has")


def read_rows(folder: Path) -> list[Row]:
    """All rows, files in alphabetical order, rows as they stand."""
    rows = []
    for path in sorted(folder.glob("*.toml")):
        with open(path, "rb") as f:
            try:
                table = tomllib.load(f)
            except tomllib.TOMLDecodeError as e:
                raise TableError(f"{path.name}: {e}") from None
        for key, fields in table.items():
            sigs = fields.get("sig", [])
            try:
                parsed = [parse_signature(t) for t in ([sigs] if isinstance(sigs, str) else sigs)]
            except ValueError as e:
                raise TableError(f"{path.name} [{key}]: {e}") from None
            row = Row(key, path.stem, fields, parsed)
            check(row)
            rows.append(row)
    return rows


@dataclass
class OpSet:
    """All overloads of one callable name, in resolution order, with the form they are called in."""

    name: str
    entries: list[tuple[Row, Signature]]
    inplace: bool

    @property
    def forms(self) -> list[str]:
        row = self.entries[0][0]
        if self.inplace:
            return ["method"] + [f for f in ("function", "nn") if f in row.forms]
        return [f for f in row.forms if f != "inplace"]


def op_sets(rows: list[Row]) -> list[OpSet]:
    sets: dict[str, OpSet] = {}

    def add(name, row, sig, inplace):
        sets.setdefault(name, OpSet(name, [], inplace)).entries.append((row, sig))

    for row in rows:
        for sig in row.sigs:
            for name in [sig.name, *(row.alias or [])]:
                add(name, row, sig, False)
                if "inplace" in row.forms:
                    add(name + "_", row, sig, True)
    return [sets[name] for name in sorted(sets)]
