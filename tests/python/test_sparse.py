"""Sparse tensors: making, looking, layouts, arithmetic, gradients, and what has no sparse form."""

import copy
import io

import numpy as np
import pytest

import flambeau as torch

DENSE = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, -1.0]])
LAYOUTS = ["sparse_coo", "sparse_csr", "sparse_csc"]


def uncoalesced(dtype=torch.float32):
    return torch.sparse_coo_tensor([[1, 0, 1], [2, 1, 2]], [1.0, 2.0, 4.0], (2, 3), dtype=dtype)


def in_layout(dense, layout):
    return dense.to_sparse(layout=getattr(torch, layout))


def same(sparse, dense):
    assert sparse.layout != torch.strided
    assert sparse.shape == dense.shape and sparse.dtype == dense.dtype
    assert torch.equal(sparse.to_dense(), dense)


def close(a, b, tolerance=1e-6):
    assert a.shape == b.shape and torch.allclose(a, b, rtol=tolerance, atol=tolerance)


def test_coo_from_lists():
    x = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3, 4, 5], (2, 4))
    assert x.is_sparse and x.layout == torch.sparse_coo and not x.is_coalesced()
    assert (x.dtype, x.shape, x.device.type) == (torch.int64, (2, 4), "cpu")
    assert (x._nnz(), x.sparse_dim(), x.dense_dim()) == (3, 2, 0)
    assert x.to_dense().tolist() == [[0, 0, 3, 0], [4, 0, 5, 0]]
    assert torch.sparse_coo_tensor((2, 3)).to_dense().tolist() == [[0.0] * 3] * 2
    assert torch.sparse.FloatTensor(
        torch.tensor([[1]]), torch.tensor([2.0])
    ).to_dense().tolist() == [0, 2]


