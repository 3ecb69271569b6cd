"""Layers against the formulas in their docstrings, written out on small numbers."""

import math

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F


def close(t, expected, tol=1e-6):
    flat = [x for row in expected for x in (row if isinstance(row, list) else [row])]
    got = t.detach().reshape(-1).tolist()
    assert len(got) == len(flat)
    assert got == pytest.approx(flat, rel=tol, abs=tol)


def filled(module):
    """The same module with parameters 0.1, -0.2, 0.3, ..."""
    with fl.no_grad():
        for p in module.parameters():
            n = p.numel()
            p.copy_(fl.tensor([(-1) ** i * 0.1 * (i + 1) for i in range(n)]).reshape(p.shape))
    return module


def test_linear():
    m = filled(nn.Linear(2, 3))  # rows (.1, -.2), (.3, -.4), (.5, -.6); bias (.1, -.2, .3)
    close(m(fl.tensor([1.0, 2.0])), [-0.2, -0.7, -0.4])
    assert m(fl.zeros(4, 5, 2)).shape == (4, 5, 3)
    assert repr(m) == "Linear(in_features=2, out_features=3, bias=True)"
    with pytest.raises(RuntimeError):
        m(fl.ones(3))


def test_bilinear_and_identity():
    m = filled(nn.Bilinear(2, 2, 1))  # (.1, -.2; .3, -.4), bias .1
    close(m(fl.tensor([[1.0, 2.0]]), fl.tensor([[3.0, 1.0]])), [0.3 + 1.8 - 0.2 - 0.8 + 0.1])
    x = fl.ones(1)
    assert nn.Identity(3, unused=1)(x) is x


