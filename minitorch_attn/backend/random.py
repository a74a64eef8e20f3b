"""Random numbers that are the same on every device.

One generator on the host draws all initial weights and all random orders for shuffling. They are
then copied to the device.
Dropout masks are counter-based: entry i of a mask is a function of (seed, offset, i). So every
device computes the same mask, and no device needs a generator state.
"""

import math
import os
import threading
from contextlib import contextmanager

import numpy as np

from minitorch_attn.backend.batch_part import again_in, current, refuse_in_part, whole_mask
from minitorch_attn.backend.devices import array_module
from minitorch_attn.backend.graph_capture import refuse
from minitorch_attn.backend.kernel_table import with_kernel
from minitorch_attn.backend.philox import philox_words, words_at
from minitorch_attn.errors import ArgumentError, GraphError
from minitorch_attn.named_errors import names_arguments

__all__ = [
    "Position", "draw_mask", "get_rng_state", "host_generator", "initial_seed", "keep_mask",
    "keep_runs", "manual_seed", "mask_offset", "next_offset", "own_offsets", "reserve_offsets",
    "seed_from_system", "set_rng_state",
]  # fmt: skip

_LONG = 1024  # for runs of at least this length, NumPy's generator is faster than array operations
_LANES = 16  # mask entries per counter value: four 64-bit words of four 16-bit lanes


class _State:
    """State of the random numbers: seed, host generator and number of counter values used."""

    def __init__(self):
        self.lock = threading.RLock()
        self.seed = None
        self.generator = None
        self.offset = 0


_state = _State()


class _Thread(threading.local):
    offset = None  # for a thread with its own range of counter values
    seed = generator = None  # for a thread that repeats earlier draws


_thread = _Thread()
_RANGE = 2**32  # counter values of one thread for one step: 69 billion mask entries


def reserve_offsets(threads):
    """Reserve ranges of counter values, one for each of several threads.

    The numbers that a thread draws from its own range do not depend on when other threads draw.

    Returns
    -------
    list of int
        First counter value of each range.
    """
    refuse_in_part(
        "reserve_offsets: threads inside batch_part would draw the masks of other rows",
        hint="use threads=1 in each process",
    )
    first = next_offset(threads * _RANGE * _LANES)
    return [first + number * _RANGE for number in range(threads)]


@contextmanager
def own_offsets(first):
    """Inside the `with` block, let this thread use its own counter values, starting at `first`."""
    before, _thread.offset = _thread.offset, first
    try:
        yield
    finally:
        _thread.offset = before


class Position:
    """Position in this thread's stream of random numbers, saved to draw the same numbers again.

    Examples
    --------
    >>> here = Position()
    >>> first = next_offset(1), host_generator().random()
    >>> with here.again():
    ...     again = next_offset(1), host_generator().random()
    >>> first == again
    True
    """

    def __init__(self):
        own = _thread.offset is not None
        self.part = current.rows
        with _state.lock:
            self.seed = initial_seed()
            self.offset = _thread.offset if own else _state.offset
            self.bits = None
            if not own or _thread.generator is not None:
                self.bits = _generator().bit_generator.state

    @contextmanager
    def again(self):
        """Inside the `with` block, let this thread draw from the saved position on."""
        before = _thread.seed, _thread.offset, _thread.generator
        generator = None
        if self.bits is not None:
            generator = np.random.Generator(np.random.Philox(0))
            generator.bit_generator.state = self.bits
        _thread.seed, _thread.offset, _thread.generator = self.seed, self.offset, generator
        try:
            with again_in(self.part):
                yield
        finally:
            _thread.seed, _thread.offset, _thread.generator = before


@names_arguments
def manual_seed(seed):
    """Set the seed of all random numbers.

    Parameters
    ----------
    seed : int
        Seed from -2**63 to 2**64 - 1, as in PyTorch; a negative seed is taken modulo 2**64.

    Returns
    -------
    Generator
        The generator of the host, which draws weights and shuffles. Its method `manual_seed` does
        not set the seed of dropout masks, because they do not come from a generator.

    Examples
    --------
    >>> first = manual_seed(3).random()
    >>> generator = manual_seed(3)
    >>> first == host_generator().random()
    True
    """
    from minitorch_attn.backend.generator import Generator  # loads numpy.random

    seed = int(seed)
    if not -(2**63) <= seed < 2**64:
        raise ArgumentError(
            "manual_seed: seed is out of range",
            got=str(seed),
            expected="an int from -2**63 to 2**64 - 1",
            hint="pass seed % 2**64",
        )
    with _state.lock:
        _state.seed = seed % 2**64
        _state.generator = generator = Generator().manual_seed(seed)
        _state.offset = 0
    return generator


