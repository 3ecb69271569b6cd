"""The tape's Python side. Submodules load on first use."""

from flambeau.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