ACTIVATIONS = [
    ("ReLU", (), lambda x: max(x, 0)),
    ("ReLU6", (), lambda x: min(max(x, 0), 6)),
    ("LeakyReLU", (0.2,), lambda x: x if x > 0 else 0.2 * x),
    ("ELU", (0.5,), lambda x: x if x > 0 else 0.5 * math.expm1(x)),
    ("CELU", (2.0,), lambda x: max(0, x) + min(0, 2 * math.expm1(x / 2))),
    (
        "SELU",
        (),
        lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * math.expm1(x)),
    ),
    ("GELU", (), lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    (
        "GELU",
        ("tanh",),
        lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    ("SiLU", (), lambda x: x / (1 + math.exp(-x))),
    ("Mish", (), lambda x: x * math.tanh(math.log1p(math.exp(x)))),
    ("Sigmoid", (), lambda x: 1 / (1 + math.exp(-x))),
    ("Tanh", (), math.tanh),
    ("LogSigmoid", (), lambda x: -math.log1p(math.exp(-x))),
    (
        "Softplus",
        (
            2.0,
            3.0,
        ),
        lambda x: x if 2 * x > 3 else math.log1p(math.exp(2 * x)) / 2,
    ),
    ("Softsign", (), lambda x: x / (1 + abs(x))),
    ("Tanhshrink", (), lambda x: x - math.tanh(x)),
    ("Softshrink", (0.6,), lambda x: math.copysign(max(abs(x) - 0.6, 0), x)),
    ("Hardshrink", (0.6,), lambda x: x if abs(x) > 0.6 else 0),
    (
        "Hardtanh",
        (
            -1.5,
            0.8,
        ),
        lambda x: min(max(x, -1.5), 0.8),
    ),
    ("Hardsigmoid", (), lambda x: min(max(x + 3, 0), 6) / 6),
    ("Hardswish", (), lambda x: x * min(max(x + 3, 0), 6) / 6),
    (
        "Threshold",
        (
            0.4,
            -7.0,
        ),
        lambda x: x if x > 0.4 else -7.0,
    ),
    ("PReLU", (1, 0.3), lambda x: x if x > 0 else 0.3 * x),
    ("RReLU", (0.1, 0.3), lambda x: x if x > 0 else 0.2 * x),
]


@pytest.mark.parametrize("name, arguments, formula", ACTIVATIONS)
def test_activation(name, arguments, formula):
    module = getattr(nn, name)(*arguments).eval()
    values = [-4.0, -1.5, -0.5, 0.25, 0.5, 1.0, 7.5]
    close(module(fl.tensor(values)), [formula(v) for v in values])
    if hasattr(module, "inplace"):
        module.inplace = True
        x = fl.tensor(values)
        assert module(x) is x
        close(x, [formula(v) for v in values])


def test_softmax_family():
    x = fl.tensor([[0.0, math.log(3.0)], [1.0, 1.0]])
    close(nn.Softmax(dim=1)(x), [[0.25, 0.75], [0.5, 0.5]])
    close(nn.Softmin(dim=1)(x), [[0.75, 0.25], [0.5, 0.5]])
    close(nn.LogSoftmax(dim=1)(x).exp(), [[0.25, 0.75], [0.5, 0.5]])
    close(nn.GLU()(fl.tensor([2.0, 0.0])), [1.0])
    with pytest.raises(ValueError):
        nn.Softmax2d()(x)
    with pytest.warns(UserWarning, match="Implicit dimension"):
        F.softmax(x)


def test_gumbel_softmax_hard_is_one_hot():
    x = fl.zeros(50, 4, requires_grad=True)
    y = F.gumbel_softmax(x, hard=True)
    assert y.sum(1).tolist() == [1.0] * 50 and y.max(1)[0].tolist() == [1.0] * 50
    (y[:, 0].sum()).backward()
    assert x.grad.abs().sum().item() > 0


def test_dropout_keeps_the_mean_and_does_nothing_in_evaluation():
    x = fl.ones(20_000)
    m = nn.Dropout(0.25)
    y = m(x)
    assert set(y.tolist()) == {0.0, float(fl.tensor(4.0) / 3)}
    assert abs(y.mean().item() - 1) < 0.02
    assert m.eval()(x).tolist() == x.tolist()
    channels = nn.Dropout1d(0.5)(fl.ones(40, 8, 3))
    per_channel = channels.sum(-1).reshape(-1).tolist()
    assert set(per_channel) == {0.0, 6.0}
    for bad in (-0.1, 1.5):
        with pytest.raises(ValueError, match=str(bad)):
            nn.Dropout(bad)
        with pytest.raises(ValueError, match=str(bad)):
            F.dropout(x, bad)


def test_alpha_dropout_keeps_mean_and_variance():
    y = nn.AlphaDropout(0.2)(fl.randn(40_000))
    assert abs(y.mean().item()) < 0.03 and abs(y.std().item() - 1) < 0.03


def test_batch_norm_statistics():
    m = nn.BatchNorm1d(2)
    x = fl.tensor([[1.0, 10.0], [3.0, 30.0]])
    close(m(x), [[-1, -1], [1, 1]], 1e-4)
    close(m.running_mean, [0.2, 2.0])
    close(m.running_var, [0.9 + 0.1 * 2, 0.9 + 0.1 * 200])
    assert m.num_batches_tracked.item() == 1
    close(m.eval()(fl.tensor([[0.2, 2.0]])), [0.0, 0.0])
    average = nn.BatchNorm1d(2, momentum=None)
    average(x)
    average(x + 2)
    close(average.running_mean, [3.0, 21.0])
    with pytest.raises(ValueError, match="more than 1 value"):
        nn.BatchNorm1d(2)(fl.ones(1, 2))
    for bad in (fl.ones(2, 2, 2, 2), fl.ones(2)):
        with pytest.raises(ValueError, match="2D or 3D"):
            m(bad)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_twice_before_one_backward(training):
    # Backward needs the statistics its own call used, not the running ones, which the second changes.
    x = fl.tensor([[1.0, 10.0], [3.0, 30.0], [4.0, 5.0]], requires_grad=True)
    grads = []
    for calls in (1, 2):
        m = filled(nn.BatchNorm1d(2)).train(training)
        loss = m(x).square().sum()
        if calls == 2:
            m.train()(x.detach() * 2)
        loss.backward()
        grads.append(x.grad.reshape(-1).tolist())
        x.grad = None
    assert grads[0] == grads[1] and any(grads[0])


def test_layer_group_instance_and_rms_norm():
    x = fl.tensor([[1.0, 3.0, 2.0, 6.0]])
    mean, var = 3.0, (4 + 0 + 1 + 9) / 4
    expected = [(v - mean) / math.sqrt(var + 1e-5) for v in (1.0, 3.0, 2.0, 6.0)]
    close(nn.LayerNorm(4)(x), expected)
    close(nn.GroupNorm(2, 4)(x), [-1, 1, -1, 1], 1e-4)
    rms = math.sqrt((1 + 9 + 4 + 36) / 4 + 1e-6)
    close(nn.RMSNorm(4, eps=1e-6)(x), [v / rms for v in (1.0, 3.0, 2.0, 6.0)])
    close(nn.InstanceNorm1d(2)(x.reshape(1, 2, 2)), [-1, 1, -1, 1], 1e-4)
    with pytest.raises(ValueError, match="divisible"):
        nn.GroupNorm(3, 4)
    with pytest.raises(ValueError, match="match num_features"):
        nn.InstanceNorm1d(3, affine=True)(x.reshape(1, 2, 2))


def test_local_response_norm():
    x = fl.tensor([1.0, 2.0, 3.0]).reshape(1, 3, 1)
    sums = [1 + 4, 1 + 4 + 9, 4 + 9]
    expected = [v / (1 + 0.3 * s / 3) ** 0.75 for v, s in zip((1.0, 2.0, 3.0), sums)]
    close(nn.LocalResponseNorm(3, alpha=0.3)(x), expected)


def test_conv1d_written_out():
    m = filled(nn.Conv1d(1, 1, 3, padding=1))  # weight (.1, -.2, .3), bias .1
    x = [1.0, 2.0, 4.0, 8.0]
    padded = [0.0, *x, 0.0]
    close(
        m(fl.tensor([x])),
        [0.1 + 0.1 * padded[i] - 0.2 * padded[i + 1] + 0.3 * padded[i + 2] for i in range(4)],
    )
    circular = nn.Conv1d(1, 1, 3, padding=1, padding_mode="circular", bias=False)
    circular.weight = m.weight
    around = [8.0, *x, 1.0]
    close(
        circular(fl.tensor([x])),
        [0.1 * around[i] - 0.2 * around[i + 1] + 0.3 * around[i + 2] for i in range(4)],
    )


@pytest.mark.parametrize(
    "make, shape, out",
    [
        (lambda: nn.Conv2d(2, 4, 3, stride=2, padding=1), (5, 2, 7, 9), (5, 4, 4, 5)),
        (lambda: nn.Conv2d(4, 4, (3, 1), groups=4, dilation=2), (1, 4, 7, 3), (1, 4, 3, 3)),
        (
            lambda: nn.Conv2d(2, 3, 4, padding="same", padding_mode="reflect"),
            (1, 2, 6, 5),
            (1, 3, 6, 5),
        ),
        (lambda: nn.Conv2d(2, 3, 2), (2, 5, 5), (3, 4, 4)),
        (lambda: nn.Conv3d(1, 2, 2), (1, 1, 3, 3, 3), (1, 2, 2, 2, 2)),
        (lambda: nn.ConvTranspose1d(2, 3, 3, stride=2), (1, 2, 5), (1, 3, 11)),
        (
            lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1),
            (1, 2, 4, 4),
            (1, 3, 8, 8),
        ),
        (lambda: nn.ConvTranspose3d(1, 1, 2, stride=2), (1, 1, 2, 2, 2), (1, 1, 4, 4, 4)),
    ],
)
def test_conv_shapes(make, shape, out):
    assert make()(fl.zeros(shape)).shape == out


