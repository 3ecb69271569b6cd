"""vmap over every test row: one call with an example per row equals the calls one by one, stacked."""

from pathlib import Path

import numpy as np
import pytest

import flambeau as fl
from flambeau import _C
from flambeau.func import vmap
from tests.ops import all_rows
from tests.test_ops import function_of, to_numpy
from tools.opgen.table import read_rows

SIZE = 3


def is_tensor(x):
    return isinstance(x, fl.Tensor)


def spread(x):
    """Examples that differ, of the same kind."""
    if x.dtype.is_floating_point or x.dtype.is_complex:
        return fl.stack([x, x * 0.5, x * 0.75])
    if x.dim() and x.size(-1) > 1 and x.dtype != fl.bool:
        return fl.stack([x, x.flip(-1), x.roll(1, -1)])
    return fl.stack([x, x, x])


def flat(value):
    """Every tensor among arguments, and what puts others in their places."""
    if is_tensor(value):
        return [value], lambda it: next(it)
    if isinstance(value, list) and value and all(is_tensor(v) for v in value):
        return list(value), lambda it: [next(it) for _ in value]
    return [], lambda it, v=value: v


def tensors_in(result):
    if is_tensor(result):
        return [result]
    return [t for r in result for t in tensors_in(r)] if isinstance(result, (list, tuple)) else []


def compare(op, sample, dtype, first_only):
    f = function_of(op.name)
    args, kwargs = sample.make(fl, dtype)
    parts = [flat(a) for a in [*args, *kwargs.values()]]
    tensors = [t for found, _ in parts for t in found]
    mapped = [i < 1 or not first_only for i in range(len(tensors))]

    def call(*tensors):
        it = iter(tensors)
        values = [build(it) for _, build in parts]
        named = dict(zip(kwargs, values[len(args) :]))
        return tuple(tensors_in(f(*values[: len(args)], **named)))

    batched = [spread(t) if m else t for t, m in zip(tensors, mapped)]
    expected = []
    for i in range(SIZE):
        expected.append(call(*[t[i].clone() if m else t.clone() for t, m in zip(batched, mapped)]))
    dims = tuple(0 if m else None for m in mapped)
    found = vmap(call, in_dims=dims, randomness="different")(*[t.clone() for t in batched])
    assert len(found) == len(expected[0])
    for k, got in enumerate(found):
        want = fl.stack([row[k] for row in expected])
        assert got.dtype == want.dtype and got.shape == want.shape, f"{op.name}(*{sample})"
        tolerance = 1e-9 if dtype == "float64" else 1e-5
        np.testing.assert_allclose(to_numpy(got), to_numpy(want), rtol=tolerance, atol=tolerance)


# The result's size or kind would depend on the values of each example.
DEPENDS_ON_VALUES = """allclose equal argwhere masked_select nonzero nonzero_numpy _unique2
unique_consecutive unique_dim""".split()
WITHOUT_FORM = """resize_ resize_as_ set_ embedding_renorm_ fill_diagonal_ _sparse_coo to_sparse
to_sparse_csc to_sparse_csr""".split()
DRAWS = "bernoulli bernoulli_ binomial".split()
FITTING = ["_sparse_compressed"]  # its indices fit each other, and no longer once they are spread
# Their other arguments are lengths or offsets, which `spread` would make nonsense of.
FIRST_ONLY = """embedding_bag _resample _pack_padded_sequence _pad_packed_sequence repeat_interleave gru
lstm rnn_relu rnn_tanh""".split()
# Ops that run once per example, some only with rare arguments.
LOOPED = set(
    """_bag_max_rows _cross_entropy _ctc_loss _nll_loss _pack_padded_sequence _pad_packed_sequence
    as_strided_scatter bincount bucketize ctc_loss embedding embedding_bag embedding_dense_backward
    feature_alpha_dropout_ feature_dropout_ histc histogram index_reduce isin masked_scatter
    multinomial nonzero_static put searchsorted _pseudo_inverse cholesky_inverse cholesky_solve
    hash_tensor _recurrent_layer""".split()
)


def cases(kinds=("all", "first")):
    out = []
    for op in all_rows():
        if op.random or not op.samples or op.name in DRAWS + FITTING:
            continue
        dtype = "float64" if "float64" in op.dtypes else op.dtypes[0]
        samples = op.samples[:1] if op.name in DEPENDS_ON_VALUES else op.samples
        for i, sample in enumerate(samples):
            args, kwargs = sample.make(fl, dtype)
            if any(t.layout != fl.strided for t in args if isinstance(t, fl.Tensor)):
                continue  # nothing stacks sparse tensors
            if any(flat(a)[0] for a in [*args, *kwargs.values()]):
                for kind in kinds:
                    if kind == "first" or op.name not in FIRST_ONLY:
                        out.append(
                            pytest.param(op, sample, dtype, kind, id=f"{op.name}-{i}-{kind}")
                        )
    return out


@pytest.mark.parametrize("op, sample, dtype, kind", cases())
def test_equals_a_loop(op, sample, dtype, kind):
    _C._vmap_loops()
    if op.name in DEPENDS_ON_VALUES:
        with pytest.raises(RuntimeError, match="inside vmap"):
            compare(op, sample, dtype, kind == "first")
    elif op.name in WITHOUT_FORM:
        with pytest.raises(NotImplementedError):
            compare(op, sample, dtype, kind == "first")
    else:
        compare(op, sample, dtype, kind == "first")
        assert set(_C._vmap_loops()) <= LOOPED


def leaves():
    rows = read_rows(Path(__file__).parents[2] / "flambeau" / "ops")
    return [row.key for row in rows if row.kind == "composite" and row.fields.get("grad")]


@pytest.mark.parametrize("key", leaves())
def test_composite_with_a_derivative_has_a_rule(key):
    """Its body reads memory; without a rule vmap would take it apart."""
    assert _C._vmap_has_rule(key.split(".")[0])
