"""Gradients through views of views, written by hand: the geometry of what was viewed counts."""

import flambeau as fl


def leaf(*shape):
    n = 1
    for s in shape:
        n *= s
    return fl.tensor([float(i) for i in range(n)]).reshape(shape).requires_grad_()


def weights(n):
    return fl.tensor([10.0 * (i + 1) for i in range(n)])


def test_view_of_a_transposed_tensor():
    x = leaf(2, 3)
    (x.t()[1] * weights(2)).sum().backward()
    assert x.grad.tolist() == [[0, 10, 0], [0, 20, 0]]


def test_view_of_a_view_with_an_offset():
    x = leaf(2, 3)
    ((x * 1)[1][1:] * weights(2)).sum().backward()
    assert x.grad.tolist() == [[0, 0, 0], [0, 10, 20]]
    y = leaf(2, 1, 3)
    y[1][:1].sum().backward()
    assert y.grad.tolist() == [[[0, 0, 0]], [[1, 1, 1]]]


def test_windows_that_overlap_add_up():
    x = leaf(4)
    x.as_strided((3, 2), (1, 1)).sum().backward()
    assert x.grad.tolist() == [1, 2, 2, 1]


def test_view_of_a_repeated_row():
    x = leaf(3)
    x.expand(2, 3).as_strided((2,), (1,), 1).sum().backward()
    assert x.grad.tolist() == [0, 1, 1]
