"""Mirrors Python packages into a folder as links, so that an edited file is seen at once and a deleted one is gone.

python tools/stage.py STAGE SOURCE...    the files below every SOURCE appear below STAGE; what was built there stays
"""

import os
import sys

LINKED = (".py", ".pyi", ".typed", ".json")


def wanted_links(sources):
    """Relative path -> file that it must point at."""
    links = {}
    for source in sources:
        for folder, _, names in os.walk(source):
            for name in names:
                if name.endswith(LINKED):
                    path = os.path.join(folder, name)
                    links[os.path.relpath(path, source)] = os.path.abspath(path)
    return links


def stage(target, sources):
    links = wanted_links(sources)
    for folder, _, names in os.walk(target):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                relative = os.path.relpath(path, target)
                if links.get(relative) == os.readlink(path):
                    del links[relative]
                else:
                    os.unlink(path)
    for relative, source in links.items():
        path = os.path.join(target, relative)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(source, path)


if __name__ == "__main__":
    stage(sys.argv[1], sys.argv[2:])
