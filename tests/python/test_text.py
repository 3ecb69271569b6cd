"""What tensors and the small types look like."""

import pytest

import flambeau as torch


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: torch.tensor(1), "tensor(1)"),
        (lambda: torch.tensor(1.0), "tensor(1.)"),
        (lambda: torch.tensor([1.5, 2.0]), "tensor([1.5000, 2.0000])"),
        (lambda: torch.tensor([1e10, 1.5]), "tensor([1.0000e+10, 1.5000e+00])"),
        (lambda: torch.tensor([1.0, float("nan")]), "tensor([1., nan])"),
        (lambda: torch.tensor([True, False]), "tensor([ True, False])"),
        (lambda: torch.tensor([1 + 2j]), "tensor([1.+2.j])"),
        (lambda: torch.tensor([]), "tensor([])"),
        (lambda: torch.zeros(0, 3), "tensor([], size=(0, 3))"),
        (lambda: torch.tensor([1], dtype=torch.int8), "tensor([1], dtype=torch.int8)"),
        (lambda: torch.tensor([1.0], requires_grad=True), "tensor([1.], requires_grad=True)"),
        (
            lambda: torch.tensor([1.0], requires_grad=True) * 2,
            "tensor([2.], grad_fn=<MulBackward0>)",
        ),
        (
            lambda: torch.tensor([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]),
            "tensor([[[1, 2],\n         [3, 4]],\n\n        [[5, 6],\n         [7, 8]]])",
        ),
        (lambda: torch.zeros(1001), "tensor([0., 0., 0.,  ..., 0., 0., 0.])"),
        (
            lambda: torch.nn.Parameter(torch.zeros(1)),
            "Parameter containing:\ntensor([0.], requires_grad=True)",
        ),
    ],
)
def test_tensor(make, text):
    assert repr(make()) == str(make()) == text


def test_print_options():
    x = torch.tensor([1 / 3])
    try:
        torch.set_printoptions(precision=2)
        assert repr(x) == "tensor([0.33])"
        torch.set_printoptions(sci_mode=True)
        assert repr(x) == "tensor([3.33e-01])"
    finally:
        torch.set_printoptions(profile="default")
    assert repr(x) == "tensor([0.3333])"


def test_small_types():
    assert repr(torch.float32) == "torch.float32"
    assert repr(torch.float) == "torch.float32"
    assert repr(torch.Size([2, 3])) == "torch.Size([2, 3])"
    assert repr(torch.device("cpu")) == "device(type='cpu')"
    assert str(torch.device("cuda:1")) == "cuda:1"
    assert repr(torch.strided) == "torch.strided"
    assert repr(torch.channels_last) == "torch.channels_last"


def test_size_behaves_as_a_tuple_of_its_own():
    size = torch.Size([2, 3])
    assert size.numel() == 6 and size == (2, 3)
    for made in (size[1:], size + (4,), (4,) + size, size * 2):
        assert type(made) is torch.Size
    with pytest.raises(TypeError):
        torch.Size([1.5])


def test_dtype_facts():
    assert torch.bfloat16.is_floating_point and not torch.bfloat16.is_complex
    assert torch.uint8.is_signed is False and torch.int8.is_signed is True
    assert torch.complex64.to_real() is torch.float32
    assert torch.float64.to_complex() is torch.complex128
    assert torch.float16.itemsize == 2


def test_device_compares_and_hashes_by_value():
    assert torch.device("cpu") == torch.device("cpu") != torch.device("meta")
    assert torch.device("cuda") != torch.device("cuda", 0)
    assert hash(torch.device("cuda:1")) == hash(torch.device("cuda", 1))
    assert torch.device("cuda:1").index == 1 and torch.device("cpu").index is None
    with pytest.raises(RuntimeError):
        torch.device("nonsense")


def test_device_as_context():
    with torch.device("meta"):
        assert torch.zeros(2).is_meta
        with torch.device("cpu"):
            assert torch.zeros(2).is_cpu
    assert torch.zeros(2).is_cpu
