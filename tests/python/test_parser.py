"""How arguments find an overload, and what a call that fits none is told."""

import pytest

import flambeau as torch

X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize("alias", ["input", "self", "x", "a", "x1"])
def test_first_tensor_answers_to_aliases(alias):
    assert torch.sum(**{alias: X}).item() == 10


def test_dim_and_keepdim_aliases():
    assert torch.sum(X, axis=0, keepdims=True).shape == (1, 2)
    assert torch.sum(input=X, dim=1).tolist() == [3, 7]


def test_loose_ints_fold_into_the_only_int_list():
    assert X.view(4).shape == (4,)
    assert X.view(1, 4).shape == X.view((1, 4)).shape == X.view([1, 4]).shape == (1, 4)
    assert X.view(torch.Size([1, 4])).shape == (1, 4)
    assert torch.zeros(2, 3).shape == torch.zeros((2, 3)).shape == torch.zeros(size=(2, 3)).shape
    assert torch.zeros(()).shape == ()


@pytest.mark.parametrize(
    "call", ["torch.zeros()", "torch.zeros((2,), 3)", "X.sum(0, 1)", "X.view()"]
)
def test_what_does_not_fold_is_an_error(call):
    with pytest.raises(TypeError):
        eval(call)


def test_bool_and_float_are_no_ints():
    for dim in (True, 0.0):
        with pytest.raises(TypeError):
            X.sum(dim=dim)


def test_zero_dim_integer_tensors_are_ints():
    assert X.sum(torch.tensor(1)).tolist() == [3, 7]
    with pytest.raises(TypeError):
        X.sum(torch.tensor(1.0))


def test_numpy_numbers():
    np = pytest.importorskip("numpy")
    assert X.sum(np.int64(1)).tolist() == [3, 7]
    assert (X * np.float32(2)).dtype is torch.float32
    assert (np.float64(2) * X).dtype is torch.float32
    assert torch.add(X, np.int32(1)).sum().item() == 14


def test_numbers_stand_for_tensors_and_promote_as_numbers():
    assert torch.add(1, torch.tensor([1, 2])).dtype is torch.int64
    assert torch.mul(1.5, torch.tensor([2, 4])).tolist() == [3, 6]
    assert torch.add(1.5, torch.tensor([1], dtype=torch.float16)).dtype is torch.float16
    assert torch.add(1, 2).item() == 3


def test_factories_take_requires_grad():
    assert torch.zeros(2, requires_grad=True).requires_grad
    assert not torch.zeros(2).requires_grad


def test_out_is_written_and_returned():
    out = torch.empty(2, 2)
    assert torch.add(X, X, out=out) is out
    assert out.tolist() == [[2, 4], [6, 8]]


def test_methods_are_functions_of_the_type():
    assert torch.Tensor.view(X, 4).shape == (4,)
    assert torch.Tensor.sum(X, dim=0).tolist() == [4, 6]


def test_dtype_may_be_a_python_type():
    assert torch.zeros(1, dtype=float).dtype is torch.float64
    assert torch.zeros(1, dtype=int).dtype is torch.int64
    assert torch.zeros(1, dtype=bool).dtype is torch.bool


@pytest.mark.parametrize(
    "call, parts",
    [
        ("torch.exp(3)", ["exp", "'input' must be Tensor", "got int"]),
        ("torch.exp()", ["'input' is missing"]),
        ("torch.exp(X, foo=1)", ["no argument 'foo'"]),
        ("torch.exp(X, X)", ["takes 1 positional", "got 2"]),
        ("torch.exp(X, input=X)", ["'input' is given twice"]),
        (
            "X.sum(dim='a')",
            ["no form takes (dim=str)", "'dim' must be int or tuple of ints, got str"],
        ),
        ("torch.sum(X, dim=[1, 'a'])", ["list of int, str"]),
    ],
)
def test_error_names_argument_form_and_what_it_got(call, parts):
    with pytest.raises(TypeError) as error:
        eval(call)
    for part in parts:
        assert part in str(error.value)


def test_integers_beyond_64_bits_overflow():
    with pytest.raises(OverflowError):
        torch.tensor([1]) + 2**70


def test_exception_types():
    with pytest.raises(IndexError):
        X.sum(dim=5)
    with pytest.raises(RuntimeError):
        X + torch.zeros(3)
    assert issubclass(torch.OutOfMemoryError, RuntimeError)
    assert issubclass(torch.linalg.LinAlgError, RuntimeError)


def test_schemas_are_told():
    assert any(s.startswith("sum.dim_IntList(") for s in torch._schema("torch.sum"))
    assert torch._schema("nothing.like.it") is None
    assert torch._schema("torch.Tensor.chunk") == [
        "chunk(Tensor(a) self, int chunks, int dim=0) -> Tensor(a)[]"
    ]
    assert (
        torch._schema("torch.nn.functional.dropout") is None
    )  # Python's signature names `training`
