"""Completeness of the op table: every row has a doc with an example that runs, a derivative or a reason, a test row."""

import doctest
import re
from pathlib import Path

import pytest

import flambeau as fl
from tests.ops import all_rows
from tools.opgen.table import read_rows

ROWS = read_rows(Path(__file__).parents[1] / "flambeau" / "ops")
TESTED = {op.name for op in all_rows()}
# A float op may do without a derivative only where there is none to have.
EXEMPT = (
    "a comparison",
    "a boolean op",
    "an integer op",
    "a factory",
    "a random op",
    "piecewise constant",
    "no values",
    "no derivative of the packed form",
    "no second derivative",
)


def by_name():
    return [pytest.param(row, id=row.key) for row in ROWS]


@pytest.mark.parametrize("row", by_name())
def test_row_has_a_doc(row):
    doc = row.doc or ""
    first = doc.strip().split("\n")[0]
    assert first.endswith((".", "?")), "the first line is a sentence"
    assert "Shape:" in doc and "Example:" in doc


@pytest.mark.parametrize("row", by_name())
def test_row_has_a_derivative_or_a_reason(row):
    grad = row.fields.get("grad")
    if grad is None:
        assert row.kind == "composite", "only a composite may leave its derivative to its inner ops"
    elif isinstance(grad, str):
        assert re.fullmatch(r"none: .+", grad)
        assert any(grad.removeprefix("none: ").startswith(reason) for reason in EXEMPT), grad


@pytest.mark.parametrize("row", by_name())
def test_row_has_a_test_row(row):
    assert row.key.split(".")[0] in TESTED


@pytest.mark.parametrize("row", by_name())
def test_example_runs(row):
    space = {name: getattr(fl, name) for name in dir(fl)}
    for place in (fl._C._nn, fl._C._linalg, fl._C._special):
        space |= {name: getattr(place, name) for name in dir(place) if not name.startswith("__")}
    example = doctest.DocTestParser().get_doctest(row.doc, space, row.key, row.file, 0)
    assert example.examples
    out = []
    doctest.DocTestRunner(verbose=False).run(example, out=out.append, clear_globs=False)
    assert not out, "".join(out)


def test_no_cpp_call_fits_two_overloads():
    seen = {}
    for sig in (sig for row in ROWS for sig in row.sigs):
        for given in range(sig.least, len(sig.args) + 1):
            call = (sig.name, *(a.cpp for a in sig.args[:given]))
            assert call not in seen, f"{sig.text} and {seen[call]}"
            seen[call] = sig.text