def seed_from_system():
    """Draw a 63-bit seed from the operating system."""
    return int.from_bytes(os.urandom(8), "little") >> 1


def initial_seed():
    """Return the seed in use; draw one from the operating system if it was not set."""
    if _thread.seed is not None:
        return _thread.seed
    with _state.lock:
        if _state.seed is None:
            _state.seed = seed_from_system()
        return _state.seed


def host_generator():
    """Return the host's numpy.random.Generator (Philox), used to draw weights and to shuffle.

    Only one thread may use the generator at a time. It is unavailable inside `own_offsets` and
    `batch_part`.
    """
    refuse("draws random numbers on the host")
    refuse_in_part(
        "host_generator: inside batch_part, only dropout masks can be drawn by row",
        hint="draw these numbers outside the forward pass, for the whole batch",
    )
    return _generator()


def _generator():
    """Return the generator of `host_generator`, to read or set its state."""
    if _thread.generator is not None:
        return _thread.generator
    if _thread.offset is not None:
        raise GraphError(
            "host_generator: random numbers would depend on the order of the threads",
            got="a forward pass that draws random numbers other than dropout masks",
            expected="counter-based random numbers only, which do not depend on that order",
            hint="train with threads=1",
        )
    with _state.lock:
        if _state.generator is None:
            _state.generator = np.random.Generator(np.random.Philox(initial_seed()))
        return _state.generator


