"""Replays recordings of the reference and compares the counts with .ci/floors.json, which may only rise.

python -m tools.check.floors --golden DIR             exit status 1 where fewer cases pass, or more are left out
python -m tools.check.floors --golden DIR --update    also writes the improvements into the file
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

FLOORS = pathlib.Path(".ci/floors.json")
SECONDS = 30 * 60  # for one replay
JUDGES = {
    "passed": (max, "{} cases passed, at least {} required"),
    "left_out": (min, "{} cases left out, at most {} allowed"),
}


def replay(golden, area, log):
    """The counts of one area; "ops" has a program of its own. What it printed goes to the file `log`."""
    program = "replay_ops.py" if area == "ops" else "replay.py"
    command = [sys.executable, str(golden / program), "--module", "flambeau", "--existing"]
    summary = log.with_suffix(".json")
    command += ["--json", str(summary)] if area == "ops" else ["--area", area]
    # Two replays share the machine; each on one thread is the fastest way through thousands of small calls.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    with open(log, "w") as out:
        try:
            subprocess.run(command, stdout=out, stderr=out, env=environment, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            out.write(f"no end within {SECONDS} seconds\n")
            return {"passed": 0, "left_out": 0}
    return counts(log.read_text(), area)


def counts(text, area):
    """Cases passed and left out, from the lines that the replays print."""
    if area == "ops":
        passed = re.search(r"cases (\d+)/\d+", text)
        left_out = re.search(r"left out: (\d+) cases", text)
    else:
        passed = re.search(rf"^{area}: (\d+) of \d+ passed", text, re.M)
        left_out = re.search(rf"^{area}: .* passed, (\d+) left out", text, re.M)
    return {
        "passed": int(passed[1]) if passed else 0,
        "left_out": int(left_out[1]) if left_out else 0,
    }


def areas(golden):
    return ["ops", *sorted(p.parent.name for p in golden.glob("*/cases.json"))]


def measure(golden, logs):
    logs.mkdir(parents=True, exist_ok=True)
    names = areas(golden)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        done = pool.map(lambda area: replay(golden, area, logs / f"{area}.txt"), names)
        return dict(zip(names, done))


def complaints(floors, measured):
    return [
        f"{area}: " + text.format(measured.get(area, {}).get(key, 0), floor)
        for area, row in floors.items()
        for key, floor in row.items()
        for better, text in [JUDGES[key]]
        if better(measured.get(area, {}).get(key, 0), floor) != measured.get(area, {}).get(key, 0)
    ]


def raised(floors, measured):
    """Each count at its best so far."""
    return {
        area: {
            key: better(row[key], floors.get(area, row)[key]) for key, (better, _) in JUDGES.items()
        }
        for area, row in (floors | measured).items()
        for row in [measured.get(area, row)]
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--golden", type=pathlib.Path, required=True, help="folder of the recordings"
    )
    parser.add_argument("--logs", type=pathlib.Path, default=pathlib.Path("build/conformance"))
    parser.add_argument(
        "--update", action="store_true", help="raise the floors to what was measured"
    )
    args = parser.parse_args()
    floors = json.loads(FLOORS.read_text()) if FLOORS.exists() else {}
    measured = measure(args.golden.resolve(), args.logs)
    for area, row in measured.items():
        print(f"{area:16}{row['passed']:7} cases passed{row['left_out']:7} left out")
    found = complaints(floors, measured)
    for line in found:
        print(f"below its floor: {line}; see {args.logs}")
    if args.update:
        rows = (f'  "{area}": {json.dumps(row)}' for area, row in raised(floors, measured).items())
        FLOORS.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    failed = len({line.split(":")[0] for line in found})
    print(f"floors: {len(measured) - failed} passed, {failed} failed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