def test_values_with_dense_dims():
    x = torch.sparse_coo_tensor([[2, 0]], torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert x.shape == (3, 2) and x.dense_dim() == 1
    assert x.to_dense().tolist() == [[3, 4], [0, 0], [1, 2]]
    assert x.coalesce().indices().tolist() == [[0, 2]]


def test_coalesce_adds_up():
    x = uncoalesced()
    with pytest.raises(RuntimeError, match="3 uncoalesced"):
        x.values()
    y = x.coalesce()
    assert y.is_coalesced() and y.indices().tolist() == [[0, 1], [1, 2]]
    assert y.values().tolist() == [2, 5] and y.coalesce() is y
    twice = torch.sparse_coo_tensor([[0, 0]], [True, True])
    assert twice.coalesce().values().tolist() == [True]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_keep_the_elements(layout):
    x = in_layout(DENSE, layout)
    assert str(x.layout) == f"torch.{layout}"
    same(x, DENSE)
    same(x.t(), DENSE.t())
    for other in LAYOUTS:
        y = x.to_sparse(layout=getattr(torch, other))
        assert y.layout == getattr(torch, other)
        same(y, DENSE)
    for make, part in ((io.BytesIO(), None),):
        torch.save(x, make)
        make.seek(0)
        again = torch.load(make)
        assert again.layout == x.layout and part is None
        same(again, DENSE)
    same(copy.deepcopy(x), DENSE)
    same(x.double(), DENSE.double())
    same(x.detach().clone(), DENSE)


def test_compressed_parts():
    rows = DENSE.to_sparse_csr()
    assert rows.is_sparse_csr and rows.crow_indices().tolist() == [0, 1, 3]
    assert rows.col_indices().tolist() == [1, 0, 2] and rows.values().tolist() == [2, 3, -1]
    columns = DENSE.to_sparse_csc()
    assert columns.ccol_indices().tolist() == [0, 1, 2, 3]
    assert columns.row_indices().tolist() == [1, 0, 1]
    same(torch.sparse_csr_tensor([0, 1, 3], [1, 0, 2], [2.0, 3.0, -1.0], (2, 3)), DENSE)
    same(torch.sparse_csc_tensor([0, 1, 2, 3], [1, 0, 1], [3.0, 2.0, -1.0]), DENSE)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arithmetic(layout):
    x, d = in_layout(DENSE, layout), torch.arange(6.0).reshape(2, 3) + 1
    same(x + x, 2 * DENSE)
    same(x - x, 0 * DENSE)
    same(x * 3, 3 * DENSE)
    same(2 * x / 4, DENSE / 2)
    same(x * d, DENSE * d)
    same(d * x, DENSE * d)
    same(x * x, DENSE * DENSE)
    same(-x.abs(), -DENSE.abs())
    same(x**2, DENSE**2)
    assert torch.equal(d + x, d + DENSE) and torch.equal(x + d, d + DENSE)
    assert torch.equal(d - x, d - DENSE)
    assert torch.equal(d.clone().add_(x, alpha=0.5), d + DENSE / 2)
    assert torch.equal(d.t().clone().t().add_(x), d + DENSE)
    assert x.sum().item() == 4 and x.norm().item() == pytest.approx(14**0.5)


def test_in_place():
    x = uncoalesced()
    x.mul_(2)
    same(x, torch.tensor([[0.0, 4.0, 0.0], [0.0, 0.0, 10.0]]))
    x.add_(DENSE.to_sparse(), alpha=2)
    same(x, torch.tensor([[0.0, 8.0, 0.0], [6.0, 0.0, 8.0]]))
    version = x._version
    x.zero_()
    same(x, 0 * DENSE)
    assert x._version > version and x._nnz() == 0


def test_sums_products_of_uncoalesced():
    x, d = uncoalesced(), torch.arange(6.0).reshape(2, 3)
    dense = x.to_dense()
    same(x * d, dense * d)
    same(x.sqrt(), dense.sqrt())
    same(x.sum(0), dense.sum(0))
    same(torch.sparse.sum(x, 1), dense.sum(1))
    assert torch.sparse.sum(x, (0, 1)).item() == 7
    same(torch.cat([x, x], 1), torch.cat([dense, dense], 1))
    same(x[1], dense[1])
    same(x.transpose(0, 1), dense.t())


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128, torch.int64], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products(layout, dtype):
    a = (DENSE * 2).to(dtype)
    x, b, v = (
        in_layout(a, layout),
        torch.arange(6).reshape(3, 2).to(dtype),
        torch.arange(3).to(dtype),
    )
    assert torch.equal(x @ b, a @ b)
    assert torch.equal(torch.sparse.mm(x, b), a @ b)
    assert torch.equal(x @ v, a @ v)
    assert torch.equal(b.t() @ x.t(), b.t() @ a.t())
    assert torch.equal(torch.addmm(a @ b, x, b, beta=2, alpha=3), 5 * (a @ b))
    product = x @ in_layout(a.t(), layout)
    assert product.layout == x.layout
    same(product, a @ a.t())


def test_half_products_are_summed_in_float():
    a = torch.ones(1, 4096, dtype=torch.bfloat16)
    assert (a.to_sparse() @ a.t()).item() == 4096


def test_reduced_products():
    x, b = DENSE.to_sparse_csr(), torch.arange(6.0).reshape(3, 2)
    assert torch.sparse.mm(x, b, "amax").tolist() == [[4, 6], [0, 3]]
    assert torch.sparse.mm(x, b, "amin").tolist() == [[4, 6], [-4, -5]]
    assert torch.sparse.mm(x, b, "mean").tolist() == [[4, 6], [-2, -1]]
    empty = torch.zeros(2, 3).to_sparse_csr()
    assert torch.sparse.mm(empty, b, "amax").tolist() == [[0, 0], [0, 0]]


