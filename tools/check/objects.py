"""What compiled files must not hold.

Kernel objects: a weak function that is not bound to its instruction set (the linker might keep an AVX-512 copy for all
processors) and code that runs at start-up. Libraries: needs beyond the C++ runtime, symbols that nobody defines, and
together more than 15 MB.
"""

import pathlib
import re
import subprocess

RUNTIME = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libflambeau.so"}
RUNTIME.add("ld-linux-x86-64.so.2")  # the loader: part of libc, named where thread-local data is
ISAS = ("v2", "v3", "v4")
MOST_BYTES = 15_000_000
SANITIZED = ("libasan", "libubsan", "libtsan")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def problems(build):
    found = []
    for isa in ISAS:
        objects = sorted(pathlib.Path(build, "CMakeFiles", f"flambeau_{isa}.dir").rglob("*.o"))
        if objects:
            found += weak_symbols(isa, objects) + start_up_code(objects)
    package = pathlib.Path(build, "python", "flambeau")
    libraries = sorted(package.glob("*.so"))
    for library in libraries:
        found += foreign_needs(library)
    found += too_large(libraries)
    if (package / "_C.abi3.so").exists():
        found += undefined_symbols(package / "_C.abi3.so", package / "libflambeau.so")
    return found


def weak_symbols(isa, objects):
    found = []
    # As it stands in a mangled name, the function's own or a template argument's; S_ repeats a namespace.
    bound = re.compile(rf"(8flambeau|S[0-9A-Z]*_)2{isa}")
    for line in output("nm", "-A", "--defined-only", *map(str, objects)).splitlines():
        file, _, symbol = line.rpartition(" ")
        # W is code; weak data (V, u) has the same bytes in every copy.
        if file.endswith(" W") and not bound.search(symbol):
            name = output("c++filt", symbol).strip()
            found.append(f"{pathlib.Path(file.split(':')[0]).name} ({isa}): weak function {name}")
    return found


def start_up_code(objects):
    sections = output("readelf", "-SW", *map(str, objects))
    found, file = [], str(objects[0])
    for line in sections.splitlines():
        if line.startswith("File: "):
            file = line.removeprefix("File: ")
        elif re.search(r"\] \.(init_array|ctors)", line):
            found.append(f"{file}: runs code at start-up (.init_array)")
    return found


def foreign_needs(library):
    needs = re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", str(library)))
    return [
        f"{library.name} needs {name}"
        for name in needs
        if name not in RUNTIME and not name.startswith(SANITIZED)
    ]


def too_large(libraries, most=MOST_BYTES):
    """Of a release; names for the debugger (DEBUG=1, sanitizers) may take what they need."""
    if any(".symtab" in output("readelf", "-SW", str(library)) for library in libraries):
        return []
    sizes = {library.name: library.stat().st_size for library in libraries}
    if sum(sizes.values()) <= most:
        return []
    each = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
    return [f"libraries of {sum(sizes.values()):,} bytes, at most {most:,}: {each}"]


def undefined_symbols(module, library):
    """Names of ours that the module uses and the library does not export: the import would fail."""
    exported = {
        line.split()[-1] for line in output("nm", "-D", "--defined-only", str(library)).splitlines()
    }
    wanted = {
        line.split()[-1]
        for line in output("nm", "-D", "--undefined-only", str(module)).splitlines()
    }
    missing = sorted(name for name in wanted - exported if "8flambeau" in name)
    return [
        f"{module.name}: not exported by {library.name} (FL_API?): {output('c++filt', name).strip()}"
        for name in missing
    ]
