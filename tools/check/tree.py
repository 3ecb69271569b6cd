"""The files that the checks read: everything git tracks or would track."""

import functools
import pathlib
import subprocess

CPP = (".h", ".cpp", ".cu")


@functools.cache
def files():
    """Paths relative to the root of the tree, sorted."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    paths = (pathlib.Path(name) for name in sorted(set(listed.split("\0"))) if name)
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def with_suffix(*suffixes):
    return [path for path in files() if path.suffix in suffixes]


@functools.cache
def text(path):
    return path.read_text(errors="replace")
