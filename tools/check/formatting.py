"""Formatting and lint: clang-format 14 and ruff have the word."""

import subprocess
import sys

from tools.check import tree


def problems():
    found = []
    cpp = tree.with_suffix(*tree.CPP)
    if cpp:
        found += failed(
            ["clang-format-14", "--dry-run", "-Werror", *map(str, cpp)], "-Wclang-format"
        )
    ruff = [sys.executable, "-m", "ruff"]
    found += failed([*ruff, "format", "--check", "."], "-->")
    found += failed([*ruff, "check", "--no-cache", "--output-format=concise", "."], ".py:")
    return found


def failed(command, mark):
    """The lines with `mark` that the command printed before it failed, or all of them."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return []
    lines = (done.stdout + done.stderr).splitlines()
    return [line for line in lines if mark in line] or lines or [f"{command[0]} failed"]
