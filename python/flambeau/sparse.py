"""Sparse tensors: how they are made, and the functions of torch.sparse.

A sparse tensor is made of strided ones, which the tape sees instead of it: the gradient of a sparse tensor is that of
its values.
"""

from flambeau import _C, _legacy

__all__ = ["addmm", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags", "sum"]
_ops = _C._VariableFunctions

sampled_addmm = _C._sparse.sparse_sampled_addmm


def _made(tensor, requires_grad):
    return tensor.requires_grad_() if requires_grad else tensor


def sparse_coo_tensor(
    indices,
    values=None,
    size=None,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=None,
    requires_grad=False,
    check_invariants=None,
    is_coalesced=None,
):
    """A tensor with the given values at the given indices and zeros elsewhere; equal indices add up.

    Shape:   indices (sparse dims, n), values (n, *) -> size, by default the smallest that holds all indices. With one
             argument it is the size of a tensor of zeros.
    Raises:  RuntimeError unless the indices fit the values and the size.
    Example:
        >>> flambeau.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3)).to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 5.]])
    """
    if values is None:
        size = indices
        indices, values = _ops.zeros(len(size), 0, dtype=_C.int64), _ops.zeros(0, dtype=dtype)
    values = _C.as_tensor(values, dtype=dtype, device=device)
    indices = _C.as_tensor(indices, device=device or values.device)
    if indices.numel() == 0 and indices.dtype.is_floating_point:
        indices = indices.long()
    if values.dim() == 0 and indices.dim() == 2:
        values = values.expand(indices.size(1))
    return _made(_ops._sparse_coo(indices, values, size, bool(is_coalesced)), requires_grad)


def sparse_compressed_tensor(
    compressed_indices,
    plain_indices,
    values,
    size=None,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=None,
    requires_grad=False,
    check_invariants=None,
):
    """A matrix in compressed rows (layout sparse_csr) or columns (sparse_csc).

    Shape:   (lines + 1,), (n,), (n,) -> size.
    Raises:  RuntimeError unless the indices fit each other and the size; NotImplementedError for blocks and batches.
    Example:
        >>> flambeau.sparse_compressed_tensor(
        ...     [0, 1, 2], [1, 0], [2.0, 3.0], layout=flambeau.sparse_csr
        ... ).to_dense()
        tensor([[0., 2.],
                [3., 0.]])
    """
    if layout not in (_C.sparse_csr, _C.sparse_csc):
        raise NotImplementedError(
            f"sparse_compressed_tensor: layout must be sparse_csr or sparse_csc, got {layout}"
        )
    values = _C.as_tensor(values, dtype=dtype, device=device)
    lines, others = (
        _C.as_tensor(x, device=device or values.device) for x in (compressed_indices, plain_indices)
    )
    made = _ops._sparse_compressed(lines, others, values, size, layout is _C.sparse_csc)
    return _made(made, requires_grad)


def sparse_csr_tensor(crow_indices, col_indices, values, size=None, **kwargs):
    """A matrix in compressed rows: where each row starts, the column of each value, and the values.

    Keywords, shapes and errors are those of sparse_compressed_tensor.

    Example:
        >>> flambeau.sparse_csr_tensor([0, 1, 2], [1, 0], [2.0, 3.0]).to_dense()
        tensor([[0., 2.],
                [3., 0.]])
    """
    kwargs["layout"] = _C.sparse_csr
    return sparse_compressed_tensor(crow_indices, col_indices, values, size, **kwargs)


def sparse_csc_tensor(ccol_indices, row_indices, values, size=None, **kwargs):
    """A matrix in compressed columns: where each column starts, the row of each value, and the values.

    Keywords, shapes and errors are those of sparse_compressed_tensor.

    Example:
        >>> flambeau.sparse_csc_tensor([0, 1, 2], [1, 0], [2.0, 3.0]).to_dense()
        tensor([[0., 3.],
                [2., 0.]])
    """
    kwargs["layout"] = _C.sparse_csc
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size, **kwargs)


def mm(sparse, dense, reduce=None):
    """The product of two matrices of which one is sparse; `reduce` says how the terms of an element are joined.

    Shape:   (n, m), (m, k) -> (n, k); of two sparse matrices sparse, else dense.
    Args:    reduce is "sum", "mean", "amax" or "amin".
    Raises:  RuntimeError unless sizes and dtypes fit.
    Example:
        >>> flambeau.sparse.mm(flambeau.eye(2).to_sparse(), flambeau.tensor([[1.0], [2.0]]))
        tensor([[1.],
                [2.]])
    """
    return (
        _ops.mm(sparse, dense) if reduce is None else _ops._sparse_mm_reduce(sparse, dense, reduce)
    )


def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """beta * input + alpha * (mat1 @ mat2) where mat1 or mat2 is sparse.

    Shape:   input (n, k), mat1 (n, m), mat2 (m, k) -> (n, k).
    Example:
        >>> one = flambeau.ones(1, 1)
        >>> flambeau.sparse.addmm(one, one.to_sparse(), one)
        tensor([[2.]])
    """
    return _ops.addmm(input, mat1, mat2, beta=beta, alpha=alpha)


