"""What every test may ask for: the device it runs on, and the same random numbers each time."""

import os
import sys

import pytest

SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")


def pytest_collection_modifyitems(items):
    for item in items:
        if SANITIZED and item.get_closest_marker("measured"):
            item.add_marker(pytest.mark.skip(reason="a sanitizer changes time and memory"))


@pytest.fixture(params=["cpu"])
def device(request):
    return request.param


@pytest.fixture(autouse=True)
def fixed_seed():
    # Tests of the tools must run where flambeau does not import, so it is not imported here.
    if "flambeau" in sys.modules:
        sys.modules["flambeau"].manual_seed(0)
