"""Where files are written: a file object, or a path whose old file is replaced at one go."""

import os
import stat
import tempfile
from contextlib import contextmanager


def is_path(f):
    """Is it a path rather than a file object?"""
    return isinstance(f, (str, os.PathLike))


@contextmanager
def output(f):
    """What to write to: the file object itself, or a new file that takes the path's place."""
    if not is_path(f):
        if not hasattr(f, "write"):
            raise AttributeError(f"save: f must be a path or have write(), got {type(f).__name__}")
        yield f
        return
    path = os.path.realpath(f)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise RuntimeError(f"save: the folder {folder} does not exist")
    exists = os.path.exists(path)
    written = _sibling(path, folder) if exists else path
    try:
        with open(written, "wb") as file:
            yield file
        if written != path:
            os.replace(written, path)
    except BaseException:
        # Nothing half written stays behind.
        if written != path or not exists:
            os.unlink(written)
        raise


def _sibling(path, folder):
    """A new file beside `path` with its permissions, or `path` itself where there can be none."""
    if not os.path.isfile(path) or not os.access(path, os.W_OK):
        return path
    try:
        number, name = tempfile.mkstemp(prefix=".saving-", dir=folder)
    except OSError:
        return path
    os.close(number)
    os.chmod(name, stat.S_IMODE(os.stat(path).st_mode))
    return name