def test_conv_transpose_is_the_adjoint():
    conv = nn.Conv2d(2, 3, 3, stride=2, padding=1, bias=False)
    back = nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, bias=False)
    back.weight = conv.weight
    x, y = fl.randn(1, 2, 7, 7), fl.randn(1, 3, 4, 4)
    left = (conv(x) * y).sum().item()
    right = (x * back(y, output_size=(7, 7))).sum().item()
    assert left == pytest.approx(right, rel=1e-4, abs=1e-4)
    with pytest.raises(ValueError, match="output_size"):
        back(y, output_size=(20, 20))


@pytest.mark.parametrize(
    "arguments",
    [
        {"in_channels": 3, "groups": 2},
        {"out_channels": 3, "groups": 2},
        {"groups": 0},
        {"padding": "some"},
        {"padding": "same", "stride": 2},
        {"padding_mode": "some"},
    ],
    ids=str,
)
def test_conv_arguments_that_do_not_fit(arguments):
    full = {"in_channels": 2, "out_channels": 4, "kernel_size": 3, **arguments}
    with pytest.raises(ValueError):
        nn.Conv2d(**full)


def test_pooling():
    x = fl.arange(16.0).reshape(1, 1, 4, 4)
    close(nn.MaxPool2d(2)(x), [5, 7, 13, 15])
    close(nn.AvgPool2d(2)(x), [2.5, 4.5, 10.5, 12.5])
    close(nn.AdaptiveAvgPool2d((1, None))(x), [6, 7, 8, 9])
    close(nn.AdaptiveMaxPool2d(1)(x), [15])
    values, indices = nn.MaxPool2d(2, return_indices=True)(x)
    assert indices.reshape(-1).tolist() == [5, 7, 13, 15]
    back = nn.MaxUnpool2d(2)(values, indices)
    assert back.sum().item() == 40 and back[0, 0, 1, 1].item() == 5
    close(nn.LPPool1d(2, 2)(fl.tensor([[3.0, 4.0, 6.0, 8.0]])), [5, 10])
    close(nn.AvgPool1d(2, stride=1)(fl.tensor([[1.0, 3.0, 7.0]])), [2, 5])
    assert nn.FractionalMaxPool2d(2, output_size=3)(x).shape == (1, 1, 3, 3)
    with pytest.raises(ValueError):
        nn.FractionalMaxPool2d(2)
    with pytest.raises(ValueError):
        nn.MaxUnpool2d(2)(values, indices, output_size=(9, 9))


