"""MPI engine: collectives on NumPy arrays, each a single mpi4py call on the arrays' memory.

mpi4py has two sets of methods. Methods whose names start with an upper-case letter (`Allreduce`)
pass the memory of an array to MPI without a copy. Methods whose names start with a lower-case
letter (`allreduce`) pickle their arguments, and are not used here. A method whose name starts with
`I` (`Iallreduce`) returns at once; it returns a request that the program can wait for.
"""

from ..errors import CommunicationError, DeviceError, DTypeError, ShapeError

__all__ = ["MpiEngine", "close", "is_available", "load"]

_MOST_TAGS = 32_767  # largest tag that every MPI library supports
_known = {}  # "MPI": the module, once it works; "started": whether this file initialized MPI


def load():
    """Import mpi4py and start MPI, once per process; return the module `mpi4py.MPI`.

    Raises
    ------
    CommunicationError
        If mpi4py or an MPI library is not installed.
    """
    if "MPI" not in _known:
        _known["MPI"] = _started()
    return _known["MPI"]


def _started():
    try:
        import mpi4py
    except ImportError as error:
        raise _not_installed("mpi4py", error) from None
    # This file calls MPI's Init and Finalize itself; see at_exit.py.
    mpi4py.rc.initialize = mpi4py.rc.finalize = False
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise _not_installed("an MPI library", error) from None
    if not MPI.Is_initialized():
        MPI.Init_thread(MPI.THREAD_MULTIPLE)
        _known["started"] = True
    return MPI


def _not_installed(what, error):
    return CommunicationError(
        f"the backend 'mpi' is unavailable: {what} is not installed",
        got=str(error).splitlines()[0],
        hint="python -m pip install 'minitorch-attn[mpi]', which installs mpi4py and MPICH",
    )


def close():
    """At the end of the process, wait for all ranks and close MPI, if `load` has started MPI."""
    if _known.pop("started", False):
        _known.pop("MPI").Finalize()


def is_available():
    """Return True if mpi4py and an MPI library are installed. This does not start MPI."""
    if "MPI" in _known:
        return True
    try:
        import mpi4py

        mpi4py.rc.initialize = mpi4py.rc.finalize = False
        from mpi4py import MPI  # noqa: F401
    except (ImportError, RuntimeError):
        return False
    return True


class Request:
    """An MPI operation in progress.

    Parameters
    ----------
    request : mpi4py.MPI.Request
    check : callable, optional
        Function that is called with the status of the finished operation.
    """

    def __init__(self, request, check=None):
        self.request, self.check, self.done = request, check, False

    def wait(self):
        """Wait until the operation has finished."""
        if not self.done:
            MPI = load()
            status = MPI.Status()
            _translated(self.request.Wait, status)
            self._finish(status)

    def test(self):
        """Return True if the operation has finished."""
        if not self.done:
            MPI = load()
            status = MPI.Status()
            if not _translated(self.request.Test, status):
                return False
            self._finish(status)
        return True

    def _finish(self, status):
        self.done = True
        if self.check is not None:
            self.check(status)


