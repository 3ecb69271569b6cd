"""Instance normalisation."""

from __future__ import annotations

import warnings

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device=None,
        dtype=None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _check_input_dim(self, input):
        raise NotImplementedError

    def _get_no_batch_dim(self):
        raise NotImplementedError

    def _apply_instance_norm(self, input):
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        batched = input.dim() != self._get_no_batch_dim()
        dim = 1 if batched else 0
        if input.size(dim) != self.num_features:
            text = (
                f"expected input's size at dim={dim} to match num_features "
                f"({self.num_features}), but got: {input.size(dim)}."
            )
            if self.affine:
                raise ValueError(text)
            warnings.warn(text + " It is not used, as affine=False.", stacklevel=2)
        if batched:
            return self._apply_instance_norm(input)
        return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ) -> None:
        # Statistics that version 1 saved although they were not in use are refused, with the fix.
        if local_metadata.get("version", None) is None and not self.track_running_stats:
            stale = [
                prefix + name
                for name in ("running_mean", "running_var")
                if prefix + name in state_dict
            ]
            if stale:
                error_msgs.append(
                    f"unexpected running stats {stale} for {type(self).__name__} with "
                    "track_running_stats=False; remove them from the state_dict if they are not "
                    "needed"
                )
                for key in stale:
                    state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


def _check_dim(input, low, high) -> None:
    if input.dim() not in (low, high):
        raise ValueError(f"expected {low}D or {high}D input (got {input.dim()}D input)")


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of (N, C, L) or (C, L) by itself (Ulyanov et al. 2016)."""

    def _get_no_batch_dim(self) -> int:
        return 2

    def _check_input_dim(self, input) -> None:
        _check_dim(input, 2, 3)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm1d that takes `num_features` from its first input."""

    cls_to_become = InstanceNorm1d
    _get_no_batch_dim = InstanceNorm1d._get_no_batch_dim
    _check_input_dim = InstanceNorm1d._check_input_dim


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of (N, C, H, W) or (C, H, W) by itself (Ulyanov et al. 2016)."""

    def _get_no_batch_dim(self) -> int:
        return 3

    def _check_input_dim(self, input) -> None:
        _check_dim(input, 3, 4)


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm2d that takes `num_features` from its first input."""

    cls_to_become = InstanceNorm2d
    _get_no_batch_dim = InstanceNorm2d._get_no_batch_dim
    _check_input_dim = InstanceNorm2d._check_input_dim


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of (N, C, D, H, W) or (C, D, H, W) by itself."""

    def _get_no_batch_dim(self) -> int:
        return 4

    def _check_input_dim(self, input) -> None:
        _check_dim(input, 4, 5)


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm3d that takes `num_features` from its first input."""

    cls_to_become = InstanceNorm3d
    _get_no_batch_dim = InstanceNorm3d._get_no_batch_dim
    _check_input_dim = InstanceNorm3d._check_input_dim
