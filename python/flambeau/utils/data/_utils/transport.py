"""Values between processes. Small ones travel inside a message; the elements of tensors lie in
shared arenas, which are used again once the receiver has dropped what lay in them.

An arena is an anonymous file that both sides map: no name is left behind when a process is killed,
and no descriptor stays open.
"""

import collections
import ctypes
import io
import mmap
import os
import pickle
import socket
import struct
import weakref

import flambeau

_ALIGN = 64
_INLINE = 1024  # bytes of a pickle that go into the message itself
_SPARE = 4  # arenas a sender keeps for later
_HEAD = struct.Struct("<qqqqqq")  # task, kind, arena, its size, length of the pickle, how many fds
_libc = None


def _aligned(size):
    return -(-size // _ALIGN) * _ALIGN


def _anonymous_file(size):
    """A descriptor of `size` bytes that exist: a full memory is an error here, not a signal later."""
    fd = os.memfd_create("flambeau-data")
    try:
        os.posix_fallocate(fd, 0, size)
    except BaseException:
        os.close(fd)
        raise
    return fd


class Region:
    """Shared memory, mapped until nobody holds it. Unlike mmap.mmap it keeps no descriptor."""

    def __init__(self, fd, size):
        global _libc
        if _libc is None:
            _libc = ctypes.CDLL(None, use_errno=True)
            _libc.mmap.restype = ctypes.c_void_p
            _libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3
            _libc.mmap.argtypes += [ctypes.c_long]
            _libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        both = mmap.PROT_READ | mmap.PROT_WRITE
        address = _libc.mmap(None, size, both, mmap.MAP_SHARED, fd, 0)
        if address == ctypes.c_void_p(-1).value:
            code = ctypes.get_errno()
            raise OSError(code, f"DataLoader: mapping {size} bytes failed: {os.strerror(code)}")
        self.address, self.size = address, size
        weakref.finalize(self, _libc.munmap, address, size).atexit = False

    def memory(self):
        """A buffer over it; the region outlives the buffer."""
        view = (ctypes.c_char * self.size).from_address(self.address)
        weakref.finalize(view, lambda region: None, self).atexit = False
        return view


class _Pickler(pickle.Pickler):
    """Leaves the elements of plain tensors to the arena."""

    def __init__(self, file):
        super().__init__(file, protocol=5)
        self.tensors = []

    def reducer_override(self, value):
        if type(value) is not flambeau.Tensor or value.device.type != "cpu":
            return NotImplemented
        if value.grad_fn is not None:
            raise RuntimeError(
                "DataLoader: a tensor with a history cannot leave its process; detach it"
            )
        if value.numel() == 0 or value.layout is not flambeau.strided:
            return NotImplemented
        self.tensors.append(value.detach().contiguous())
        place = len(self.tensors) - 1
        return _tensor_at, (place, value.dtype, tuple(value.shape), value.requires_grad)


_reading = []  # of the value that is being read: its memory and where its tensors begin


def _tensor_at(place, dtype, shape, requires_grad):
    memory, offsets = _reading[-1]
    count = 1
    for n in shape:
        count *= n
    flat = flambeau.frombuffer(memory, dtype=dtype, count=count, offset=offsets[place])
    return flat.reshape(shape).requires_grad_(requires_grad)


class _Arena:
    def __init__(self, number, size):
        self.number, self.size = number, size
        self.fd = _anonymous_file(size)  # until it has been sent
        self.region = Region(self.fd, size)
        self.memory = None
        self.reset()

    def reset(self):
        """Empties it; False if tensors of the last value still live on this side."""
        last = self.memory and weakref.ref(self.memory)
        self.memory = None
        if last and last():
            return False
        self.memory = self.region.memory()
        self.used = 0
        self.placed = {}  # address of a tensor that was made here -> its offset
        return True

    def take(self, size):
        """The offset of `size` bytes, None if they do not fit."""
        start = self.used
        if start + size > self.size:
            return None
        self.used = _aligned(start + size)
        return start

    def tensor(self, shape, dtype):
        """An uninitialised tensor in the arena, None if it does not fit."""
        count = 1
        for n in shape:
            count *= n
        offset = self.take(count * dtype.itemsize) if count else None
        if offset is None:
            return None
        flat = flambeau.frombuffer(self.memory, dtype=dtype, count=count, offset=offset)
        self.placed[flat.data_ptr()] = offset
        return flat.reshape(shape)


class Channel:
    """One end of a two-way line for messages (task, kind, value)."""

    def __init__(self, sock):
        self.socket = sock
        self.waiting = collections.deque()  # messages that the line had no room for
        self.regions = {}  # of the other side's arenas
        self.dropped = []  # numbers of the arenas whose values are gone here
        self.arenas = {}  # of this side, by number
        self.spare = []  # those that nobody uses
        self.forgotten = []  # numbers of those that will not come again
        self.current = None
        self.needed = 0  # bytes of the last value
        self.count = 0

    @staticmethod
    def pair():
        return map(Channel, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))

    def fileno(self):
        return self.socket.fileno()

    def close(self):
        self.socket.close()
        self.regions.clear()

    # ---- arenas of this side ----

    def _arena(self, size):
        """A spare arena that is large enough, or a new one."""
        for arena in self.spare[:]:
            self.spare.remove(arena)
            if arena.size >= size and arena.reset():
                return arena
            self._forget(arena.number)
        self.count += 1
        self.arenas[self.count] = arena = _Arena(self.count, max(_aligned(size), mmap.PAGESIZE))
        return arena

    def place(self, shape, dtype):
        """Room for a tensor of the next value, where a batch can be made without another copy."""
        if self.current is None and self.needed:
            self.current = self._arena(self.needed)
        return self.current.tensor(shape, dtype) if self.current else None

    def _give_back(self, numbers):
        """The other side has dropped what lay in these arenas."""
        for number in numbers:
            if len(self.spare) < _SPARE:
                self.spare.append(self.arenas[number])
            else:
                self._forget(number)

    def _forget(self, number):
        del self.arenas[number]
        self.forgotten.append(number)

    def _stored(self, tensors):
        """(arena or None, offset of every tensor), with all tensors in the arena."""
        arena, self.current = self.current, None
        sizes = [t.numel() * t.element_size() for t in tensors]
        self.needed = sum(map(_aligned, sizes))
        offsets = self._copied(arena, tensors, sizes) if arena else None
        if offsets is None and tensors:
            arena, before = self._arena(self.needed), arena
            offsets = self._copied(arena, tensors, sizes)
            if before:
                self.spare.append(before)
        elif arena and not tensors:
            self.spare.append(arena)
            arena = None
        return arena, offsets or []

    @staticmethod
    def _copied(arena, tensors, sizes):
        offsets = []
        for tensor, size in zip(tensors, sizes):
            offset = arena.placed.get(tensor.data_ptr())
            if offset is None:
                offset = arena.take(size)
                if offset is None:
                    return None
                flambeau.frombuffer(
                    arena.memory, dtype=tensor.dtype, count=tensor.numel(), offset=offset
                ).copy_(tensor.reshape(-1))
            offsets.append(offset)
        return offsets

    # ---- messages ----

    def send(self, task, kind, value, wait=True):
        """Sends a message; without `wait` it stays here while the line is full."""
        file = io.BytesIO()
        pickler = _Pickler(file)
        try:
            pickler.dump(value)
        except BaseException:
            self._stored([])
            raise
        arena, offsets = self._stored(pickler.tensors)
        dropped = self.dropped[:]
        del self.dropped[: len(dropped)]
        forgotten, self.forgotten = self.forgotten, []
        payload = pickle.dumps((dropped, forgotten, offsets)) + file.getvalue()
        fds = []
        if arena and arena.fd is not None:
            fds.append(arena.fd)
            arena.fd = None
        if len(payload) > _INLINE:
            fds.append(_anonymous_file(len(payload)))
            os.pwrite(fds[-1], payload, 0)
        size, number = (arena.size, arena.number) if arena else (0, 0)
        head = _HEAD.pack(task, kind, number, size, len(payload), len(fds))
        self.waiting.append((head + (payload if len(payload) <= _INLINE else b""), fds))
        self.flush(wait)

    def flush(self, wait=False):
        """Sends what waits, as far as the line takes it."""
        while self.waiting:
            message, fds = self.waiting[0]
            try:
                flags = 0 if wait else socket.MSG_DONTWAIT
                socket.send_fds(self.socket, [message], fds, flags)
            except BlockingIOError:
                return
            self.waiting.popleft()
            for fd in fds:
                os.close(fd)

    def receive(self):
        """(task, kind, value); EOFError if the other side is gone."""
        message, fds, _, _ = socket.recv_fds(self.socket, _HEAD.size + _INLINE, 2)
        if not message:
            raise EOFError
        task, kind, number, size, length, _ = _HEAD.unpack(message[: _HEAD.size])
        payload = message[_HEAD.size :]
        if length > _INLINE:
            fd = fds.pop()
            payload = os.pread(fd, length, 0)
            os.close(fd)
        if fds:
            self.regions[number] = Region(fds[0], size)
            os.close(fds[0])
        return task, kind, self._read(number, payload)

    def _read(self, number, payload):
        file = io.BytesIO(payload)
        dropped, forgotten, offsets = pickle.load(file)
        self._give_back(dropped)
        for gone in forgotten:
            self.regions.pop(gone, None)
        memory = None
        if number:
            memory = self.regions[number].memory()
            weakref.finalize(memory, self.dropped.append, number).atexit = False
        _reading.append((memory, offsets))
        try:
            return pickle.load(file)
        finally:
            _reading.pop()
