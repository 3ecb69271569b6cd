"""Bad and odd input: every row is called with each argument changed in every way we know. Python survives, and says why."""

import pytest

import flambeau as fl
from tests.fuzz import all_changes, call, forms, function_of, little_memory, with_outs
from tests.ops import all_rows

SAMPLES = 3  # of each row: the first ones differ most


@pytest.fixture(autouse=True, scope="module")
def small_results():
    with little_memory():
        yield


@pytest.mark.parametrize("op", all_rows(), ids=lambda op: op.name)
def test_odd_arguments(op):
    wrong = []
    for sample in op.samples[:SAMPLES]:

        def make(sample=sample):
            return sample.make(fl, op.dtypes[0])

        for text, args, kwargs in all_changes(make):
            for form, f in enumerate(forms(op, (args, kwargs))):
                fault = call(f, args, kwargs, backward=form == 0)
                if fault:
                    wrong.append(f"{sample} {text}, form {form}: {fault}")
        for args, kwargs in with_outs(make()):
            fault = call(function_of(op.name), args, kwargs)
            if fault:
                wrong.append(f"{sample} out={kwargs['out'].shape}: {fault}")
    assert not wrong, "\n".join(wrong[:20])
