"""How many lines each room has, and how many the change at hand adds and removes."""

import collections
import subprocess

from tools.check import tree

SOURCES = (*tree.CPP, ".py", ".toml", ".cmake", ".sh", ".pyi", ".md")


def room_of(name):
    parts = str(name).split("/")[:-1]
    depth = 3 if parts[:2] == ["flambeau", "kernels"] else 2
    return "/".join(parts[:depth]) or "."


def git(*arguments):
    done = subprocess.run(["git", *arguments], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def report():
    """One line per room: lines now, added and removed since the branch left main (on main: by the last commit)."""
    lines, added, removed = (collections.Counter() for _ in range(3))
    for path in tree.with_suffix(*SOURCES):
        lines[room_of(path)] += tree.text(path).count("\n")
    base = git("merge-base", "HEAD", "main").strip()
    if not base or base == git("rev-parse", "HEAD").strip():
        base = "HEAD~1"
    for row in git("diff", "--numstat", base).splitlines():
        plus, minus, name = row.split("\t")
        if plus != "-" and name.endswith(SOURCES):
            added[room_of(name)] += int(plus)
            removed[room_of(name)] += int(minus)
    rows = [
        f"{room:32}{lines[room]:7}{added[room]:+7}{-removed[room]:7}"
        for room in sorted(lines.keys() | added.keys())
    ]
    total = f"{'all':32}{lines.total():7}{added.total():+7}{-removed.total():7}"
    return "\n".join([f"{'room':32}{'lines':>7}{'added':>7}{'gone':>7}", *rows, total])
