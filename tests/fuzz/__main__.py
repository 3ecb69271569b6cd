"""python -m tests.fuzz: random ops with random valid and invalid arguments. A line of a crash's seed makes it again."""

import argparse
import random
import time

import flambeau as fl
from tests.fuzz import call, forms, function_of, little_memory, random_change, with_outs
from tests.ops import all_rows


def attempt(op, seed):
    """One call; what was wrong with it, if anything."""
    rng = random.Random(seed)
    sample, dtype = rng.choice(op.samples), rng.choice(op.dtypes)
    made = sample.make(fl, dtype)
    text = random_change(made, rng)
    args, kwargs = made
    if rng.random() < 0.15:
        args, kwargs = rng.choice(list(with_outs(made)))
        f = function_of(op.name)
    else:
        f = rng.choice(list(forms(op, made)))
    fault = call(f, args, kwargs, backward=rng.random() < 0.5)
    return fault and f"{op.name}, seed {seed}: {sample} in {dtype}, {text}: {fault}"


def main():
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=None, help="one call only, of --op")
    parser.add_argument("--op", help="only this op")
    parser.add_argument("--log", default="fuzz.log", help="holds the call that is running")
    options = parser.parse_args()
    rows = [op for op in all_rows() if op.samples and options.op in (None, op.name)]
    if options.seed is not None:
        print(attempt(rows[0], options.seed) or "nothing wrong")
        return 0
    first = seed = time.time_ns() % 10**12
    end, wrong = time.time() + 60 * options.minutes, 0
    with open(options.log, "w") as log, little_memory():
        while time.time() < end:
            op = random.Random(seed).choice(rows)
            log.seek(0)
            log.truncate()
            log.write(f"--op {op.name} --seed {seed}\n")
            log.flush()
            fault = attempt(op, seed)
            if fault:
                wrong += 1
                print(fault, flush=True)
            seed += 1
    print(f"{seed - first} calls, {wrong} wrong")
    return 1 if wrong else 0


raise SystemExit(main())
