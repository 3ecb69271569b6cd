"""The tools that no build needs: pages of the reference."""

from tools import reference
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


def test_every_file_of_the_table_has_a_page():
    pages = dict(reference.op_pages(ROWS, set()))
    assert {f"ops/{path.stem}" for path in reference.OPS.glob("*.toml")} < pages.keys()
    assert "   unary\n" in pages["ops/index"]
