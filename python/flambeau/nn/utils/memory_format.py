"""Weights of convolutions in another memory format."""


def _convert(module, memory_format, kinds):
    for m in module.modules():
        if isinstance(m, kinds):
            m.weight.data = m.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module, memory_format):
    """Stores the weights of Conv2d and ConvTranspose2d below `module` in `memory_format`."""
    from flambeau.nn.modules.conv import Conv2d, ConvTranspose2d

    return _convert(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module, memory_format):
    """Stores the weights of Conv3d and ConvTranspose3d below `module` in `memory_format`."""
    from flambeau.nn.modules.conv import Conv3d, ConvTranspose3d

    return _convert(module, memory_format, (Conv3d, ConvTranspose3d))
