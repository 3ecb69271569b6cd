"""Sizes: no file over 800 lines, no function over 100, the median line in a file of at most 500, a small generator.

Tables are exempt.
"""

from tools.check import functions, tree

FILE, FUNCTION, WEIGHTED_MEDIAN = 800, 100, 500
GENERATOR = ("tools/opgen", 1199, 100)  # all of it, templates included: lines, columns
SOURCES = (*tree.CPP, ".py", ".cmake", ".sh")


def problems():
    found, sizes = [], []
    for path in tree.with_suffix(*SOURCES):
        text = tree.text(path)
        lines = text.count("\n")
        sizes.append(lines)
        if lines > FILE:
            found.append(f"{path}: {lines} lines, at most {FILE}")
        finder = {
            ".py": functions.python_functions,
            ".h": functions.cpp_functions,
            ".cpp": functions.cpp_functions,
            ".cu": functions.cpp_functions,
        }.get(path.suffix)
        for first, length in finder(text) if finder else ():
            if length > FUNCTION:
                found.append(f"{path}:{first}: a function of {length} lines, at most {FUNCTION}")
    median = weighted_median(sizes)
    if median > WEIGHTED_MEDIAN:
        found.append(f"the median line is in a file of {median} lines, at most {WEIGHTED_MEDIAN}")
    folder, lines, columns = GENERATOR
    return found + generator_problems(
        {p: tree.text(p) for p in tree.with_suffix(*SOURCES) if p.is_relative_to(folder)},
        lines,
        columns,
    )


def generator_problems(texts, lines, columns):
    found = []
    total = sum(text.count("\n") for text in texts.values())
    if total > lines:
        found.append(f"the generator has {total} lines, at most {lines}")
    for path, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > columns:
                found.append(f"{path}:{number}: {len(line)} columns, at most {columns}")
    return found


def weighted_median(sizes):
    """The size of the file that holds the middle line, files sorted by size."""
    middle, seen = sum(sizes) / 2, 0
    for size in sorted(sizes):
        seen += size
        if seen >= middle:
            return size
    return 0
