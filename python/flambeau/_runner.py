"""Runs a program that was written for torch: while it runs, the name torch and all below it mean flambeau.

Nothing is installed under that name. A finder answers imports (`torch.x.y` is the very module `flambeau.x.y`) and
says which version of torch the interface follows.
"""

import importlib
import importlib.machinery
import importlib.util
import io
import os
import runpy
import sys
import types

# The release whose interface flambeau follows, for programs that ask importlib.metadata.
TORCH_VERSION = "2.13.0"
USAGE = """usage: python -m flambeau SCRIPT [ARGUMENT ...]
       python -m flambeau -m MODULE [ARGUMENT ...]
       python -m flambeau --cmake-prefix-path"""


def own_name(name):
    """flambeau.x for torch.x, None for a name that is not torch's."""
    head, dot, rest = name.partition(".")
    return "flambeau" + dot + rest if head == "torch" else None


class AliasLoader:
    """Hands out flambeau's module itself, so that both names mean one object."""

    def __init__(self, name):
        self.name = name

    def create_module(self, spec):
        module = importlib.import_module(self.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module):
        # The import system has just put the alias's spec there; the module has long been executed under its own.
        module.__spec__ = self.spec


class TorchFinder:
    """A meta path finder for torch and everything below it, and for its distribution."""

    def find_spec(self, name, path=None, target=None):
        own = own_name(name)
        if own is None or (own not in sys.modules and importlib.util.find_spec(own) is None):
            return None
        return importlib.machinery.ModuleSpec(name, AliasLoader(own), is_package=True)

    def find_distributions(self, context):
        from importlib.metadata import Distribution

        class Torch(Distribution):
            def read_text(self, filename):
                return {
                    "METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {TORCH_VERSION}\n",
                    "top_level.txt": "torch\n",
                }.get(filename)

            def locate_file(self, path):
                return os.path.join(os.path.dirname(os.path.dirname(__file__)), path)

        return iter([Torch()] if context.name in (None, "torch") else [])


def install():
    """Makes `import torch` mean flambeau in this process; further calls change nothing."""
    if not any(isinstance(finder, TorchFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, TorchFinder())


def run_script(path):
    """Runs the file as __main__; an error's traceback starts in the script, not here."""
    main = types.ModuleType("__main__")
    main.__file__, main.__builtins__ = path, __builtins__
    sys.modules["__main__"] = main
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        sys.exit(f"flambeau: can't open {path}: {error.strerror}")
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    try:
        exec(compile(source, path, "exec"), main.__dict__)
    except Exception as error:
        error = error.with_traceback(error.__traceback__.tb_next)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)


def main():
    arguments = sys.argv[1:]
    if arguments == ["--cmake-prefix-path"]:
        from flambeau.utils import cmake_prefix_path

        return print(cmake_prefix_path)
    as_module = arguments[:1] == ["-m"]
    program = arguments[as_module:]
    if not program or (program[0].startswith("-") and not as_module):
        print(USAGE)
        sys.exit(0 if program[:1] in (["-h"], ["--help"]) else 2)
    sys.argv[:] = program
    install()
    if as_module:
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    else:
        run_script(program[0])
