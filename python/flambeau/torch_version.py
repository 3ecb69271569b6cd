"""A version that compares by its numbers, with texts, tuples and other versions."""

import re

from flambeau._runner import TORCH_VERSION

__all__ = ["TorchVersion"]


def _key(version):
    """Numbers, then whether it is a release: 2.1.0a1 comes before 2.1.0. What follows a plus does not count."""
    if isinstance(version, tuple):
        version = ".".join(map(str, version))
    found = re.fullmatch(r"v?(\d+(?:\.\d+)*)(.*)", str(version).partition("+")[0])
    if not found:
        raise ValueError(f"TorchVersion: {version!r} is no version")
    numbers = [int(n) for n in found[1].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    rest = found[2].lstrip(".-_")
    early = re.match(r"(a|b|rc|dev|alpha|beta)", rest)
    return numbers, (0, rest) if early else (1, rest)


class TorchVersion(str):
    """A str such as "2.13.0" that orders like a version.

    Example:
        >>> flambeau.torch_version.TorchVersion("2.13.0") > "2.9"
        True
        >>> flambeau.torch_version.TorchVersion("2.13.0") >= (2, 13)
        True
    """

    __hash__ = str.__hash__

    def __lt__(self, other):
        return _key(self) < _key(other)

    def __le__(self, other):
        return _key(self) <= _key(other)

    def __gt__(self, other):
        return _key(self) > _key(other)

    def __ge__(self, other):
        return _key(self) >= _key(other)

    def __eq__(self, other):
        try:
            return _key(self) == _key(other)
        except ValueError:
            return False

    def __ne__(self, other):
        return not self == other


__version__ = TorchVersion(TORCH_VERSION)
