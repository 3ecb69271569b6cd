"""Words and marks: no path of a machine, nothing left for later, few macros, and every source says what lives in it."""

import re

from tools.check import tree

# Split or in groups, so that this file does not report itself.
FORBIDDEN = {
    r"/(?:work|root)/|/home/\w": "a path of one machine",
    r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b": "work left for later",
}
MACROS = 10
SOURCES = (*tree.CPP, ".py", ".cmake", ".sh", ".toml", ".md", ".txt", ".yml")


def problems():
    found, macros = [], set()
    for path in tree.with_suffix(*SOURCES):
        text = tree.text(path)
        for pattern, what in FORBIDDEN.items():
            for match in re.finditer(pattern, text):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{path}:{line}: {what}: {match[0]}")
        if path.suffix in tree.CPP:
            macros |= set(re.findall(r"^\s*#\s*define\s+(FL_\w+)", text, re.M))
            if not text.lstrip().startswith("//"):
                found.append(f"{path}:1: the first line must say what lives here")
        elif (
            path.suffix == ".py"
            and text.strip()
            and not text.lstrip().startswith(('"""', "#", 'r"""'))
        ):
            found.append(f"{path}:1: the first line must say what lives here")
    if len(macros) > MACROS:
        found.append(f"{len(macros)} FL_ macros, at most {MACROS}: {' '.join(sorted(macros))}")
    return found
