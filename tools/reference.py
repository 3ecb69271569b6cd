"""python -m tools.reference --out DIR: the pages of the HTML reference that follow from the tree.

ops/*.rst from the rows of the op table, api/*.rst from the docstrings of the public Python names, and copies of what
is a page already. Sphinx makes HTML of them (`make docs`).
"""

import argparse
import importlib
import inspect
import pkgutil
import re
import shutil
from itertools import groupby
from pathlib import Path

from tools.opgen.documents import call
from tools.opgen.table import read_rows

ROOT = Path(__file__).resolve().parents[1]
OPS = ROOT / "flambeau" / "ops"
PAGES = "README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE NOTICE docs examples".split()
# How a form is called; the first that a row has gives the entry its name.
FORMS = {
    "function": "flambeau.{}",
    "nn": "flambeau.nn.functional.{}",
    **{place: f"flambeau.{place}.{{}}" for place in ("linalg", "fft", "special", "sparse")},
    "method": "flambeau.Tensor.{}",
    "inplace": "{}_",
    "out": "out=",
}
# "Shape:   text"; the text may go on further below.
LABEL = re.compile(r"(Shapes?|Dtypes?|Args|Raises|Torch|Source): +(\S.*)")


def escaped(text):
    """Prose as reStructuredText: words in backticks are code, nothing else is markup."""
    pieces = re.split(r"`([^`]+)`", text)
    pieces[::2] = (re.sub(r"([\\*`|_])", r"\\\1", piece) for piece in pieces[::2])
    pieces[1::2] = (f"\\ ``{piece.strip()}``\\ " for piece in pieces[1::2])  # joins what it touches
    return "".join(pieces).strip()


def indented(text, by="   "):
    return "".join(by + line if line.strip() else line for line in text.splitlines(True))


def as_rst(doc):
    """A docstring: paragraphs, labels with their text, lists, and indented examples."""
    out = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(doc)):
        for line in block.split("\n"):
            label = LABEL.fullmatch(line)
            if line.startswith("    ") and out and out[-1][0] in ("field", "item"):
                out[-1][1] += " " + line.strip()
            elif line.startswith("    "):
                if not out or out[-1][0] != "code":
                    out.append(["code", ""])
                out[-1][1] += line[4:] + "\n"
            elif label:
                out.append(["field", f"{label[1]}: {label[2]}"])
            elif line.startswith("- "):
                out.append(["item", line[2:]])
            elif line.rstrip() == "Example:":
                out.append(["end", ""])
            elif out and out[-1][0] in ("text", "item"):
                out[-1][1] += " " + line.strip()
            else:
                out.append(["text", line.strip()])
        out.append(["end", ""])
    return "\n\n".join(rst_of(kind, text) for kind, text in out if kind != "end") + "\n"


def rst_of(kind, text):
    if kind == "code":
        language = "pycon" if text.lstrip().startswith(">>>") else "text"
        return f".. code-block:: {language}\n\n{indented(text)}"
    if kind == "field":
        label, text = text.split(": ", 1)
        return f":{label}: {escaped(text)}"
    return f"- {escaped(text)}" if kind == "item" else escaped(text)


def title(text, mark="="):
    return f"{text}\n{mark * len(text)}\n\n"


def toctree(pages):
    return ".. toctree::\n   :maxdepth: 1\n\n" + "".join(f"   {page}\n" for page in pages)


def op_entry(row, seen):
    """One row: the call of each schema, its forms, its doc."""
    name = row.key.split(".")[0]
    forms = [
        text.format(name.removeprefix(f"{form}_"))
        for form, text in FORMS.items()
        if form in row.forms
    ]
    method = ".Tensor." in forms[0]
    calls = [call(sig, forms[0], method, default="") for sig in row.sigs]
    calls = ("\n" + " " * 17).join(calls).replace("(self, ", "(").replace("(self)", "()")
    aliases = f":Also: {', '.join(f'``{a}``' for a in row.alias)}\n" if row.alias else ""
    schemas = "".join(f"   {sig.text}\n" for sig in row.sigs)
    body = f"{as_rst(row.doc)}\n:Forms: {escaped(', '.join(forms))}\n{aliases}"
    body += f"\n.. code-block:: text\n   :caption: Schema\n\n{schemas}"
    index = "   :no-index:\n" if forms[0] in seen else ""
    seen.add(forms[0])
    return f".. py:function:: {calls}\n{index}\n{indented(body)}\n"


