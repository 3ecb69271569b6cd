"""Values between processes: each travels as one anonymous memory file.

The pickle comes first, then the elements of plain tensors as they are; the receiver's tensors live
in that memory. The messages themselves are a few bytes, so no side waits for the other to read.
"""

import mmap
import os
import pickle
import socket
import struct

import flambeau

_ALIGN = 64
_HEAD = struct.Struct("<qqq")  # task, kind, bytes of the pickle


def _aligned(size):
    return -(-size // _ALIGN) * _ALIGN


class _Pickler(pickle.Pickler):
    """Leaves the elements of plain tensors to a list."""

    def __init__(self, file):
        super().__init__(file, protocol=5)
        self.tensors = []
        self.end = 0

    def reducer_override(self, value):
        if type(value) is not flambeau.Tensor or value.device.type != "cpu":
            return NotImplemented
        if value.grad_fn is not None:
            raise RuntimeError(
                "DataLoader: a tensor with a history cannot leave its process; detach it"
            )
        if value.numel() == 0 or value.layout is not flambeau.strided:
            return NotImplemented
        dense = value.detach().contiguous()
        place = self.end
        self.tensors.append(dense)
        self.end = _aligned(place + dense.numel() * dense.element_size())
        return _tensor_at, (place, value.dtype, tuple(value.shape), value.requires_grad)


_memory = []  # what is being read: the file and where its tensors begin


def _tensor_at(place, dtype, shape, requires_grad):
    memory, start = _memory[-1]
    count = 1
    for n in shape:
        count *= n
    flat = flambeau.frombuffer(memory, dtype=dtype, count=count, offset=start + place)
    return flat.reshape(shape).requires_grad_(requires_grad)


def _write(value):
    fd = os.memfd_create("flambeau-data")
    try:
        with open(fd, "wb", closefd=False) as file:
            pickler = _Pickler(file)
            pickler.dump(value)
            size = file.tell()
            for tensor in pickler.tensors:
                file.write(bytes(_aligned(file.tell()) - file.tell()))
                file.write(tensor)
    except BaseException:
        os.close(fd)
        raise
    return fd, size


def _read(fd, size):
    try:
        memory = mmap.mmap(fd, 0)
    finally:
        os.close(fd)
    _memory.append((memory, _aligned(size)))
    try:
        return pickle.loads(memoryview(memory)[:size])
    finally:
        _memory.pop()


class Channel:
    """One end of a two-way line for (task, kind, value) messages."""

    def __init__(self, sock):
        self.socket = sock

    @staticmethod
    def pair():
        return map(Channel, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))

    def fileno(self):
        return self.socket.fileno()

    def close(self):
        self.socket.close()

    def send(self, task, kind, value):
        fd, size = _write(value)
        try:
            socket.send_fds(self.socket, [_HEAD.pack(task, kind, size)], [fd])
        finally:
            os.close(fd)

    def receive(self):
        """(task, kind, value); EOFError if the other side is gone."""
        head, fds, _, _ = socket.recv_fds(self.socket, _HEAD.size, 1)
        if not head:
            raise EOFError
        task, kind, size = _HEAD.unpack(head)
        return task, kind, _read(fds[0], size)
