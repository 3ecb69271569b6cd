"""Includes point one way: core <- kernels <- tape <- ops <- autograd <- jit <- python, the other rooms beside jit.

Rooms beside each other are seen through the header named after the room. flambeau/flambeau.h is the front of all.
"""

import re

from tools.check import tree

# flambeau/generated is what the build makes from the table of ops.
LEVEL = {
    "core": 0,
    "kernels": 1,
    "tape": 2,
    "ops": 3,
    "generated": 3,
    "autograd": 4,
    "jit": 5,
    "python": 6,
}
LEVEL |= dict.fromkeys(("nn", "optim", "data", "serialize", "distributed"), 5)
METHODS = "generated/methods.h"  # declares what Tensor inherits, in words of core
INCLUDE = re.compile(r'^\s*#\s*include\s+"flambeau/([^"]+)"', re.M)


def room_of(path):
    """ "ops" for flambeau/ops/x.cpp, "python" for python/src/x.cpp, None for what may include everything."""
    if path.parts[0] == "python":
        return "python"
    return path.parts[1] if path.parts[0] == "flambeau" and len(path.parts) > 2 else None


def problems():
    found = []
    for path in tree.with_suffix(*tree.CPP):
        room = room_of(path)
        if room is None:
            continue
        if room not in LEVEL:
            found.append(f"{path}: {room} is no room of the design")
            continue
        for target in INCLUDE.findall(tree.text(path)):
            complaint = judge(room, target)
            if complaint:
                found.append(f"{path}: includes flambeau/{target}: {complaint}")
    return found


def judge(room, target):
    """What is wrong with an include of flambeau/`target` from `room`, or None."""
    other, _, name = target.partition("/")
    if not name:
        return None if room == "python" else "the front header is for programs, not for the library"
    if other == room or {other, room} == {"generated", "ops"} or target == METHODS:
        return None
    if LEVEL.get(other, 9) > LEVEL[room]:
        return f"{room} must not know {other}"
    if LEVEL[other] == LEVEL[room] and name != f"{other}.h":
        return f"{room} sees {other} through flambeau/{other}/{other}.h only"
    return None