def next_offset(size):
    """Reserve the counter values for a mask of `size` entries, and return the first one.

    Returns
    -------
    int
        First counter value of a range that only the caller uses.
    """
    if _thread.offset is not None:
        offset = _thread.offset
        _thread.offset += -(-size // _LANES)
        return offset
    with _state.lock:
        offset = _state.offset
        _state.offset += -(-size // _LANES)
        return offset


class _PartOffset(int):
    """First counter value for a part of a mask that does not start at a multiple of 16 entries.

    One counter value yields 16 entries. The first `skip` of them come before the part. `keep_mask`
    discards them.
    """

    skip = 0


def mask_offset(shape):
    """Reserve the counter values for a mask of this shape, and return the first one.

    Inside `batch_part`, `shape` is the shape of this process's part of a mask. The counter values
    of the mask for the full batch are then reserved, and the first one of the part is returned.

    Returns
    -------
    int
        First counter value, to be passed to `keep_mask`. Inside `batch_part`, the integer also
        stores where the part begins. `keep_mask` can then draw the same part again after the block,
        for example in a backward pass.
    """
    if current.rows is None:
        return next_offset(math.prod(shape))
    size, start = whole_mask(shape)
    offset = next_offset(size) + start // _LANES
    if start % _LANES:
        offset = _PartOffset(offset)
        offset.skip = start % _LANES
    return offset


def get_rng_state():
    """Return the state of the random number generators, as values that JSON can store.

    Examples
    --------
    >>> state = get_rng_state()
    >>> first = host_generator().random()
    >>> set_rng_state(state)
    >>> first == host_generator().random()
    True
    """
    with _state.lock:
        bits = _generator().bit_generator.state
        return {
            "seed": initial_seed(), "offset": _state.offset,
            "counter": bits["state"]["counter"].tolist(), "key": bits["state"]["key"].tolist(),
            "buffer": bits["buffer"].tolist(), "buffer_pos": int(bits["buffer_pos"]),
            "has_uint32": int(bits["has_uint32"]), "uinteger": int(bits["uinteger"]),
        }  # fmt: skip


@names_arguments
def set_rng_state(new_state):
    """Restore the state of the random number generators that `get_rng_state` returned."""
    words = {name: np.array(new_state[name], np.uint64) for name in ("counter", "key", "buffer")}
    bits = np.random.Philox(0)
    bits.state = {
        "bit_generator": "Philox",
        "state": {"counter": words["counter"], "key": words["key"]},
        "buffer": words["buffer"],
        "buffer_pos": int(new_state["buffer_pos"]),
        "has_uint32": int(new_state["has_uint32"]),
        "uinteger": int(new_state["uinteger"]),
    }
    with _state.lock:
        _state.seed = int(new_state["seed"])
        _state.offset = int(new_state["offset"])
        _state.generator = np.random.Generator(bits)


def keep_mask(shape, keep_probability, module=np, seed=None, offset=None):
    """Draw a boolean mask whose entries are True with `keep_probability`.

    Parameters
    ----------
    shape : tuple of int
    keep_probability : float
        Probability of True. Rounding to a multiple of 2**-16 changes it by at most 7.6e-6.
    module : module, default numpy
        Module for the device of the mask, as returned by `array_module` or `module_for`.
    seed, offset : int, optional
        Seed and first counter value, which determine the mask on every device. By default, use the
        current seed and reserve a new range of counter values. Inside `batch_part`, only the part
        of this range that belongs to its rows is used.

    Returns
    -------
    array of bool of shape `shape`

    Examples
    --------
    >>> keep_mask((2, 4), 0.5, seed=1, offset=0)
    array([[False, False, False, False],
           [False,  True, False, False]])
    """
    if not 0 <= keep_probability <= 1:
        raise ArgumentError(
            "keep_mask: keep_probability must be between 0 and 1",
            got=str(keep_probability),
            hint="pass 1 - p, where p is the dropout probability",
        )
    size = math.prod(shape)
    if seed is None:
        seed = initial_seed()
    if offset is None:
        offset = mask_offset(shape)
    threshold = as_threshold(keep_probability)
    if threshold == 2**16 or size == 0:
        return module.ones(shape, dtype=bool)
    if type(offset) is _PartOffset:
        longer = keep_mask((offset.skip + size,), keep_probability, module, seed, int(offset))
        return longer[offset.skip :].reshape(shape)
    if module is not np:
        mask = module.empty(shape, dtype=bool)
        draw_mask(mask, threshold, seed, offset)
        return mask
    words = philox_words(module, seed, offset, -(-size // _LANES))
    return (words.view(module.uint16)[:size] < threshold).reshape(shape)


def keep_runs(starts, length, keep_probability, seed, offset):
    """Draw only some runs (consecutive entries) of the mask that `keep_mask` would draw.

    Each run has `length` entries and begins at one of the positions in `starts`. A process that
    has only part of an array can draw the corresponding part of the full mask.

    Parameters
    ----------
    starts : array of int64
        Indices into the flattened mask.
    length : int
        Number of entries of each run.
    keep_probability : float
    seed, offset : int
        Seed and offset of the full mask.

    Returns
    -------
    array of bool of shape (*starts.shape, length)

    Examples
    --------
    >>> mask = keep_mask((3, 20), 0.5, seed=1, offset=4)
    >>> runs = keep_runs(np.array([17, 2]), 5, 0.5, seed=1, offset=4)
    >>> bool((runs[0] == mask.ravel()[17:22]).all() and (runs[1] == mask.ravel()[2:7]).all())
    True
    """
    module = array_module(starts)
    threshold = as_threshold(keep_probability)
    if threshold == 2**16 or starts.size * length == 0:
        return module.ones((*starts.shape, length), dtype=bool)
    if module is np and length >= _LONG:
        runs = [_run(start, length, threshold, seed, offset) for start in starts.ravel().tolist()]
        return np.stack(runs).reshape(*starts.shape, length)
    first = starts.reshape(-1, 1) // _LANES
    counters = first + module.arange((length - 1) // _LANES + 2) + offset  # (run, counter)
    words = words_at(module, seed, counters.reshape(-1).astype(module.uint64))
    lanes = words.view(module.uint16).reshape(len(counters), -1)  # (run, lane)
    columns = starts.reshape(-1, 1) % _LANES + module.arange(length)
    kept = module.take_along_axis(lanes, columns, 1) < threshold
    return kept.reshape(*starts.shape, length)


def _run(start, length, threshold, seed, offset):
    """Draw one run of mask entries for `keep_runs`.

    The counters of a run are consecutive. NumPy's Philox generator can therefore draw the run, and
    is faster than array operations.
    """
    first, skip = divmod(start, _LANES)
    words = philox_words(np, seed, offset + first, -(-(skip + length) // _LANES))
    return words.view(np.uint16)[skip : skip + length] < threshold


def as_threshold(keep_probability):
    """Return the threshold: an entry is kept if its random 16-bit number is below it."""
    return round(keep_probability * 2**16)


@with_kernel
def draw_mask(mask, threshold, seed, offset):
    """Fill a boolean device array as `keep_mask` does. `threshold` is between 0 and 2**16."""
    module = array_module(mask)
    words = philox_words(module, seed, offset, -(-mask.size // _LANES))
    mask[...] = (words.view(module.uint16)[: mask.size] < threshold).reshape(mask.shape)
