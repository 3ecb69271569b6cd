"""Functions of layers and losses. Written in _functional/ and loaded from there on first use.

Where torch's signature is the operator's own, the name is the operator itself.
"""

import importlib

import flambeau
from flambeau import _C, Tensor  # noqa: F401
from flambeau.nn._functional import (  # noqa: F401
    BroadcastingList1,
    BroadcastingList2,
    BroadcastingList3,
)

_OPERATORS = frozenset(
    "adaptive_avg_pool1d avg_pool1d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc "
    "conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity hardshrink "
    "native_channel_shuffle pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu relu_ "
    "rrelu_ selu_ threshold_".split()
)
_NN_OPERATORS = frozenset(
    "avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear one_hot pad "
    "scaled_dot_product_attention softplus softshrink".split()
)
_WRITTEN = {
    "activation": "_get_softmax_dim celu elu glu gumbel_softmax hardsigmoid hardswish hardtanh "
    "leaky_relu log_softmax mish relu relu6 rrelu selu sigmoid silu softmax softmin softsign tanh "
    "tanhshrink threshold",
    "attention": "_canonical_mask _in_projection _in_projection_packed _mha_shape_check "
    "_none_or_dtype multi_head_attention_forward",
    "layers": "alpha_dropout batch_norm dropout dropout1d dropout2d dropout3d embedding "
    "embedding_bag feature_alpha_dropout group_norm grouped_mm instance_norm layer_norm local_response_norm "
    "normalize rms_norm",
    "loss": "binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss "
    "cross_entropy ctc_loss gaussian_nll_loss hinge_embedding_loss huber_loss kl_div l1_loss "
    "linear_cross_entropy margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss "
    "multilabel_soft_margin_loss nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss "
    "triplet_margin_loss triplet_margin_with_distance_loss",
    "pooling": "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
    "adaptive_max_pool1d_with_indices adaptive_max_pool2d adaptive_max_pool2d_with_indices "
    "adaptive_max_pool3d adaptive_max_pool3d_with_indices fractional_max_pool2d "
    "fractional_max_pool2d_with_indices fractional_max_pool3d fractional_max_pool3d_with_indices "
    "lp_pool1d lp_pool2d lp_pool3d max_pool1d max_pool1d_with_indices max_pool2d "
    "max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool1d max_unpool2d "
    "max_unpool3d",
    "vision": "affine_grid fold grid_sample interpolate unfold upsample upsample_bilinear "
    "upsample_nearest",
}
_OVERRIDES = frozenset(
    "handle_torch_function has_torch_function has_torch_function_unary "
    "has_torch_function_variadic".split()
)
_HOMES = {name: home for home, names in _WRITTEN.items() for name in names.split()}

__all__ = sorted(
    n for n in (*_OPERATORS, *_NN_OPERATORS, *_HOMES, "logsigmoid") if not n.startswith("_")
)


def __getattr__(name):
    if name in _HOMES:
        value = getattr(importlib.import_module("flambeau.nn._functional." + _HOMES[name]), name)
        value.__module__ = __name__  # what pickles of a model with an activation function name
    elif name in _NN_OPERATORS:
        value = getattr(_C._nn, name)
    elif name in _OPERATORS:
        value = getattr(flambeau, name)
    elif name == "logsigmoid":
        value = _C._nn.log_sigmoid
    elif name == "grad":
        value = importlib.import_module("flambeau.nn.grad")
    elif name in _OVERRIDES:
        value = getattr(importlib.import_module("flambeau.overrides"), name)
    else:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
