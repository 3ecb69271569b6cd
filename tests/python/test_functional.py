"""torch's Python functions: einsum, meshgrid and friends, against NumPy."""

import pytest

import flambeau as torch

np = pytest.importorskip("numpy")


def data(*shape):
    return torch.tensor(np.random.default_rng(0).normal(size=shape), dtype=torch.float64)


@pytest.mark.parametrize(
    "equation, shapes",
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("ij->ji", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("i,i->", [(3,), (3,)]),
        ("ij,ij->i", [(2, 3), (2, 3)]),
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 5)]),
        ("ij,kl->ik", [(2, 3), (4, 5)]),
        ("iij,jk->ik", [(2, 2, 3), (3, 4)]),
    ],
)
def test_einsum(equation, shapes):
    operands = [data(*s) for s in shapes]
    expected = np.einsum(equation, *[t.numpy() for t in operands])
    result = torch.einsum(equation, *operands)
    assert result.shape == expected.shape
    assert np.allclose(result.numpy(), expected)


def test_einsum_sublists_and_errors():
    a, b = data(2, 3), data(3, 4)
    expected = (a.numpy() @ b.numpy()).tolist()
    assert np.allclose(torch.einsum(a, [0, 1], b, [1, 2], [0, 2]).numpy(), expected)
    for equation in ("ij,jk->iz", "ij->ik", "ijk,jk->ik", "ij,ik->jk"):
        with pytest.raises(RuntimeError):
            torch.einsum(equation, a, b)


def test_tensordot():
    a, b = data(2, 3, 4), data(4, 3, 5)
    expected = np.tensordot(a.numpy(), b.numpy(), ([1, 2], [1, 0]))
    assert np.allclose(torch.tensordot(a, b, dims=([1, 2], [1, 0])).numpy(), expected)
    assert torch.tensordot(data(2, 3), data(3, 4), dims=1).shape == (2, 4)


def test_grids_and_products():
    x, y = torch.tensor([1, 2]), torch.tensor([3, 4, 5])
    for indexing in ("ij", "xy"):
        ours = torch.meshgrid(x, y, indexing=indexing)
        theirs = np.meshgrid(x.numpy(), y.numpy(), indexing=indexing)
        assert [t.tolist() for t in ours] == [t.tolist() for t in theirs]
    assert torch.cartesian_prod(x, y).shape == (6, 2)


def test_shapes():
    assert torch.broadcast_shapes((2, 1), (3,)) == (2, 3)
    a, b = torch.broadcast_tensors(torch.zeros(2, 1), torch.zeros(3))
    assert a.shape == b.shape == (2, 3)
