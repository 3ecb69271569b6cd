"""Numbers at the ends of int64, and tensors without channels: a result or an error, never a number that wrapped around."""

import pytest

import flambeau as torch

MOST, LEAST, HALF = 2**63 - 1, -(2**63), 2**62
X = torch.arange(6.0).view(2, 3)
F = torch.nn.functional


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.zeros(2).resize_(2**32, 2**32),
        lambda: torch.zeros(2).resize_(2**32, 2**31, 4, 4, memory_format=torch.channels_last),
        lambda: torch.zeros(1, 1).expand(HALF, 4),
        lambda: torch.empty_permuted((HALF, HALF), (1, 0)),
        lambda: X.unflatten(1, (HALF, 4, 3)),
        lambda: X.split([HALF, HALF, HALF, HALF, 3], 1),
        lambda: X.narrow(1, 1, MOST),
        lambda: X.repeat(HALF, 4),
        lambda: X.repeat_interleave(MOST, 0),
        lambda: X.repeat_interleave(torch.tensor([MOST, MOST]), 0),
        lambda: torch.diag(X[0], MOST),
        lambda: torch.diag(X[0], LEAST),
        lambda: F.pad(X, (MOST, MOST)),
        lambda: F.fold(X[None], (MOST, MOST), (1, 1)),
        lambda: F.max_unpool1d(X, torch.zeros(2, 3, dtype=torch.int64), 1, output_size=(MOST,)),
        lambda: torch.histogram(X, MOST),
        lambda: torch.as_strided(X, (LEAST, 2), (1, 1)),
        lambda: torch.triu_indices(MOST, MOST, 1),
        lambda: torch._permutation(torch.tensor([1, 2, 1, 2], dtype=torch.int32), 2),
    ],
)
def test_sizes_that_no_memory_holds_are_refused(call):
    before = X.tolist()
    with pytest.raises((RuntimeError, IndexError, ValueError, MemoryError)):
        call()
    assert X.tolist() == before


def test_large_steps_offsets_and_counts_that_make_sense():
    assert X[:, ::HALF].tolist() == [[0], [3]]
    assert [t.tolist() for t in X.chunk(MOST, 1)] == [[[0], [3]], [[1], [4]], [[2], [5]]]
    assert X.unfold(1, 2, MOST).tolist() == [[[0, 1]], [[3, 4]]]
    assert torch.tril(X, MOST).tolist() == X.tolist() == torch.triu(X, LEAST).tolist()
    assert torch.tril(X, LEAST).tolist() == torch.triu(X, MOST).tolist() == [[0, 0, 0]] * 2
    assert torch.roll(X, (MOST, MOST, 2), (1, 1, 1)).tolist() == torch.roll(X, 1, 1).tolist()
    assert torch.roll(X, LEAST).tolist() == torch.roll(X, LEAST % 6).tolist()
    assert torch.triu_indices(MOST, 1, 0).tolist() == [[0], [0]]


def test_sums_and_products_of_integers_wrap_around():
    x = torch.tensor([MOST, 1, 2])
    assert x.sum().item() == LEAST + 2 and x.cumsum(0).tolist() == [MOST, LEAST, LEAST + 2]
    assert x.prod().item() == -2 and x.cumprod(0).tolist() == [MOST, MOST, -2]
    assert torch.tensor([LEAST]).tolist() == [LEAST]
    with pytest.raises((RuntimeError, TypeError), match="uint8"):
        torch.tensor([LEAST], dtype=torch.uint8)


def test_polynomials_of_degrees_that_leave_int64_when_doubled():
    ends = torch.tensor([1.0, -1.0], dtype=torch.float64)
    degree = torch.tensor(float(HALF), dtype=torch.float64)
    v = torch.special.chebyshev_polynomial_v(ends, degree)
    w = torch.special.chebyshev_polynomial_w(ends, degree)
    assert v.tolist() == [1, 2.0**63] and w.tolist() == [2.0**63, 1]


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_convolutions_of_no_channels_give_the_bias(dims):
    sizes = (4,) * dims
    bias = torch.tensor([1.0, 2.0], requires_grad=True)
    for name, weight in (("conv", (2, 0)), ("conv_transpose", (0, 2))):
        x = torch.zeros(1, 0, *sizes, requires_grad=True)
        w = torch.zeros(*weight, *(3,) * dims, requires_grad=True)
        y = getattr(F, f"{name}{dims}d")(x, w, bias)
        assert y.amax(tuple(range(2, 2 + dims))).tolist() == [[1, 2]] and y.min().item() == 1
        grads = torch.autograd.grad(y.sum(), (x, w, bias))
        assert grads[0].shape == x.shape and grads[1].shape == w.shape
        assert grads[2].tolist() == [y.numel() / 2] * 2


def test_no_combinations_of_more_elements_than_there_are():
    assert torch.combinations(torch.tensor([1, 2]), 3).shape == (0, 3)