def test_embedding():
    m = nn.Embedding.from_pretrained(fl.arange(6.0).reshape(3, 2), padding_idx=-1)
    assert m.padding_idx == 2 and not m.weight.requires_grad
    close(m(fl.tensor([[0, 2], [1, 1]])), [0, 1, 4, 5, 2, 3, 2, 3])
    learned = nn.Embedding(3, 2, padding_idx=0)
    assert learned.weight[0].tolist() == [0.0, 0.0]
    learned(fl.tensor([0, 1, 1])).sum().backward()
    assert learned.weight.grad.tolist() == [[0, 0], [2, 2], [0, 0]]
    bounded = nn.Embedding(1, 2, max_norm=1.0, _weight=fl.tensor([[3.0, 4.0]]))
    close(bounded(fl.tensor([0])), [0.6, 0.8], 1e-5)
    with pytest.raises(AssertionError):
        nn.Embedding(3, 2, padding_idx=3)


def test_embedding_bag_modes():
    table = fl.tensor([[1.0, 2.0], [3.0, 5.0], [10.0, 0.0]])
    rows, offsets = fl.tensor([0, 1, 2]), fl.tensor([0, 2])
    for mode, expected in (
        ("sum", [4, 7, 10, 0]),
        ("mean", [2, 3.5, 10, 0]),
        ("max", [3, 5, 10, 0]),
    ):
        close(nn.EmbeddingBag.from_pretrained(table, mode=mode)(rows, offsets), expected)
    weighted = F.embedding_bag(
        rows[:2].reshape(1, 2), table, mode="sum", per_sample_weights=fl.tensor([[2.0, 0.5]])
    )
    close(weighted, [3.5, 6.5])
    with pytest.raises(ValueError, match="offsets"):
        F.embedding_bag(rows, table)


def test_padding_modules():
    x = fl.tensor([[1.0, 2.0, 3.0]])
    close(nn.ConstantPad1d((1, 2), 9.0)(x), [9, 1, 2, 3, 9, 9])
    close(nn.ZeroPad1d(1)(x), [0, 1, 2, 3, 0])
    close(nn.ReflectionPad1d(2)(x), [3, 2, 1, 2, 3, 2, 1])
    close(nn.ReplicationPad1d(1)(x), [1, 1, 2, 3, 3])
    close(nn.CircularPad1d(1)(x), [3, 1, 2, 3, 1])
    assert nn.ReflectionPad2d((1, 0, 0, 1))(fl.zeros(1, 2, 2)).shape == (1, 3, 3)
    with pytest.raises(ValueError):
        nn.CircularPad2d(1)(x)


def test_shapes_in_and_out():
    assert nn.Flatten()(fl.zeros(2, 3, 4)).shape == (2, 12)
    assert nn.Unflatten(1, (2, 3))(fl.zeros(5, 6)).shape == (5, 2, 3)
    with pytest.raises(TypeError):
        nn.Unflatten(1, 6)
    x = fl.arange(8.0).reshape(1, 4, 1, 2)
    close(nn.PixelShuffle(2)(x), [0, 2, 1, 3, 4, 6, 5, 7])
    close(nn.PixelUnshuffle(2)(nn.PixelShuffle(2)(x)), list(range(8)))
    close(nn.ChannelShuffle(2)(x), [0, 1, 4, 5, 2, 3, 6, 7])


