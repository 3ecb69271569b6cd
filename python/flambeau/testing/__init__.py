"""Helpers for tests: comparing what is nearly equal, and making tensors of random values."""

from flambeau.testing._comparison import assert_allclose, assert_close
from flambeau.testing._creation import make_tensor
