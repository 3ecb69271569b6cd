"""scaled_dot_product_attention against its formula, where blocks, masks and layouts meet."""

import pytest

import flambeau as fl
from flambeau.nn import functional as F


def formula(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) * q.size(-1) ** -0.5
    if mask is not None and mask.dtype == fl.bool:
        scores = scores.masked_fill(~mask, -float("inf"))
    elif mask is not None:
        scores = scores + mask
    return scores.softmax(-1) @ v


def heads(length, size, heads=3):
    """(2, heads, length, size), laid out as a projection leaves it: heads between the rows."""
    return fl.randn(2, length, heads, size, dtype=fl.float64).transpose(1, 2).requires_grad_()


@pytest.mark.parametrize("rows, cols", [(5, 7), (260, 150), (1, 300), (300, 1)])
@pytest.mark.parametrize("kind", ["none", "causal", "bool", "float"])
def test_values_and_gradients_are_those_of_the_formula(rows, cols, kind):
    fl.manual_seed(rows)
    q, k, v = heads(rows, 8), heads(cols, 8), heads(cols, 6)
    mask = {
        "none": None,
        "causal": fl.ones(rows, cols, dtype=fl.bool).tril(),
        "bool": (fl.rand(rows, cols) > 0.3).index_fill(1, fl.tensor([0]), True),
        "float": fl.randn(3, rows, cols, dtype=fl.float64),
    }[kind]
    options = {"is_causal": True} if kind == "causal" else {"attn_mask": mask}
    got, want = F.scaled_dot_product_attention(q, k, v, **options), formula(q, k, v, mask)
    g = fl.randn(*got.shape, dtype=fl.float64)
    pairs = zip(
        (got, *fl.autograd.grad(got, (q, k, v), g)), (want, *fl.autograd.grad(want, (q, k, v), g))
    )
    assert all((a - b).abs().max().item() < 1e-11 for a, b in pairs)


def test_a_row_that_sees_nothing_gets_zeros_and_gives_no_gradient():
    q, k, v = heads(4, 2), heads(5, 2), heads(5, 2)
    mask = fl.ones(4, 5, dtype=fl.bool)
    mask[2] = False
    out = F.scaled_dot_product_attention(q, k, v, mask)
    out.sum().backward()
    assert out[:, :, 2].abs().max().item() == 0 and out[:, :, 1].abs().min().item() > 0
    assert q.grad[:, :, 2].abs().max().item() == 0
    assert all(t.grad.isfinite().all().item() for t in (q, k, v))
    assert fl.autograd.gradgradcheck(lambda *a: F.scaled_dot_product_attention(*a, mask), (q, k, v))


def test_same_bits_for_any_thread_count():
    q, k, v = (heads(n, 8).detach().float().requires_grad_() for n in (300, 260, 260))
    before, results = fl.get_num_threads(), []
    for threads in (1, 2):
        fl.set_num_threads(threads)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        results.append([out, *fl.autograd.grad(out.square().sum(), (q, k, v))])
    fl.set_num_threads(before)
    assert all(fl.equal(a, b) for a, b in zip(*results))
