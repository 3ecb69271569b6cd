"""Folding a batch normalisation in evaluation mode into the layer before it."""

import copy

import flambeau
from flambeau.nn.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


def _fuse(weight, bias, bn_rm, bn_rv, bn_eps, bn_w, bn_b, scale_shape):
    """y = (x W + b - mean) * s + bn_b with s = bn_w / sqrt(var + eps), as one weight and bias."""
    bias = flambeau.zeros_like(bn_rm) if bias is None else bias
    bn_w = flambeau.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = flambeau.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = bn_w * flambeau.rsqrt(bn_rv + bn_eps)
    new_weight = (weight * scale.reshape(scale_shape)).to(dtype=weight.dtype)
    new_bias = ((bias - bn_rm) * scale + bn_b).to(dtype=bias.dtype)
    return Parameter(new_weight, weight.requires_grad), Parameter(new_bias, bias.requires_grad)


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """Weight and bias of a convolution followed by a batch normalisation."""
    lead = [1, -1] if transpose else [-1, 1]
    shape = lead + [1] * (conv_w.dim() - 2)
    return _fuse(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """Weight and bias of a linear layer followed by a batch normalisation."""
    return _fuse(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _check_eval(name, *modules) -> None:
    if any(m.training for m in modules):
        raise AssertionError(f"{name}: both modules must be in evaluation mode")


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A copy of `conv` that does what `conv` followed by `bn` does, both in evaluation mode."""
    _check_eval("fuse_conv_bn_eval", conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight,
        fused.bias,
        bn.running_mean,
        bn.running_var,
        bn.eps,
        bn.weight,
        bn.bias,
        transpose,
    )
    return fused


def fuse_linear_bn_eval(linear, bn):
    """A copy of `linear` that does what `linear` followed by `bn` does, both in evaluation mode."""
    _check_eval("fuse_linear_bn_eval", linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            f"fuse_linear_bn_eval: out_features {linear.out_features} must equal num_features "
            f"{bn.num_features}"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused
