"""Work, the handle of a call with `async_op=True`, and the buffers that a call reads and writes."""

from ..autograd import is_grad_enabled
from ..errors import DTypeError, GraphError
from ..tensor import Tensor

__all__ = ["Buffer", "Work", "check_tensor", "finished"]


class Work:
    """Handle of an unfinished call, whose result is valid after `wait()`.

    The handle keeps the buffers of the call alive.

    Parameters
    ----------
    requests : list
        The engine's requests, each with `wait()` and `test()`.
    finish : callable
        Function that is called once all requests are done. It may, for example, divide a sum by the
        number of ranks.
    """

    def __init__(self, requests, finish):
        self._requests, self._finish = requests, finish

    def wait(self):
        """Wait for the result, and return True."""
        for request in self._requests:
            request.wait()
        self._complete()
        return True

    def is_completed(self):
        """Return True if the result is ready, without waiting for it."""
        for request in self._requests:
            if not request.test():
                return False
        self._complete()
        return True

    def _complete(self):
        finish, self._finish, self._requests = self._finish, None, []
        if finish is not None:
            finish()


def finished(group, request, finish, later):
    """Finish a call now, or return a Work that finishes it later.

    Parameters
    ----------
    group : ProcessGroup
    request : Request or None
        Request that the engine returned.
    finish : callable
        Function without arguments that completes the call.
    later : bool
        Value of the caller's `async_op`. If False, the call is finished now.
    """
    if not later:
        finish()
        return None
    work = Work([] if request is None else [request], finish)
    group.keep(work)
    return work


class Buffer:
    """C-contiguous array with the values of a tensor; `write_back` copies it into the tensor.

    Attributes
    ----------
    array : array
        The tensor's own array if it is C-contiguous and has the dtype `dtype`; otherwise a copy.

    Parameters
    ----------
    tensor : Tensor
    dtype : dtype, optional
        Dtype of `array`; by default the tensor's own.
    """

    def __init__(self, tensor, dtype=None):
        self.tensor, own = tensor, tensor.array
        dtype = own.dtype if dtype is None else dtype
        same_bytes = own.dtype == dtype or (own.dtype == "bool" and dtype == "uint8")
        self.is_copy = not (own.flags.c_contiguous and same_bytes)
        self.array = own.astype(dtype, order="C") if self.is_copy else own.view(dtype)

    def write_back(self):
        """Copy the array into the tensor if necessary, and record that the tensor has changed."""
        if self.is_copy:
            self.tensor.array[...] = self.array
        self.tensor.changed_in_place()


def check_tensor(tensor, group, where, argument="tensor", written=True):
    """Raise an error unless a collective can read this tensor and, if `written`, write it.

    As in PyTorch, a collective may write a leaf that requires grad; this is how parameters are
    broadcast. If a collective overwrites the result of a recorded operation, gradients may become
    wrong: PyTorch issues a warning, and this function raises an error.
    """
    if not isinstance(tensor, Tensor):
        raise DTypeError(
            f"{where}: {argument} is not a tensor",
            got=f"{tensor!r:.60} of type {type(tensor).__name__}",
            hint="convert a number, a list or an array with mt.tensor(...)",
        )
    group.engine.check(tensor.array, where)
    if written and not tensor.is_leaf and is_grad_enabled():
        raise GraphError(
            f"{where}: {argument} is the result of an operation that requires grad",
            got=f"a tensor of shape {tensor.shape} computed by {tensor.grad_fn}",
            expected="a tensor outside the graph, because the graph does not record this call",
            hint="use mt.distributed.functional, or tensor.detach()",
        )