def op_pages(rows, seen):
    """(page, text) for every file of the table; its first line is a comment that says what is in it.

    `seen` are the names that have an entry in the index already.
    """
    names = []
    for file, of_file in groupby(
        (row for row in rows if row.doc and row.key[0] != "_"), key=lambda row: row.file
    ):
        head = (OPS / f"{file}.toml").read_text().split("\n")[0].lstrip("# ")
        text = title(file.replace("_", " ").capitalize()) + escaped(head) + "\n\n"
        names.append(file)
        yield f"ops/{file}", text + "".join(op_entry(row, seen) for row in of_file)
    yield "ops/index", title("Operators") + toctree(names)


def public_modules(package):
    yield package
    for found in pkgutil.iter_modules(package.__path__):
        spec = found.module_finder.find_spec(found.name)
        if found.name.startswith("_") or not spec.origin.endswith(".py"):
            continue
        module = importlib.import_module(f"{package.__name__}.{found.name}")
        if found.ispkg:
            yield from public_modules(module)
        else:
            yield module


def public_names(module):
    """(name, object) of the classes and functions written in Python that a module offers."""
    for name in sorted(getattr(module, "__all__", None) or dir(module)):
        value = getattr(module, name, None)
        ours = (getattr(value, "__module__", None) or "").startswith("flambeau")
        if not name.startswith("_") and ours:
            if inspect.isclass(value) or inspect.isfunction(value):
                yield name, value


class Written(str):
    """An annotation that shows as it stands in the source."""

    __repr__ = str.__str__


def call_of(value):
    """The arguments of a function, without those that Python fills in."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # written in C
        return "(...)"
    parameters = [
        p.replace(annotation=Written(p.annotation)) if isinstance(p.annotation, str) else p
        for p in signature.parameters.values()
        if p.name not in ("self", "cls")
    ]
    result = signature.return_annotation
    if inspect.isclass(value):
        result = inspect.Signature.empty
    elif isinstance(result, str):
        result = Written(result)
    shown = signature.replace(parameters=parameters, return_annotation=result)
    return re.sub(r" at 0x[0-9a-f]+", "", str(shown))


def entry(kind, name, value):
    body = indented(as_rst(value.__doc__ or ""))
    text = f".. py:{kind}:: {name}{call_of(value)}\n\n{body}\n"
    if not inspect.isclass(value):
        return text
    for method, function in sorted(vars(value).items()):
        function = getattr(function, "__func__", function)
        if inspect.isfunction(function) and function.__doc__ and not method.startswith("_"):
            text += indented(entry("method", method, function))
    return text


def api_pages(names):
    """(page, text) for every public module; a name stands where the way to it is shortest.

    Adds the names to `names`.
    """
    modules = sorted(public_modules(importlib.import_module("flambeau")), key=path_length)
    seen, pages = set(), []
    for module in modules:
        text = ""
        for name, value in public_names(module):
            if id(value) not in seen:
                seen.add(id(value))
                kind = "class" if inspect.isclass(value) else "function"
                names.add(f"{module.__name__}.{name}")
                text += entry(kind, f"{module.__name__}.{name}", value)
        if text:
            head = title(module.__name__) + as_rst(module.__doc__ or "")
            pages.append(module.__name__)
            yield f"api/{module.__name__}", f"{head}\n{text}"
    yield "api/index", title("Python") + toctree(sorted(pages))


def path_length(module):
    return module.__name__.count("."), module.__name__


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for name in PAGES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, out / name)
    (out / "docs" / "index.md").rename(out / "index.md")
    seen = set()
    for page, text in (*api_pages(seen), *op_pages(read_rows(OPS), seen)):
        target = out / f"{page}.rst"
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)


if __name__ == "__main__":
    main()