def test_softmax_over_what_is_there():
    x = DENSE.to_sparse()
    rows = torch.sparse.softmax(x, 1).to_dense()
    assert rows[0].tolist() == [0, 1, 0]
    close(rows[1], torch.tensor([0.9820, 0.0, 0.0180]), 1e-4)
    close(torch.sparse.log_softmax(x, 0).to_dense(), 0 * DENSE)


def test_diagonals():
    x = torch.sparse.spdiags(
        torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), torch.tensor([0, -1]), (3, 3)
    )
    assert x.to_dense().tolist() == [[1, 0, 0], [4, 2, 0], [0, 5, 3]]
    with pytest.raises(ValueError, match=r"\[1, 1\] for 2"):
        torch.sparse.spdiags(torch.ones(2, 3), torch.tensor([1, 1]), (3, 3))


# ---- gradients ----


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_gradient_of_a_sparse_leaf_is_sparse(layout):
    x = in_layout(DENSE.double(), layout).requires_grad_()
    b = torch.arange(6.0).double().reshape(3, 2).requires_grad_()
    assert x.requires_grad and x.is_leaf
    (x @ b).sum().backward()
    mask = (DENSE != 0).double()
    same(x.grad, mask * (torch.ones(2, 2).double() @ b.t()).detach())
    assert x.grad.layout == x.layout
    assert torch.equal(b.grad, DENSE.double().t() @ torch.ones(2, 2).double())
    (again,) = torch.autograd.grad((x * 2).to_dense().sum(), x)
    same(again, 2 * mask)
    x.grad = None
    assert x.grad is None


def test_values_of_a_sparse_tensor_carry_history():
    values = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
    x = torch.sparse_coo_tensor([[1, 0, 1], [2, 1, 2]], values, (2, 3))
    assert x.requires_grad
    (x.coalesce().values() ** 2).sum().backward()
    assert values.grad.tolist() == [10, 4, 10]
    assert not x._values().requires_grad and not x.detach().requires_grad
    d = DENSE.clone().requires_grad_()
    y = d.to_sparse()
    y.backward(torch.full((2, 3), 3.0))
    assert torch.equal(d.grad, 3 * (DENSE != 0))
    dense = DENSE.clone().requires_grad_()
    dense.sparse_mask(uncoalesced().coalesce()).values().sum().backward()
    assert dense.grad.tolist() == [[0, 1, 0], [0, 0, 1]]


def test_sampled_product_has_gradients():
    c = DENSE.double().to_sparse_csr().requires_grad_()
    a, b = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((2, 4), (4, 3)))
    y = torch.sparse.sampled_addmm(c, a, b, beta=0.5, alpha=2)
    mask = (DENSE != 0).double()
    close(y.detach().to_dense(), 0.5 * DENSE.double() + 2 * mask * (a @ b).detach())
    y.to_dense().sum().backward()
    close(a.grad, 2 * mask @ b.detach().t())
    same(c.grad, 0.5 * mask)


def embedding(padding_idx=None):
    torch.manual_seed(0)
    layer = torch.nn.Embedding(5, 2, sparse=True, padding_idx=padding_idx)
    return layer, torch.tensor([[1, 3], [3, 0]])


def test_embedding_has_a_sparse_gradient():
    layer, rows = embedding(padding_idx=0)
    layer(rows).sum().backward()
    g = layer.weight.grad
    assert g.is_sparse and g._nnz() == 3
    assert g.to_dense()[:, 0].tolist() == [0, 1, 0, 2, 0]
    layer(rows).sum().backward()
    assert layer.weight.grad.to_dense()[3].tolist() == [4, 4]


@pytest.mark.parametrize("name, options", [("SGD", {}), ("Adagrad", {}), ("SparseAdam", {})])
def test_optimizers_take_sparse_gradients(name, options):
    layer, rows = embedding()
    dense = torch.nn.Embedding.from_pretrained(layer.weight.detach().clone(), freeze=False)
    sparse_step = getattr(torch.optim, name)(layer.parameters(), lr=0.1, **options)
    dense_name = "Adam" if name == "SparseAdam" else name
    dense_step = getattr(torch.optim, dense_name)(dense.parameters(), lr=0.1, **options)
    for net, step in ((layer, sparse_step), (dense, dense_step)):
        step.zero_grad()
        net(rows).square().sum().backward()
        step.step()
    close(layer.weight.detach(), dense.weight.detach())


