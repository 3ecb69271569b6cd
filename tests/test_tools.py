"""The tools that no build needs: pages of the reference, shares of lines that ran."""

import collections
from pathlib import Path

from tools import coverage, reference
from tools.opgen.table import read_rows

ROWS = read_rows(reference.OPS)


def entry(key, seen):
    return reference.op_entry(next(row for row in ROWS if row.key == key), seen)


def test_prose_keeps_its_marks():
    assert reference.escaped("(*) and x_, `a*b`s") == r"(\*) and x\_, \ ``a*b``\ s"


def test_docstrings_keep_labels_lists_and_examples():
    doc = """One sentence
    on two lines.

    Shape:   (*, n)
             and more.
    Raises:  ValueError.
    - one
    - two
    Example:
        >>> 1
        1
    """
    assert reference.as_rst(doc).split("\n\n") == [
        "One sentence on two lines.",
        r":Shape: (\*, n) and more.",
        ":Raises: ValueError.",
        "- one",
        "- two",
        ".. code-block:: pycon",
        "   >>> 1\n   1",
        "",
    ]


def test_an_op_has_its_calls_forms_and_example():
    seen = set()
    text = entry("rsqrt", seen)
    assert text.startswith(".. py:function:: flambeau.rsqrt(input: Tensor) -> Tensor\n\n")
    assert ":Forms: flambeau.rsqrt, flambeau.Tensor.rsqrt, rsqrt\\_, out=\n" in text
    assert "      >>> rsqrt(tensor([4., 16.]))\n      tensor([0.5000, 0.2500])\n" in text
    assert "      rsqrt(Tensor self) -> Tensor\n" in text and ":no-index:" not in text
    assert ":no-index:" in entry("rsqrt", seen), "a name stands in the index once"
    assert "flambeau.linalg.det(A: Tensor) -> Tensor" in entry("linalg_det", seen)


def test_every_file_with_public_ops_has_a_page():
    pages = dict(reference.op_pages(ROWS, set()))
    public = {row.file for row in ROWS if not row.key.startswith("_")}
    assert {f"ops/{file}" for file in public} < pages.keys()
    assert "   unary\n" in pages["ops/index"]


def record(*lines):
    found = [{"line_number": number, "count": count} for number, count in lines]
    here = [{"file": "flambeau/core/check.h", "lines": found}]
    system = [{"file": "/usr/include/c++/12/new", "lines": found}]
    return {"current_working_directory": str(Path(coverage.ROOT)), "files": here + system}


def test_a_line_ran_if_any_of_its_copies_did():
    ran = collections.defaultdict(dict)
    coverage.add_cpp(record((1, 0), (2, 7), (3, 0)), ran)
    coverage.add_cpp(record((1, 3), (2, 0), (3, 0), (3, 0)), ran)
    assert ran == {"flambeau/core/check.h": {1: True, 2: True, 3: False}}


def test_rooms_with_few_lines_that_ran_are_named():
    files = {
        "flambeau/core/a.h": {1: True, 2: False},
        "flambeau/core/b.h": {1: True, 2: True},
        "flambeau/nn/c.cpp": {1: True, 2: False},
        "bc/generated/src/d.cpp": {1: True},
        "tests/cpp/e.cpp": {1: False},
    }
    rooms = coverage.by_room(files, "bc")
    assert rooms == {"flambeau/core": [3, 4], "flambeau/nn": [1, 2], "generated": [1, 1]}
    lines = coverage.report({"C++": rooms}).splitlines()
    assert lines[1].split() == ["C++", "flambeau/core", "4", "3", "75.0", "%"]
    assert lines[-2].split() == ["C++", "all", "7", "5", "71.4", "%"]
    assert lines[-1] == "below 60 %: C++ flambeau/nn"
