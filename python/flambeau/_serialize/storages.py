"""Storages in pickles: persistent ids, and where a loaded storage goes."""

from pickle import UnpicklingError

import flambeau
from flambeau import _C
from flambeau.storage import LEGACY, TypedStorage, UntypedStorage

# (priority, location of a storage or None, storage at a location or None), lowest priority first.
_places = []


def register_package(priority, tagger, deserializer) -> None:
    """Adds a kind of device: tagger(storage) names its location, deserializer(storage, location)
    moves there; both give None for what is not theirs."""
    _places.append((priority, tagger, deserializer))
    _places.sort(key=lambda place: place[0])


def location_tag(storage) -> str:
    """The name that a file gives a storage's device, such as "cuda:1"."""
    for _, tagger, _ in _places:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError(f"save: storages on the device {storage.device} have no name in files")


def default_restore_location(storage, location):
    """The storage on the device that `location` names."""
    for _, _, deserializer in _places:
        result = deserializer(storage, location)
        if result is not None:
            return result
    raise RuntimeError(f"load: the file names a location {location!r} that is not known")


def _of_type(kind):
    def tagger(storage):
        device = storage.device
        if device.type != kind:
            return None
        return kind if device.index is None else f"{kind}:{device.index}"

    return tagger


def _to_cpu(storage, location):
    return storage if location == "cpu" else None


def _to_meta(storage, location):
    return UntypedStorage(storage.nbytes(), device="meta") if location == "meta" else None


def validate_cuda_device(location) -> int:
    """The number of the GPU that a location names; RuntimeError if there is none such."""
    cuda = getattr(flambeau, "cuda", None)
    if cuda is None or not cuda.is_available():
        raise RuntimeError(
            f"load: storages go to {location!r}, but no GPU can be used here; "
            "pass map_location='cpu' to load them into main memory"
        )
    index = _C.device(location).index
    index = cuda.current_device() if index is None else index
    if index >= cuda.device_count():
        raise RuntimeError(
            f"load: storages go to {location!r}, but there are {cuda.device_count()} GPUs; "
            "map_location names another place"
        )
    return index


def _to_cuda(storage, location):
    if not location.startswith("cuda"):
        return None
    device = _C.device("cuda", validate_cuda_device(location))
    return moved(storage, device)


def moved(storage, device):
    """A copy of a storage on another device."""
    flat = _C._tensor_on(storage, _C.uint8, 0, (storage.nbytes(),), (1,))
    return flat.to(device).untyped_storage()


register_package(10, _of_type("cpu"), _to_cpu)
register_package(20, _of_type("cuda"), _to_cuda)
register_package(22, _of_type("meta"), _to_meta)


class Restorer:
    """Applies map_location in all its forms."""

    def __init__(self, map_location):
        self._function = None
        if isinstance(map_location, (str, _C.device)):
            place = str(map_location)
            self._locate = lambda location: place
        elif isinstance(map_location, dict):
            self._locate = lambda location: map_location.get(location, location)
        elif map_location is None or callable(map_location):
            self._function = map_location
            self._locate = lambda location: location
        else:
            raise TypeError(
                "load: map_location must be a function, device, str or dict, "
                f"got {type(map_location).__name__}"
            )

    def skips_data(self, location):
        """Would a storage's bytes be read in vain?"""
        return str(self._locate(location)) == "meta"

    def __call__(self, storage, location):
        if self._function is not None:
            result = self._function(storage, location)
            if result is not None:
                return getattr(result, "_untyped_storage", result)
        result = default_restore_location(storage, str(self._locate(location)))
        return getattr(result, "_untyped_storage", result)


def dtype_of_kind(kind):
    """The dtype of a storage type out of a pickle; None for UntypedStorage."""
    if kind is UntypedStorage:
        return None
    dtype = getattr(kind, "dtype", None)
    if not (isinstance(kind, type) and issubclass(kind, TypedStorage) and dtype):
        raise UnpicklingError(f"load: damaged pickle: a storage of type {kind!r:.80}")
    return dtype


def typed(storage, dtype):
    """The storage as the pickle's rebuilding functions take it."""
    return storage if dtype is None else TypedStorage(wrap_storage=storage, dtype=dtype)


def storage_fields(pid, count):
    """(dtype, key, location, bytes) of a persistent id of `count` parts, which must be well formed."""
    if not (isinstance(pid, tuple) and len(pid) == count and pid[0] == "storage"):
        raise UnpicklingError(f"load: damaged pickle: a persistent id {pid!r:.80}")
    kind, key, location, numel = pid[1:5]
    dtype = dtype_of_kind(kind)
    if not (isinstance(key, str) and isinstance(location, str) and type(numel) is int):
        raise UnpicklingError(f"load: damaged pickle: a persistent id {pid[2:]!r:.80}")
    if numel < 0:
        raise RuntimeError(f"load: a storage must not have {numel} elements")
    return dtype, key, location, numel * (dtype.itemsize if dtype else 1)


def kind_of(dtype):
    """The storage type whose name stands in files; of dtypes that have none UntypedStorage."""
    return _KINDS.get(dtype, UntypedStorage)


_KINDS = {cls.dtype: cls for cls in LEGACY.values()}
