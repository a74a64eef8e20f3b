"""NCCL engine: collectives on CuPy arrays, whose addresses it passes to `cupy.cuda.nccl`.

Each process uses one GPU. NCCL adds its work to a CUDA stream and returns before the work is done.
By default, a call uses the current stream, so that later operations see its result. With
`later=True`, a call uses the engine's own stream, and its work overlaps with the current stream.

The tests run each rank in a thread of one process, with a stand-in for CuPy's classes. This file
has not been run on GPUs.
"""

from contextlib import contextmanager

from ..backend import address, device_of
from ..backend import cuda as cuda_backend
from ..errors import ArgumentError, CommunicationError, DeviceError, DTypeError
from . import rendezvous

__all__ = ["NcclEngine", "connect", "is_available"]

_TYPES = {  # dtype -> name of NCCL's constant
    "float64": "NCCL_FLOAT64",
    "float32": "NCCL_FLOAT32",
    "float16": "NCCL_FLOAT16",
    "int64": "NCCL_INT64",
    "int32": "NCCL_INT32",
    "int8": "NCCL_INT8",
    "uint8": "NCCL_UINT8",
}
_OPS = {"SUM": "NCCL_SUM", "PRODUCT": "NCCL_PROD", "MAX": "NCCL_MAX", "MIN": "NCCL_MIN"}


def is_available():
    """Return True if CUDA works and CuPy was built with NCCL."""
    return cuda_backend.is_available() and _has_nccl(cuda_backend.load().cuda)


def _has_nccl(cuda):
    return bool(getattr(getattr(cuda, "nccl", None), "available", False))


def connect(init_method=None, world_size=-1, rank=-1):
    """Connect to the other ranks, select this rank's device, and return an engine for all ranks.

    Parameters
    ----------
    init_method : str, optional
        See `init_process_group`.
    world_size, rank : int, optional
    """
    cuda = cuda_backend.load().cuda
    if not _has_nccl(cuda):
        raise CommunicationError(
            "the backend 'nccl' is unavailable: CuPy cannot find NCCL",
            hint="on Linux, python -m pip install nvidia-nccl-cu13 (or -cu12), and look at "
            "cupy.show_config()",
        )
    place = rendezvous.find(init_method, world_size, rank)
    cuda_backend.set_device(place.local_rank % cuda_backend.device_count())
    unique_id = place.exchange(lambda: rendezvous.encoded(cuda.nccl.get_unique_id()))
    communicator = cuda.nccl.NcclCommunicator(
        place.world_size, rendezvous.decoded(unique_id), place.rank
    )
    return NcclEngine(cuda, communicator, place.rank, place.world_size, place.abort)


class Request:
    """NCCL work in progress on the engine's own stream.

    Parameters
    ----------
    cuda : module
    event : cupy.cuda.Event
        Event that is recorded after the work. In a `together` block, None until the block ends.
    """

    def __init__(self, cuda, event):
        self.cuda, self.event = cuda, event

    def wait(self):
        """Make the current stream wait for the work. The host does not wait."""
        self.cuda.get_current_stream().wait_event(self.event)

    def test(self):
        """Return True if the work is done."""
        if not self.event.done:
            return False
        self.wait()
        return True


