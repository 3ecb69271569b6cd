"""What every test may ask for: the device it runs on, and the same random numbers each time."""

import sys

import pytest


@pytest.fixture(params=["cpu"])
def device(request):
    return request.param


@pytest.fixture(autouse=True)
def fixed_seed():
    # Tests of the tools must run where flambeau does not import, so it is not imported here.
    if "flambeau" in sys.modules:
        sys.modules["flambeau"].manual_seed(0)