def test_unfold_and_fold():
    x = fl.arange(9.0).reshape(1, 1, 3, 3)
    columns = nn.Unfold(2)(x)
    assert columns.shape == (1, 4, 4) and columns[0, :, 0].tolist() == [0, 1, 3, 4]
    counts = nn.Fold((3, 3), 2)(fl.ones(1, 4, 4))
    close(counts, [1, 2, 1, 2, 4, 2, 1, 2, 1])


def test_distances():
    a, b = fl.tensor([[3.0, 0.0]]), fl.tensor([[0.0, 4.0]])
    close(nn.PairwiseDistance()(a, b), [5.0], 1e-5)
    close(nn.CosineSimilarity()(a, fl.tensor([[1.0, 1.0]])), [math.sqrt(0.5)])
    close(F.normalize(fl.tensor([[3.0, 4.0]])), [0.6, 0.8])


def test_upsample_modes():
    x = fl.tensor([[[1.0, 3.0]]])
    close(nn.Upsample(scale_factor=2)(x), [1, 1, 3, 3])
    close(nn.Upsample(size=3, mode="linear", align_corners=True)(x), [1, 2, 3])
    close(nn.Upsample(scale_factor=2, mode="linear")(x), [1, 1.5, 2.5, 3])
    assert F.interpolate(fl.zeros(1, 1, 4, 6), scale_factor=0.5, mode="area").shape == (1, 1, 2, 3)
    assert repr(nn.Upsample(scale_factor=2)) == "Upsample(scale_factor=2.0, mode='nearest')"
    with pytest.raises(ValueError):
        F.interpolate(x, size=2, scale_factor=2)
    with pytest.raises(ValueError):
        F.interpolate(x, size=2, align_corners=True)
    with pytest.raises(NotImplementedError, match="3D"):
        F.interpolate(x, size=2, mode="bilinear")


def test_grid_sample_identity():
    x = fl.arange(6.0).reshape(1, 1, 2, 3)
    theta = fl.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    grid = F.affine_grid(theta, (1, 1, 2, 3), align_corners=False)
    close(F.grid_sample(x, grid, align_corners=False), list(range(6)), 1e-5)
    with pytest.raises(ValueError, match="mode"):
        F.grid_sample(x, grid, mode="some", align_corners=False)


@pytest.mark.parametrize(
    "lazy, shape, kind",
    [
        (lambda: nn.LazyLinear(4), (2, 3), nn.Linear),
        (lambda: nn.LazyConv2d(4, 3), (1, 2, 5, 5), nn.Conv2d),
        (lambda: nn.LazyConvTranspose1d(4, 3), (1, 2, 5), nn.ConvTranspose1d),
        (lambda: nn.LazyBatchNorm1d(), (2, 3), nn.BatchNorm1d),
    ],
    ids=["linear", "conv", "transpose", "norm"],
)
def test_lazy_modules_become_their_class(lazy, shape, kind):
    m = lazy()
    assert m.has_uninitialized_params()
    with pytest.raises(RuntimeError):
        m.weight.shape  # noqa: B018
    y = m(fl.ones(shape))
    assert type(m) is kind and type(m.weight) is nn.Parameter
    assert y.tolist() == m(fl.ones(shape)).tolist()


@pytest.mark.parametrize("channels, size", [((3, 5), (7, 40)), ((24, 40), (4, 5))])
@pytest.mark.parametrize("options", [(2, 1, 0), (2, 0, 1), (3, 1, 2), ((1, 2), 2, 0)])
def test_a_transposed_convolution_of_a_batch_is_that_of_its_images(channels, size, options):
    fl.manual_seed(4)
    x, w = fl.randn(6, channels[0], *size), fl.randn(*channels, 4, 5)
    y = F.conv_transpose2d(x, w, None, *options)
    alone = [F.conv_transpose2d(image, w, None, *options) for image in x.split(1)]
    assert fl.equal(y, fl.cat(alone))  # to the last bit, though the images are laid out otherwise
    wide = F.conv_transpose2d(x.double(), w.double(), None, *options)
    assert (y - wide).abs().max().item() < 1e-4
