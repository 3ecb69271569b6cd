"""python -m tools.check --build DIR: every rule, its offenders, and the size of the rooms. Exit status 1 if any rule is broken."""

import argparse
import sys

from tools.check import arrows, formatting, objects, rooms, sizes, words


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="the build folder whose objects are read")
    build = parser.parse_args().build
    checks = {
        "format": formatting.problems,
        "include arrows": arrows.problems,
        "sizes": sizes.problems,
        "words": words.problems,
        "objects": lambda: objects.problems(build),
    }
    broken = 0
    for name, check in checks.items():
        found = check()
        broken += bool(found)
        print(f"check: {name}: {len(found) or 'no'} problem{'s' if len(found) != 1 else ''}")
        for line in found:
            print(f"  {line}")
    print(rooms.report())
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
