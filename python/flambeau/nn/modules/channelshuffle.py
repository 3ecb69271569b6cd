"""ChannelShuffle."""

import flambeau
from flambeau.nn.modules.module import Module

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Interleaves `groups` groups of channels (Zhang et al. 2018)."""

    __constants__ = ["groups"]

    def __init__(self, groups) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input):
        return flambeau.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
