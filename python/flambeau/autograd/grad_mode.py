"""Switches of the tape, as context managers and decorators."""

from flambeau import _C


class no_grad(_C._NoGrad):
    """The tape is off inside: results do not require grad."""

    __slots__ = ()
    __text_signature__ = "(orig_func=None)"


class enable_grad(_C._EnableGrad):
    """The tape is on inside, also within no_grad."""

    __slots__ = ()
    __text_signature__ = "(orig_func=None)"


class set_grad_enabled(_C._SetGrad):
    """Turns the tape on or off, from this call on; as a context manager, until the block ends."""

    __slots__ = ()
    __text_signature__ = "(mode)"

    def __repr__(self):
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"


class inference_mode(_C._InferenceMode):
    """Like no_grad, and results can never take part in a recorded op."""

    __slots__ = ()
    __text_signature__ = "(mode=True)"


__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
