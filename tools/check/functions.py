"""Finds the functions of a C++ or Python file and how many lines each has."""

import ast
import re

# Comments, literals and preprocessor lines: blanked, so that their braces do not count.
NOISE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'"""
    r"""|^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*""",
    re.S | re.M,
)
SCOPE = re.compile(
    r"^(?:template\s*<.*>\s*|\[\[.*?\]\]\s*|inline\s+|export\s+|typedef\s+|static\s+)*"
    r"(?:namespace|struct|class|union|enum|extern\s*$)(?![^;{]*\)\s*(?:const|noexcept|override)?\s*$)",
    re.S,
)


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def cpp_functions(source):
    """Yields (first line, number of lines) of every function body outside other functions."""
    code = NOISE.sub(blank, source)
    depth, start, begin = (
        0,
        0,
        None,
    )  # begin: where the header of the function that we are in starts
    outer = 0
    for match in re.finditer(r"[{};]", code):
        symbol, at = match[0], match.start()
        if symbol == "{":
            header = code[start:at].strip()
            if (
                begin is None
                and ")" in header
                and not SCOPE.match(header)
                and header[-1] not in "=,("
            ):
                begin, outer = at - len(code[start:at].lstrip()), depth
            depth += 1
        elif symbol == "}":
            depth -= 1
            # `}` followed by `,` or `{` closed a member initializer; the body is still to come.
            if begin is not None and depth == outer and not re.match(r"\s*[,{]", code[at + 1 :]):
                first = code.count("\n", 0, begin) + 1
                yield first, code.count("\n", 0, at) + 2 - first
                begin = None
        start = at + 1


def python_functions(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.end_lineno + 1 - node.lineno
