"""Optimizers: SGD and Adam step whole groups in one call, the others parameter by parameter."""

from flambeau.optim import lr_scheduler as lr_scheduler
from flambeau.optim import swa_utils as swa_utils
from flambeau.optim._adafactor import Adafactor
from flambeau.optim._muon import Muon
from flambeau.optim.adadelta import Adadelta
from flambeau.optim.adagrad import Adagrad
from flambeau.optim.adam import Adam
from flambeau.optim.adamax import Adamax
from flambeau.optim.adamw import AdamW
from flambeau.optim.asgd import ASGD
from flambeau.optim.lbfgs import LBFGS
from flambeau.optim.nadam import NAdam
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.radam import RAdam
from flambeau.optim.rmsprop import RMSprop
from flambeau.optim.rprop import Rprop
from flambeau.optim.sgd import SGD
from flambeau.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]
