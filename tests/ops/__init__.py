"""All test rows: every module of this package but rows.py has a list OPS."""

import importlib
import pkgutil


def all_rows():
    found = []
    for module in pkgutil.iter_modules(__path__):
        if module.name != "rows":
            found += importlib.import_module(f"{__name__}.{module.name}").OPS
    return found
