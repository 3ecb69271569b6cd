"""Reads and checks the rows of flambeau/ops/*.toml."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from tools.opgen.schema import Signature, parse_signature

FORMS_OF = {  # by kind, where a row does not say
    "pointwise": "function method inplace out",
    **dict.fromkeys(("reduce", "structured"), "function method out"),
    **dict.fromkeys(("view", "composite"), "function method"),
    **dict.fromkeys(("factory", "random", "other"), "function"),
}
FORMS = "function method inplace out nn linalg fft special sparse nested".split()
BODIES = "fwd body kernel impl".split()
FIELDS = """sig kind forms operator alias dtype types shape layout base ignore requires grad
    autocast tags doc"""
AUTOCAST = "lower float32 widest"
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

    def __post_init__(self):
        self.forms = self.fields.get("forms", FORMS_OF.get(self.kind, "")).split()
        self.derivatives = self.grad if isinstance(self.grad, dict) else {}
        # Tensors that do not take part in type promotion.
        self.ignored = set(self.fields.get("ignore", "condition mask").split())

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

    bodies = [b for b in BODIES if b in row.fields]
    if len(bodies) != 1:
        bad(f"exactly one of {', '.join(BODIES)} is needed, got {bodies or 'none'}")
    inputs = {n.strip() for key in row.derivatives for n in key.split(",")}
    for what, given, known in (
        ("field", row.fields, FIELDS.split() + BODIES),
        ("kind", [row.kind], FORMS_OF),
        ("form", row.forms, FORMS),
        ("autocast", [row.autocast] if row.autocast else [], AUTOCAST.split()),
        ("schema's name", [sig.name for sig in row.sigs], [row.key.split(".")[0]]),
        ("derivative", inputs, {a.name for sig in row.sigs for a in sig.args}),
    ):
        unknown = sorted(map(str, set(given) - set(known)))
        if unknown:
            bad(f"a {what} must be one of {', '.join(known)}, got {', '.join(unknown)}")


def read_row(key: str, file: str, fields: dict) -> Row:
    sigs = fields.get("sig", [])
    try:
        parsed = [parse_signature(t) for t in ([sigs] if isinstance(sigs, str) else sigs)]
    except ValueError as e:
        raise TableError(f"{file}.toml [{key}]: {e}") from None
    row = Row(key, file, fields, parsed)
    check(row)
    return row


def settle_calls(rows: list[Row]) -> None:
    """How many arguments a C++ call must give: with fewer it would look like another overload's."""
    taken = set()
    for sig in (sig for row in rows for sig in row.sigs):
        types = [sig.name, *(a.cpp for a in sig.args)]
        required = [i + 1 for i, a in enumerate(sig.args) if a.default is None]
        calls = {n: tuple(types[: n + 1]) for n in range(max(required, default=0), len(types))}
        sig.least = max((n + 1 for n, call in calls.items() if call in taken), default=min(calls))
        taken |= {call for n, call in calls.items() if n >= sig.least}


def read_rows(folder: Path) -> list[Row]:
    """All rows, files in alphabetical order, rows as they stand."""
    rows = []
    for path in sorted(folder.glob("*.toml")):
        try:
            table = tomllib.loads(path.read_text())
        except tomllib.TOMLDecodeError as e:
            raise TableError(f"{path.name}: {e}") from None
        rows += [read_row(key, path.stem, fields) for key, fields in table.items()]
    settle_calls(rows)
    return rows
