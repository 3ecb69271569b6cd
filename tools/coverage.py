"""python -m tools.coverage --build DIR: which share of the lines of each room ran, in C++ and in Python.

Reads what a build with --coverage left in DIR (gcov's counters, of everything that ran since) and the data of coverage.py
there. A line of a template or of a kernel that is compiled several times ran if any of its copies did.
"""

import argparse
import collections
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from tools.check.rooms import room_of

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOW = 60  # percent: rooms below are named at the end


def gcov_records(notes):
    """What gcov says of one object file."""
    gcov = os.environ.get("GCOV", "gcov")
    with tempfile.TemporaryDirectory() as folder:
        command = [gcov, "--json-format", "--preserve-paths", str(notes.resolve())]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        written = list(pathlib.Path(folder).glob("*.json.gz"))
        if done.returncode or not written:
            sys.exit(f"coverage: gcov cannot read {notes}: {done.stderr.strip()}")
        return json.loads(gzip.decompress(written[0].read_bytes()))


def add_cpp(record, ran, root=ROOT):
    """Adds to `ran`: {file relative to the root: {line: did any copy of it run?}}."""
    folder = pathlib.Path(record["current_working_directory"])
    for file in record["files"]:
        path = folder / file["file"]
        path = pathlib.Path(os.path.normpath(path if path.exists() else root / file["file"]))
        if not path.is_relative_to(root):
            continue  # the system's
        lines = ran[str(path.relative_to(root))]
        for line in file["lines"]:
            number = line["line_number"]
            lines[number] = lines.get(number, False) or line["count"] > 0


def cpp_lines(build):
    ran = collections.defaultdict(dict)
    notes = sorted(build.rglob("*.gcno"))
    if not notes:
        sys.exit(f"coverage: {build} holds no counters, make them with: make coverage")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for record in pool.map(gcov_records, notes):
            add_cpp(record, ran)
    return ran


def python_lines(build):
    """The same, from coverage.py."""
    command = [sys.executable, "-m", "coverage", "json", "-q", "-o", "-"]
    subprocess.run([*command[:3], "combine", "-q"], cwd=ROOT, check=False)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"coverage: {done.stderr.strip() or done.stdout.strip()}")
    return {
        name: dict.fromkeys(file["executed_lines"], True)
        | dict.fromkeys(file["missing_lines"], False)
        for name, file in json.loads(done.stdout)["files"].items()
    }


def by_room(files, build):
    """{room: [lines that ran, lines]}; what the generator wrote is a room of its own."""
    rooms = collections.defaultdict(lambda: [0, 0])
    for name, lines in files.items():
        name = name.removeprefix(f"{build}/")
        if name.startswith("tests/"):
            continue
        own = "/".join(name.split("/")[:-1][:3]) if name.startswith("python/") else room_of(name)
        room = rooms["generated" if name.startswith("generated/") else own]
        room[0] += sum(lines.values())
        room[1] += len(lines)
    return rooms


def row(name, ran, lines):
    return f"{name:32}{lines:8}{ran:8}{100 * ran / max(lines, 1):8.1f} %"


def report(languages):
    """The table for {language: {room: [ran, lines]}}."""
    out, low = [f"{'room':32}{'lines':>8}{'ran':>8}{'':>8}"], []
    for language, rooms in languages.items():
        for room, (ran, lines) in sorted(rooms.items()):
            out.append(row(f"{language:8}{room}", ran, lines))
            if 100 * ran < LOW * lines:
                low.append(f"{language} {room}")
        out.append(row(f"{language:8}all", *map(sum, zip(*rooms.values()))))
    out.append(f"below {LOW} %: {', '.join(low) or 'none'}")
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build-coverage", type=pathlib.Path)
    build = parser.parse_args().build
    cpp, python = cpp_lines(build), python_lines(build)
    print(report({"C++": by_room(cpp, build), "Python": by_room(python, build)}))


if __name__ == "__main__":
    main()
