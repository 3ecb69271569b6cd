"""Gradients of convolutions as functions of their own, by one pass forward and back."""

import flambeau
from flambeau.autograd import grad

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]


def _input(conv, input_size, weight, grad_output, *options):
    x = grad_output.new_zeros(input_size).requires_grad_()
    with flambeau.enable_grad():
        y = conv(x, weight, None, *options)
    return grad(y, x, grad_output)[0]


def _weight(conv, input, weight_size, grad_output, *options):
    w = grad_output.new_zeros(weight_size).requires_grad_()
    with flambeau.enable_grad():
        y = conv(input, w, None, *options)
    return grad(y, w, grad_output)[0]


def conv1d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv1d with respect to its input."""
    conv = flambeau.conv1d
    return _input(conv, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv1d with respect to its weight."""
    conv = flambeau.conv1d
    return _weight(conv, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv2d with respect to its input."""
    conv = flambeau.conv2d
    return _input(conv, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv2d with respect to its weight."""
    conv = flambeau.conv2d
    return _weight(conv, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv3d with respect to its input."""
    conv = flambeau.conv3d
    return _input(conv, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv3d with respect to its weight."""
    conv = flambeau.conv3d
    return _weight(conv, input, weight_size, grad_output, stride, padding, dilation, groups)
