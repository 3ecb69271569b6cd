"""Initialisation: the numbers that a seed gives (they are part of the interface), and errors."""

import math

import pytest

import flambeau as fl
from flambeau import nn

# fmt: off
DRAWS = [
    ("uniform_", (-2, 3), {}, [-1.9786823987960815, -1.4721531867980957, -0.5707876086235046, -1.8652257919311523, 0.35807180404663086, -1.699418544769287]),
    ("normal_", (1, 0.5), {}, [1.4016380310058594, 1.087416648864746, 1.0444890260696411, 0.693140983581543, 1.023091197013855, 0.31587040424346924]),
    ("xavier_uniform_", (2,), {}, [-2.172208547592163, -1.7283085584640503, -0.9383912682533264, -2.072780132293701, -0.12437964230775833, -1.9274739027023315]),
    ("xavier_normal_", (), {}, [0.5080363750457764, 0.11057434976100922, 0.056274689733982086, -0.38814935088157654, 0.02920834720134735, -0.8653630614280701]),
    ("kaiming_uniform_", (0.5,), {}, [-1.2541251182556152, -0.9978393316268921, -0.541780412197113, -1.1967201232910156, -0.07181061804294586, -1.1128275394439697]),
    ("kaiming_normal_", (), {"mode": "fan_out", "nonlinearity": "relu"}, [0.8032760620117188, 0.17483338713645935, 0.08897809684276581, -0.6137180328369141, 0.04618244990706444, -1.3682591915130615]),
    ("trunc_normal_", (), {"std": 2.0}, [1.6065521240234375, 0.3496667742729187, 0.17795619368553162, -1.2274360656738281, 0.09236489981412888, 1.6313550472259521]),
]
LAYERS = [
    ("Linear", (2, 2), [[-0.701077223, -0.557809174, -0.302864462, -0.668986857], [-0.040143356, -0.622089505]]),
    ("Conv1d", (1, 2, 2), [[-0.701077223, -0.557809174, -0.302864462, -0.668986857], [-0.040143356, -0.622089505]]),
    ("Embedding", (2, 2), [[0.803276062, 0.174833387, 0.088978097, -0.613718033]]),
    ("GRUCell", (1, 1), [[-0.99147296, -0.788861275, -0.428315043], [-0.946090341, -0.056771278, -0.879767418], [0.543731689, 0.487398744, 0.188842416], [0.775713325, -0.097937346, 0.598981261]]),
]
# fmt: on


@pytest.mark.parametrize("name, arguments, options, expected", DRAWS)
def test_draws_after_a_seed(name, arguments, options, expected):
    fl.manual_seed(3)
    t = fl.empty(2, 3, requires_grad=True)
    assert getattr(nn.init, name)(t, *arguments, **options) is t
    assert t.detach().reshape(-1).tolist() == expected


@pytest.mark.parametrize("name, arguments, expected", LAYERS)
def test_default_parameters_after_a_seed(name, arguments, expected):
    fl.manual_seed(3)
    module = getattr(nn, name)(*arguments)
    for p, values in zip(module.parameters(), expected):
        assert p.detach().reshape(-1).tolist() == pytest.approx(values, abs=5e-10)


def test_trunc_normal_stays_within():
    t = nn.init.trunc_normal_(fl.empty(2000), std=3.0, a=-1.0, b=0.5)
    assert -1.0 <= t.min().item() and t.max().item() <= 0.5


def test_constants():
    assert nn.init.constant_(fl.empty(2), 0.3).tolist() == pytest.approx([0.3, 0.3])
    assert nn.init.eye_(fl.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert nn.init.dirac_(fl.empty(2, 2, 3))[1].tolist() == [[0, 0, 0], [0, 1, 0]]
    grouped = nn.init.dirac_(fl.empty(4, 2, 1), groups=2)
    assert grouped.reshape(4, 2).tolist() == [[1, 0], [0, 1], [1, 0], [0, 1]]


@pytest.mark.parametrize("shape", [(4, 4), (2, 5), (5, 2)], ids=str)
def test_orthogonal(shape):
    t = nn.init.orthogonal_(fl.empty(shape), gain=2.0)
    small = min(shape)
    gram = t @ t.T if shape[0] <= shape[1] else t.T @ t
    difference = gram - 4 * fl.eye(small)
    assert difference.abs().max().item() < 1e-5


def test_sparse_zeroes_a_share_of_each_column():
    t = nn.init.sparse_(fl.empty(10, 3), sparsity=0.35)
    assert [(t[:, i] == 0).sum().item() for i in range(3)] == [4, 4, 4]


def test_gains_and_fans():
    assert nn.init.calculate_gain("relu") == math.sqrt(2)
    assert nn.init.calculate_gain("leaky_relu", 0.2) == math.sqrt(2 / 1.04)
    assert nn.init.calculate_gain("tanh") == 5 / 3
    assert nn.init._calculate_fan_in_and_fan_out(fl.empty(2, 3, 4, 5)) == (60, 40)


def test_errors():
    with pytest.raises(ValueError):
        nn.init.calculate_gain("some")
    with pytest.raises(ValueError, match="2 or more"):
        nn.init.xavier_uniform_(fl.empty(3))
    with pytest.raises(ValueError, match="mode"):
        nn.init.kaiming_normal_(fl.empty(3, 3), mode="some")
    with pytest.raises(ValueError):
        nn.init.eye_(fl.empty(3))
    with pytest.warns(FutureWarning):
        nn.init.normal(fl.empty(2))
