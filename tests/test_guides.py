"""What is written is true: the Python of guides and docstrings runs, rows that guides show stand in the table, links lead on."""

import ast
import doctest
import importlib
import linecache
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
INSIDE = ROOT / "docs/guide/inside.md"


def blocks(path, language):
    """The fenced blocks of a language: (line of the first line, text)."""
    text = path.read_text()
    for match in re.finditer(rf"^```{language}\n(.*?)^```", text, re.S | re.M):
        yield text.count("\n", 0, match.start(1)) + 1, match[1]


def pages_with(language):
    return [
        pytest.param(page, id=page.relative_to(ROOT).as_posix())
        for page in PAGES
        if any(blocks(page, language))
    ]


@pytest.mark.parametrize("page", pages_with("python"))
def test_python_runs(page):
    space = {"__name__": "guide"}
    linecache.getlines(str(page))  # a failure shows the line of the page
    for line, text in blocks(page, "python"):
        exec(compile("\n" * (line - 1) + text, str(page), "exec"), space)


def test_the_tape_takes_less_than_200_lines():
    tape = [text for _, text in blocks(INSIDE, "python") if "assert" not in text]
    assert sum(text.count("\n") for text in tape) < 200


@pytest.mark.parametrize("page", pages_with("toml"))
def test_rows_are_those_of_the_table(page):
    table = {}
    for file in ROOT.glob("flambeau/ops/*.toml"):
        table |= tomllib.loads(file.read_text())
    for _, text in blocks(page, "toml"):
        for name, row in tomllib.loads(text).items():
            assert row == table[name]


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES])
def test_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def documented_examples():
    """(module, name, text) of every docstring of the Python package that shows a session."""
    package = ROOT / "python"
    for path in sorted(package.glob("flambeau/**/*.py")):
        module = ".".join(path.relative_to(package).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(node) or ""
                if ">>>" in text:
                    name = getattr(node, "name", "module")
                    yield pytest.param(module, text, id=f"{module}-{name}")


@pytest.mark.parametrize("module, text", list(documented_examples()))
def test_example_of_a_docstring_runs(module, text):
    module = importlib.import_module(module.removesuffix(".__init__"))
    space = {"flambeau": importlib.import_module("flambeau"), **vars(module)}
    example = doctest.DocTestParser().get_doctest(text, space, module.__name__, None, None)
    out = []
    doctest.DocTestRunner(verbose=False).run(example, out=out.append)
    assert not out, "".join(out)