def sum(input, dim=None, dtype=None):
    """The sum of a sparse tensor: of all elements, or over dims; sparse while sparse dims are left.

    Shape:   without the summed dims.
    Example:
        >>> flambeau.sparse.sum(flambeau.eye(2).to_sparse())
        tensor(2.)
    """
    if dim is None:
        return _ops.sum(input, dtype=dtype)
    return _ops.sum(input, dim, dtype=dtype)


def _rows_along(input, dim):
    """For each element of a coalesced tensor the number of its line along `dim`, and how many lines there are."""
    dim = dim % input.dim()
    if dim >= input.sparse_dim():
        raise NotImplementedError(f"sparse softmax: dim must be sparse, got {dim}")
    line, count = _ops.zeros(input._nnz(), dtype=_C.int64), 1
    for d, index in enumerate(input.indices()):
        if d != dim:
            line, count = line * input.size(d) + index, count * input.size(d)
    return line, count


def log_softmax(input, dim, dtype=None):
    """log(softmax) along a sparse dim over the elements that a sparse tensor has; absent ones count as -inf.

    Shape:   same as input.
    Raises:  NotImplementedError for a dense dim.
    Example:
        >>> x = flambeau.tensor([[0.0, 3.0, 3.0]]).to_sparse()
        >>> flambeau.sparse.log_softmax(x, 1).values()
        tensor([-0.6931, -0.6931])
    """
    x = input.coalesce()
    values = x.values() if dtype is None else x.values().to(dtype)
    line, count = _rows_along(x, dim)
    base = _ops.zeros(count, *values.shape[1:], dtype=values.dtype)
    largest = base.index_reduce(0, line, values.detach(), "amax", include_self=False)
    shifted = values - largest[line]
    total = _ops.zeros_like(largest).index_add(0, line, shifted.exp())
    return _with_values(x, shifted - total.log()[line])


def softmax(input, dim, dtype=None):
    """softmax along a sparse dim over the elements that a sparse tensor has; absent ones count as -inf.

    Shape:   same as input.
    Raises:  NotImplementedError for a dense dim.
    Example:
        >>> x = flambeau.tensor([[0.0, 3.0, 3.0]]).to_sparse()
        >>> flambeau.sparse.softmax(x, 1).to_dense()
        tensor([[0.0000, 0.5000, 0.5000]])
    """
    logs = log_softmax(input, dim, dtype)
    return _with_values(logs, logs.values().exp())


def _with_values(x, values):
    return _ops._sparse_coo(x.indices(), values, x.shape, True)


def spdiags(diagonals, offsets, shape, layout=None):
    """A sparse matrix with the rows of `diagonals` along its diagonals; offsets above zero lie above the main one.

    Shape:   diagonals (k, n) or (n,), offsets (k,) or () -> shape. Element j of a row goes to column j.
    Raises:  ValueError for a shape that is no matrix's or offsets that repeat.
    Example:
        >>> ones = flambeau.ones(1, 3)
        >>> flambeau.sparse.spdiags(ones, flambeau.tensor([1]), (3, 3)).to_dense()
        tensor([[0., 1., 0.],
                [0., 0., 1.],
                [0., 0., 0.]])
    """
    rows, shifts = diagonals.reshape(-1, diagonals.size(-1)), offsets.reshape(-1)
    if len(shape) != 2 or len(rows) != len(shifts) or len(set(shifts.tolist())) != len(shifts):
        raise ValueError(
            f"spdiags: a matrix's shape and one offset for each diagonal, all different, are needed, got "
            f"{tuple(shape)} and {shifts.tolist()} for {len(rows)}"
        )
    columns = _ops.arange(rows.size(1)).expand(rows.shape)
    at = columns - shifts.unsqueeze(1)
    inside = (at >= 0) & (at < shape[0]) & (columns < shape[1])
    indices = _ops.stack([at[inside], columns[inside]])
    made = _ops._sparse_coo(indices, rows[inside], shape).coalesce()
    return made if layout is None else made.to_sparse(layout=layout)


class _sparsetype(_legacy.tensortype):
    """The class of the old constructors: torch.sparse.FloatTensor(indices, values, size)."""

    def __call__(cls, *args, device=None):
        if args and not all(isinstance(a, int) for a in args):
            return sparse_coo_tensor(*args, dtype=cls.dtype, device=device)
        return sparse_coo_tensor(args, dtype=cls.dtype, device=device)

    def __instancecheck__(cls, instance):
        return (
            isinstance(instance, _C.Tensor) and instance.is_sparse and instance.dtype is cls.dtype
        )

    def __repr__(cls):
        return f"<class 'torch.sparse.{cls.__name__}'>"


globals().update(
    (name, _sparsetype(name, (), {"dtype": t.dtype, "is_cuda": False, "__module__": __name__}))
    for name, t in _legacy.TENSOR_TYPES.items()
    if not name.startswith(("Complex", "Bool"))
)
