"""Reads and checks the rows of flambeau/ops/*.toml."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from tools.opgen.schema import Signature, parse_signature

FORMS_OF = {  # by kind, where a row does not say
    "pointwise": "function method inplace out",
    "reduce": "function method out",
    "structured": "function method out",
    "view": "function method",
    "composite": "function method",
    "factory": "function",
    "random": "function",
    "other": "function",
}
FORMS = "function method inplace out nn linalg fft special sparse nested".split()
BODIES = "fwd body kernel impl".split()
FIELDS = "sig kind forms operator alias dtype types shape layout base ignore grad autocast tags doc"
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

    unknown = set(row.fields) - {*FIELDS.split(), *BODIES}
    if unknown:
        bad(f"unknown field {', '.join(sorted(unknown))}")
    if row.kind not in FORMS_OF:
        bad(f"kind must be one of {', '.join(FORMS_OF)}, got {row.kind!r}")
    bodies = [b for b in BODIES if b in row.fields]
    if len(bodies) != 1:
        bad(f"exactly one of {', '.join(BODIES)} is needed, got {bodies or 'none'}")
    if not set(row.forms) <= set(FORMS):
        bad(f"forms must be of {', '.join(FORMS)}, got {' '.join(row.forms)}")
    if row.autocast and row.autocast not in AUTOCAST.split():
        bad(f"autocast must be one of {AUTOCAST}, got {row.autocast!r}")
    for sig in row.sigs:
        if sig.name != row.key.split(".")[0]:
            bad(f"the schema names {sig.name!r}")
    known = {a.name for sig in row.sigs for a in sig.args}
    unknown = {n.strip() for key in row.derivatives for n in key.split(",")} - known
    if unknown:
        bad(f"a derivative for {', '.join(sorted(unknown))}, which no overload has")


def read_row(key: str, file: str, fields: dict) -> Row:
    sigs = fields.get("sig", [])
    try:
        parsed = [parse_signature(t) for t in ([sigs] if isinstance(sigs, str) else sigs)]
    except ValueError as e:
        raise TableError(f"{file}.toml [{key}]: {e}") from None
    row = Row(key, file, fields, parsed)
    check(row)
    return row


def read_rows(folder: Path) -> list[Row]:
    """All rows, files in alphabetical order, rows as they stand."""
    rows = []
    for path in sorted(folder.glob("*.toml")):
        with open(path, "rb") as f:
            try:
                table = tomllib.load(f)
            except tomllib.TOMLDecodeError as e:
                raise TableError(f"{path.name}: {e}") from None
        rows += [read_row(key, path.stem, fields) for key, fields in table.items()]
    return rows