class NcclEngine:
    """Collectives of one group of ranks, on C-contiguous CuPy arrays.

    The class has the same methods as `MpiEngine`.

    Parameters
    ----------
    cuda : module
        `cupy.cuda`, with its `nccl`.
    communicator : cupy.cuda.nccl.NcclCommunicator
    rank, size : int
        Rank of this process, and number of ranks.
    abort : callable, optional
        Function `abort(status)` that ends all ranks.
    """

    name, device = "nccl", "cuda"

    def __init__(self, cuda, communicator, rank, size, abort=None):
        self.cuda, self.nccl, self.comm = cuda, cuda.nccl, communicator
        self.rank, self.size = rank, size
        self._stream = None  # for calls with later=True
        self._abort = abort
        self._together = None  # requests of an open `together` block

    def subgroup(self, ranks, number):
        """Return an engine for the given ranks, or None on all others. All ranks must call this."""
        is_first = self.rank == ranks[0]
        data = self.nccl.get_unique_id() if is_first else [0] * rendezvous.ID_BYTES
        array = self._on_device([value % 256 for value in data])
        self.broadcast(array, ranks[0])
        if self.rank not in ranks:
            return None
        unique_id = rendezvous.decoded(bytes(array.tolist()))
        own = ranks.index(self.rank)
        communicator = self.nccl.NcclCommunicator(len(ranks), unique_id, own)
        return NcclEngine(self.cuda, communicator, own, len(ranks), self._abort)

    def _on_device(self, data):
        return cuda_backend.load().array(data, dtype="uint8")

    def check(self, array, where):
        """Raise an error if an array is not on a GPU."""
        if device_of(array).type != "cuda":
            raise DeviceError(
                f"{where}: the backend 'nccl' supports CUDA tensors only",
                got=f"a tensor on {device_of(array)}",
                hint='use init_process_group("mpi") for tensors on the CPU, or tensor.cuda()',
            )

    def reduction_dtype(self, dtype, where):
        """Return the dtype in which NCCL reduces values of `dtype`; float16 stays float16."""
        if dtype == "bool":
            return "uint8"
        if str(dtype) not in _TYPES:
            raise DTypeError(
                f"{where}: NCCL cannot reduce this dtype",
                got=f"{dtype}",
                expected=", ".join(_TYPES),
            )
        return dtype

    def all_reduce(self, array, op, later=False):
        """Replace `array` on every rank with the reduction over the ranks."""
        place, count, code = address(array), array.size, self._type(array)
        return self._run("allReduce", place, place, count, code, self._op(op), later=later)

    def reduce(self, array, dst, op, later=False):
        """Replace `array` on rank `dst` with the reduction over the ranks."""
        into = address(array) if self.rank == dst else 0
        what = address(array), into, array.size, self._type(array), self._op(op), dst
        return self._run("reduce", *what, later=later)

    def reduce_scatter(self, output, array, op, later=False):
        """Reduce `array` over the ranks; rank r receives part r of N equal parts."""
        what = address(array), address(output), output.size, self._type(array), self._op(op)
        return self._run("reduceScatter", *what, later=later)

    def broadcast(self, array, src, later=False):
        """Replace `array` on every rank with the array on rank `src`."""
        place, byte = address(array), self.nccl.NCCL_UINT8
        return self._run("broadcast", place, place, array.nbytes, byte, src, later=later)

    def all_gather(self, output, array, later=False):
        """Write the arrays of all ranks into `output`, one after the other."""
        what = address(array), address(output), array.nbytes, self.nccl.NCCL_UINT8
        return self._run("allGather", *what, later=later)

    def gather(self, output, array, dst, later=False):
        """Write all ranks' arrays into `output` on rank `dst`.

        On all ranks except `dst`, `output` is None.
        """
        messages = [("send", address(array), array.nbytes, dst)]
        if output is not None:
            messages += self._from_all(output, [array.nbytes] * self.size)
        return self._exchange(messages, later)

    def scatter(self, output, array, src, later=False):
        """Send part r of rank `src`'s array to `output` on rank r.

        On all ranks except `src`, `array` is None.
        """
        messages = [("recv", address(output), output.nbytes, src)]
        if array is not None:
            messages += self._to_all(array, [output.nbytes] * self.size)
        return self._exchange(messages, later)

    def all_to_all(self, output, array, output_sizes, sizes, later=False):
        """Split `array` into consecutive parts, and send part r (`sizes[r]` elements) to rank r."""
        sent = [size * array.itemsize for size in sizes]
        received = [size * output.itemsize for size in output_sizes]
        return self._exchange(self._to_all(array, sent) + self._from_all(output, received), later)

    def send(self, array, dst, tag=0, later=False):
        """Send `array` to rank `dst`."""
        _refuse_tag(tag, "send")
        what = address(array), array.nbytes, self.nccl.NCCL_UINT8, dst
        return self._run("send", *what, later=later)

    def recv(self, array, src, tag=0, later=False):
        """Receive an array from rank `src`. Return a Request if `later`, otherwise `src`."""
        _refuse_tag(tag, "recv")
        if src is None:
            raise ArgumentError(
                "recv: src is missing, and NCCL requires it", got="src=None", hint="pass src=rank"
            )
        what = address(array), array.nbytes, self.nccl.NCCL_UINT8, src
        request = self._run("recv", *what, later=later)
        return request if later else src

    def barrier(self, later=False):
        """Wait, on the host as well, until every rank of the group has called `barrier`."""
        request = self.all_reduce(self._on_device([1]), "SUM", later=later)
        if not later:
            self.cuda.get_current_stream().synchronize()
        return request

    @contextmanager
    def together(self):
        """Context in which several sends and receives start together, so that none blocks.

        NCCL launches the messages when the block ends. Until then, a request has no CUDA event that
        one could wait for.
        """
        self._together = []
        self.nccl.groupStart()
        try:
            yield
        finally:
            self.nccl.groupEnd()
            requests, self._together = self._together, None
            if requests:
                event = self._stream.record()
                for request in requests:
                    request.event = event

    def close(self):
        """Wait for all work, and free the communicator."""
        self.cuda.get_current_stream().synchronize()
        if self._stream is not None:
            self._stream.synchronize()
        self.comm.destroy()

    def abort(self, status):
        """Abort the communicator and, if the ranks found each other through MPI, end all ranks."""
        self.comm.abort()
        if self._abort is not None:
            self._abort(status)

    def _run(self, name, *arguments, later):
        """Call the communicator's method `name` on the current stream or, if `later`, `_stream`."""
        return self._start(lambda stream: getattr(self.comm, name)(*arguments, stream), later)

    def _exchange(self, messages, later):
        """Add several sends and receives of bytes to a stream, as one NCCL group call."""

        def start(stream):
            self.nccl.groupStart()
            for name, place, size, partner in messages:
                getattr(self.comm, name)(place, size, self.nccl.NCCL_UINT8, partner, stream)
            self.nccl.groupEnd()

        return self._start(start, later)

    def _start(self, start, later):
        current = self.cuda.get_current_stream()
        if not later:
            start(current.ptr)
            return None
        if self._stream is None:
            self._stream = self.cuda.Stream(non_blocking=True)
        self._stream.wait_event(current.record())  # wait for the input
        start(self._stream.ptr)
        if self._together is None:
            return Request(self.cuda, self._stream.record())
        self._together.append(Request(self.cuda, None))
        return self._together[-1]

    def _to_all(self, array, sizes):
        return self._pieces("send", array, sizes)

    def _from_all(self, array, sizes):
        return self._pieces("recv", array, sizes)

    def _pieces(self, name, array, sizes):
        """Split an array into one message per rank. The message for rank i has `sizes[i]` bytes."""
        start = address(array)
        return [(name, start + sum(sizes[:i]), size, i) for i, size in enumerate(sizes)]

    def _type(self, array):
        return getattr(self.nccl, _TYPES[str(array.dtype)])

    def _op(self, op):
        return getattr(self.nccl, _OPS[op])


def _refuse_tag(tag, where):
    if tag:
        raise ArgumentError(
            f"{where}: NCCL does not support tags",
            got=f"tag={tag}",
            hint="leave tag out; messages between two ranks arrive in the order of the calls",
        )
