"""Coalesced broadcasts: many tensors in few messages, one for each dtype and device."""

from ...autograd import no_grad
from ...backend import array_module, device_of
from ...distributed import broadcast
from ...tensor import wrap

__all__ = ["broadcast_tensors", "start_broadcast"]


def broadcast_tensors(tensors, group=None, src=0):
    """Copy tensors from one rank to all other ranks, in place.

    Parameters
    ----------
    tensors : list of Tensor
        Tensors of the same shapes and dtypes, in the same order, on every rank.
    group : ProcessGroup, optional
    src : int, default 0
        Rank of the sender within the group.
    """
    start_broadcast(tensors, group, src)()


def start_broadcast(tensors, group=None, src=0):
    """Start `broadcast_tensors`. Return a function that waits for the data and copies it."""
    batches = {}
    for t in tensors:
        batches.setdefault((str(t.dtype), device_of(t.array)), []).append(t)
    started = []
    with no_grad():
        for members in batches.values():
            xp = array_module(members[0].array)
            flat = wrap(xp.concatenate([t.array.reshape(-1) for t in members]))
            work = broadcast(flat, group=group, group_src=src, async_op=True)
            started.append((work, flat, members))

    def finish():
        for work, flat, members in started:
            work.wait()
            start = 0
            for t in members:
                stop = start + t.array.size
                t.array[...] = flat.array[start:stop].reshape(t.shape)
                t.changed_in_place()
                start = stop

    return finish
