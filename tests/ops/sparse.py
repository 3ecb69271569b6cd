"""Test rows of ops/sparse.toml; references get sparse tensors as dense arrays. More is in tests/python/test_sparse.py."""

import numpy as np

from tests.ops.rows import FLOATS, HALVES, Op, S, Sparse, V, error

MATRIX = Sparse([[0.0, 2.0, 0.0], [3.0, 0.0, -1.0]])
STRIDED = error((2, 3), type=RuntimeError, match="got (a strided one|strided)")


def placed(indices, values, size=None, is_coalesced=False):
    sizes = list(size) if size else [*(i.max() + 1 for i in indices), *values.shape[1:]]
    dense = np.zeros(sizes)
    np.add.at(dense, tuple(np.asarray(i, int) for i in indices), values)
    return dense


def lines(starts, others, values, size, by_columns):
    dense = np.zeros((len(starts) - 1, int(max(others)) + 1))
    for i in range(len(starts) - 1):
        for k in range(starts[i], starts[i + 1]):
            dense[i, others[k]] += values[k]
    return dense.T if by_columns else dense


def reduced(a, b, reduce):
    """Only the elements of a that are not zero count."""
    terms = a[:, :, None] * b[None]
    kept = np.broadcast_to((a != 0)[:, :, None], terms.shape)
    if reduce == "sum":
        return terms.sum(1)
    if reduce == "mean":
        return terms.sum(1) / np.maximum(kept.sum(1), 1)
    low = np.where(kept, terms, -np.inf if reduce == "amax" else np.inf)
    return low.max(1) if reduce == "amax" else low.min(1)


def looked_at(name, ref, *more, errors=(STRIDED,)):
    """What is known of a sparse tensor."""
    return Op(name, [S(MATRIX), *more], ref, FLOATS, grad=False, meta=False, errors=list(errors))


def dense_to_sparse(name, *samples, errors=()):
    return Op(
        name,
        [S((3, 4)), S((2, 3), strided_=True), *samples],
        lambda a, *_, **__: a,
        FLOATS,
        exact=True,
        second=False,
        errors=list(errors),
    )


def of_csr(name):
    return Op(
        name,
        [],
        errors=[
            error((2, 3), type=RuntimeError, match="got strided"),
            error(MATRIX, type=RuntimeError, match="got sparse_coo"),
        ],
    )


OPS = [
    looked_at("_indices", lambda a: np.stack(np.nonzero(a))),
    looked_at("_nnz", np.count_nonzero),
    Op(
        "_sparse_compressed",
        [
            S(V([0, 1, 3]), V([1, 0, 2]), (3,), None, False),
            S(V([0, 1, 3]), V([1, 0, 2]), (3,), None, True),
        ],
        lines,
        FLOATS,
        second=False,
        errors=[
            error(V([0, 2, 1]), V([1]), (1,), None, False, type=RuntimeError, match="rise from 0"),
            error(V([0, 1]), V([4]), (1,), [1, 2], False, type=RuntimeError, match="got 4"),
            error(V([0, 1]), V([-1]), (1,), None, False, type=RuntimeError, match="got -1"),
            error(V([0, 1]), V([1]), (1,), [2, 2], False, type=RuntimeError, match="got size"),
        ],
    ),
    Op(
        "_sparse_coo",
        [
            S(V([[0, 2, 2]]), (3,)),
            S(V([[0, 1], [1, 0]]), (2, 2)),
            S(V([[0, 1], [1, 0]]), (2,), [3, 4]),
        ],
        placed,
        FLOATS,
        second=False,
        errors=[
            error(V([[0, 3]]), (2,), [3], type=RuntimeError, match=r"in \[0, 3\), got 3"),
            error(V([[-1]]), (1,), type=RuntimeError, match="got -1"),
            error(V([[0, 1]]), (3,), type=RuntimeError, match=r"\(1, 2\) and \(3,\)"),
            error(V([[0, 1]]), (2,), [2, 2], type=RuntimeError, match=r"got \(2, 2\)"),
            error(V([[0.5]]), (1,), type=RuntimeError, match="integers"),
        ],
    ),
    Op(
        "_sparse_mm_reduce",
        [S(MATRIX, (3, 2), r) for r in ("sum", "mean", "amax", "amin")],
        reduced,
        FLOATS + HALVES,
        meta=False,
        errors=[
            error(MATRIX, (3, 2), "prod", type=RuntimeError, match="got 'prod'"),
            error(MATRIX, (2, 2), "sum", type=RuntimeError, match=r"\(2, 3\) @ \(2, 2\)"),
            error((2, 3), (3, 2), "sum", type=RuntimeError, match="got a strided one"),
        ],
    ),
    looked_at("_values", lambda a: a[np.nonzero(a)]),
    of_csr("ccol_indices"),
    looked_at("coalesce", lambda a: a),
    of_csr("col_indices"),
    of_csr("crow_indices"),
    looked_at("dense_dim", lambda a: 0, errors=()),
    looked_at("indices", lambda a: np.stack(np.nonzero(a))),
    looked_at("is_coalesced", lambda a: True),
    of_csr("row_indices"),
    looked_at("sparse_dim", lambda a: 2, errors=()),
    Op(
        "sparse_mask",
        [S((2, 3), MATRIX)],
        lambda a, mask: a * (mask != 0),
        FLOATS,
        exact=True,
        meta=False,
        second=False,
        errors=[
            error((2, 3), (2, 3), type=RuntimeError, match="got a strided one"),
            error((3, 3), MATRIX, type=RuntimeError, match=r"\(3, 3\) and \(2, 3\)"),
        ],
    ),
    Op(
        "sparse_sampled_addmm",
        [S(MATRIX, (2, 4), (4, 3)), S(MATRIX, (2, 1), (1, 3), beta=0.5, alpha=2)],
        lambda c, a, b, beta=1, alpha=1: beta * c + alpha * (a @ b) * (c != 0),
        FLOATS,
        meta=False,
        errors=[
            error(MATRIX, (2, 4), (4, 2), type=RuntimeError, match=r"does not have the shape"),
            error((2, 3), (2, 4), (4, 3), type=RuntimeError, match="got a strided one"),
        ],
    ),
    Op("to_dense", [S((3, 4)), S(MATRIX)], lambda a: a, FLOATS, exact=True, meta=False),
    dense_to_sparse(
        "to_sparse",
        S((2, 3), 1),
        errors=[
            error((2, 3), 3, type=RuntimeError, match=r"in \[0, 2\], got 3"),
            error((2, 2), blocksize=[1, 1], type=NotImplementedError, match="blocks"),
        ],
    ),
    dense_to_sparse("to_sparse_csc", errors=[error((2,), type=RuntimeError, match=r"got shape")]),
    dense_to_sparse("to_sparse_csr", errors=[error((2,), type=RuntimeError, match=r"got shape")]),
    looked_at("values", lambda a: a[np.nonzero(a)]),
]