class MpiEngine:
    """Collectives of one group of ranks, on C-contiguous NumPy arrays.

    Every method works in place or writes into its first argument. With `later=True`, a method
    returns a Request at once; otherwise it returns None as soon as the result is available. `src`
    and `dst` are ranks in the group.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm, optional
        Communicator of the group. The default is a duplicate of the world communicator, so that
        the engine's messages do not mix with messages of the user's own MPI calls.
    """

    name, device = "mpi", "cpu"

    def __init__(self, comm=None):
        self.MPI = load()
        self.comm = self.MPI.COMM_WORLD.Dup() if comm is None else comm
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()

    def subgroup(self, ranks, number):
        """Return an engine for the given ranks, or None on all other ranks.

        Parameters
        ----------
        ranks : list of int
        number : int
            Number of groups created so far; it distinguishes the messages of different groups.
        """
        if self.rank not in ranks:
            return None
        members = self.comm.Get_group().Incl(ranks)
        return MpiEngine(self.comm.Create_group(members, tag=number % _MOST_TAGS))

    def check(self, array, where):
        """Raise an error if an array is not in the memory of the host."""
        if not hasattr(array, "__array_interface__"):
            raise DeviceError(
                f"{where}: the backend 'mpi' supports tensors on the CPU only",
                got=f"a {type(array).__module__}.{type(array).__name__}",
                hint='use init_process_group("nccl") for CUDA tensors, or tensor.cpu()',
            )

    def reduction_dtype(self, dtype, where):
        """Return the dtype in which MPI reduces values of `dtype`."""
        if dtype == "float16":
            return "float32"  # the MPI standard does not have float16; only the result is rounded
        if dtype == "bool":
            return "uint8"  # 0 and 1: MAX is "or", MIN is "and"
        if dtype.kind not in "fiu":
            raise DTypeError(f"{where}: this dtype cannot be reduced", got=f"{dtype}")
        return dtype

    def all_reduce(self, array, op, later=False):
        """Replace `array` on every rank with the reduction over the ranks."""
        return self._run("Allreduce", self.MPI.IN_PLACE, array, self._op(op), later=later)

    def reduce(self, array, dst, op, later=False):
        """Replace `array` on rank `dst` with the reduction over the ranks."""
        at_root = self.rank == dst
        buffers = (self.MPI.IN_PLACE, array) if at_root else (array, None)
        return self._run("Reduce", *buffers, self._op(op), dst, later=later)

    def reduce_scatter(self, output, array, op, later=False):
        """Reduce `array` over the ranks; rank r receives part r of N equal parts."""
        return self._run("Reduce_scatter_block", array, output, self._op(op), later=later)

    def broadcast(self, array, src, later=False):
        """Replace `array` on every rank with the array on rank `src`."""
        return self._run("Bcast", self._bytes(array), src, later=later)

    def all_gather(self, output, array, later=False):
        """Write the arrays of all ranks into `output`, one after the other."""
        return self._run("Allgather", self._bytes(array), self._bytes(output), later=later)

    def gather(self, output, array, dst, later=False):
        """Write all ranks' arrays into `output` on rank `dst`.

        On all ranks except `dst`, `output` is None.
        """
        into = None if output is None else self._bytes(output)
        return self._run("Gather", self._bytes(array), into, dst, later=later)

    def scatter(self, output, array, src, later=False):
        """Send part r of rank `src`'s array to `output` on rank r.

        On all ranks except `src`, `array` is None.
        """
        whole = None if array is None else self._bytes(array)
        return self._run("Scatter", whole, self._bytes(output), src, later=later)

    def all_to_all(self, output, array, output_sizes, sizes, later=False):
        """Split `array` into consecutive parts, and send part r (`sizes[r]` elements) to rank r."""
        sent = self._pieces(array, sizes)
        received = self._pieces(output, output_sizes)
        return self._run("Alltoallv", sent, received, later=later)

    def send(self, array, dst, tag=0, later=False):
        """Send `array` to rank `dst`."""
        return self._run("Send", self._bytes(array), dst, tag, later=later)

    def recv(self, array, src, tag=0, later=False):
        """Receive an array from rank `src`, or from any rank if `src` is None; return the source.

        With `later=True`, return a Request instead.
        """
        source = self.MPI.ANY_SOURCE if src is None else src
        expected = array.nbytes

        def check(status):
            _check_length(status.Get_count(self.MPI.BYTE), expected, status.Get_source())

        if later:
            return Request(_translated(self.comm.Irecv, self._bytes(array), source, tag), check)
        status = self.MPI.Status()
        _translated(self.comm.Recv, self._bytes(array), source, tag, status)
        check(status)
        return status.Get_source()

    def barrier(self, later=False):
        """Wait until every rank of the group has called `barrier`."""
        return self._run("Barrier", later=later)

    def together(self):
        """Return a context that does nothing. MPI can start sends and receives without it."""
        from contextlib import nullcontext

        return nullcontext()

    def close(self):
        """Free the communicator. All ranks of the group must call this."""
        self.comm.Free()

    def abort(self, status):
        """End all ranks of the run, including ranks that are not in this group."""
        self.MPI.COMM_WORLD.Abort(status)

    def _run(self, name, *arguments, later):
        if later:
            start = getattr(self.comm, f"I{name.lower()}")
            return Request(_translated(start, *arguments))
        _translated(getattr(self.comm, name), *arguments)
        return None

    def _op(self, op):
        return getattr(self.MPI, {"PRODUCT": "PROD"}.get(op, op))

    def _bytes(self, array):
        """Return the memory of an array as an MPI buffer of bytes, which works for every dtype."""
        return [array, self.MPI.BYTE]

    def _pieces(self, array, sizes):
        counts = [size * array.itemsize for size in sizes]
        starts = [sum(counts[:i]) for i in range(len(counts))]
        return [array, counts, starts, self.MPI.BYTE]


def _check_length(got, expected, source):
    if got != expected:
        raise ShapeError(
            f"recv: the message from rank {source} does not have the size of the tensor",
            got=f"a message of {got} bytes",
            expected=f"{expected} bytes",
            hint="sender and receiver must use tensors of the same shape and dtype",
        )


def _translated(function, *arguments):
    """Call an MPI function, and convert its exceptions to this library's errors."""
    MPI = load()
    try:
        return function(*arguments)
    except MPI.Exception as error:
        cause = error.Get_error_string()
        if error.Get_error_class() == MPI.ERR_TRUNCATE:
            raise ShapeError(
                "the ranks passed tensors of different sizes",
                got=" ".join(cause.split()),
                hint="every rank must pass tensors of the same shape and dtype to the same call",
            ) from None
        raise CommunicationError(
            f"MPI could not run {getattr(function, '__name__', 'a call')}",
            got=" ".join(cause.split()),
            hint="the output of another rank may name the cause",
        ) from error