def test_dense_and_sparse_gradients_add_up():
    layer, rows = embedding()
    (layer(rows).sum() + layer.weight.sum()).backward()
    assert not layer.weight.grad.is_sparse
    assert layer.weight.grad[:, 0].tolist() == [2, 2, 1, 3, 1]


# ---- what has no sparse form ----


def test_ops_without_a_sparse_form_say_so():
    x = DENSE.to_sparse()
    with pytest.raises(
        NotImplementedError, match=r"cos: .*layout sparse_coo.* \(2, 3\); use to_dense"
    ):
        x.cos()
    with pytest.raises(NotImplementedError, match="add: "):
        x + 1
    with pytest.raises(NotImplementedError, match="out="):
        torch.mul(x, x, out=torch.empty(0))
    with pytest.raises(NotImplementedError, match="out="):
        torch.add(DENSE, DENSE, out=x)
    for wrong in (
        x.numpy,
        x.tolist,
        x.data_ptr,
        x.untyped_storage,
        lambda: np.asarray(memoryview(x)),
        lambda: x.sum(0).item(),
        lambda: float(DENSE[:1, :1].to_sparse()),
        lambda: torch.utils.dlpack.to_dlpack(x),
    ):
        with pytest.raises(
            (TypeError, BufferError, RuntimeError), match="to_dense|one element|item"
        ):
            wrong()


def test_shapes_do_not_broadcast():
    with pytest.raises(RuntimeError, match=r"\(2, 3\) and \(3,\)"):
        DENSE.to_sparse() + torch.ones(3)
    with pytest.raises(RuntimeError, match=r"\(2, 3\) @ \(2, 3\)"):
        DENSE.to_sparse() @ DENSE


def test_text():
    assert repr(torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))) == (
        "tensor(indices=tensor([[0, 1],\n"
        "                       [2, 0]]),\n"
        "       values=tensor([3., 4.]),\n"
        "       size=(2, 3), nnz=2, layout=torch.sparse_coo)"
    )
    assert repr(DENSE.double().to_sparse_csr().requires_grad_()) == (
        "tensor(crow_indices=tensor([0, 1, 3]),\n"
        "       col_indices=tensor([1, 0, 2]),\n"
        "       values=tensor([ 2.,  3., -1.]),\n"
        "       size=(2, 3), nnz=3, dtype=torch.float64, layout=torch.sparse_csr, requires_grad=True)"
    )


def test_old_methods():
    x = torch.arange(6.0)
    assert x.resize(2, 3).shape == x.resize((2, 3)).shape == x.resize_as(DENSE).shape == (2, 3)
    with pytest.raises(RuntimeError, match=r"\(2, 2\) does not hold the 6"):
        x.resize(2, 2)
    d = torch.tensor([2.0], dtype=torch.float64)
    assert d.float_power_(3).item() == 8
    with pytest.raises(RuntimeError, match="float64, the tensor .*float32"):
        torch.ones(1).float_power_(2)
    assert torch.ones(1).polygamma(1).item() == pytest.approx(1.6449341)
    assert torch.tensor([1, 2]).dequantize().dtype == torch.float32


def test_the_largest_index_has_no_size_above_it():
    far = [2**63 - 1]
    for make in (
        lambda: torch.sparse_coo_tensor([far], [1.0]),
        lambda: torch.sparse_csr_tensor([0, 1], far, [1.0]),
        lambda: torch.sparse_csc_tensor([0, 1], far, [1.0]),
    ):
        with pytest.raises(RuntimeError, match="must be in"):
            make()
