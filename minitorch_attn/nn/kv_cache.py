"""KV cache: stores the keys and values of all tokens, so they are computed only once.

A decoder that generates token by token attends to all previous tokens at every step. The keys and
values of the previous tokens do not change, because no token attends to later tokens. They are
therefore computed once and stored. Step t then processes one token instead of t tokens.
"""

from functools import partial

from .. import ops
from ..autograd.modes import no_grad
from ..backend import array_module
from ..backend.graph_capture import guard, live_numbers, on_replay, refuse
from ..backend.kernel_table import with_kernel
from ..errors import ArgumentError, GraphError, ShapeError
from ..named_errors import NamedErrors
from ..tensor import wrap
from .checks import check_layers

__all__ = ["KVCache", "StaticKVCache"]


class _Layer:
    """Keys and values of one attention layer, extended by differentiable concatenation."""

    complete = False
    visible = None  # mask of the positions with a token, while a CUDA graph is captured

    def __init__(self, key=None, value=None):
        self.key, self.value = key, value

    @property
    def length(self):
        """Number of tokens."""
        return 0 if self.key is None else self.key.shape[2]

    def update(self, key, value):
        """Append the keys and values of new tokens. Return the keys and values of all tokens.

        Parameters
        ----------
        key, value : Tensor of shape (batch, heads, token, head_dim)
        """
        refuse("extends a KV cache, so that its shapes change")
        if self.key is not None:
            key = ops.cat((self.key, key), 2)
            value = ops.cat((self.value, value), 2)
        self.key, self.value = key, value
        return key, value

    def reorder(self, index):
        """Keep the rows of the batch whose indices are in `index`, in that order."""
        if self.key is not None:
            self.key, self.value = self.key[index], self.value[index]


class _Cross(_Layer):
    """Cross-attention keys and values: computed once, from the encoder's output."""

    @property
    def complete(self):
        return self.key is not None


class _Static(_Layer):
    """Keys and values of one attention layer in preallocated memory."""

    def __init__(self, capacity):
        self.capacity = capacity
        self._keys = self._values = None  # (batch, heads, capacity, head_dim)

    length = 0  # replaces the property of the base class

    @property
    def key(self):
        """View of the keys of all tokens so far, or None if there are no tokens yet."""
        return wrap(self._keys.array[:, :, : self.length]) if self.length else None

    @property
    def value(self):
        """View of the values of all tokens so far, or None if there are no tokens yet."""
        return wrap(self._values.array[:, :, : self.length]) if self.length else None

    def update(self, key, value):
        if key.requires_grad or value.requires_grad:
            raise GraphError(
                "StaticKVCache: key and value must not require grad",
                hint="generate under mt.no_grad(), or use KVCache, which keeps the graph",
            )
        if key.shape[2] != 1:
            refuse("adds several tokens to a KV cache: call the step itself for the prompt")
        before, after = self.length, self.length + key.shape[2]
        start = live_numbers(lambda: [self.length], "int64")
        if self._keys is None or after > self._keys.shape[2]:
            if start is not None:
                refuse("allocates memory for a KV cache")
            with no_grad():
                self._make_room(key, value, after)
        if start is not None:
            return self._update_in_graph(start, key, value)
        # Raw arrays are faster, and there is no gradient. Every layer runs this code at each step.
        keys, values = self._keys.array, self._values.array
        store(keys, values, before, key.array, value.array)
        self.length, self.visible = after, None
        return self.key, self.value

    def _update_in_graph(self, start, key, value):
        """Write one token's key and value at position `start`. Return the complete buffers.

        The array `start` is on the device. The shapes in a CUDA graph cannot change, so this method
        returns all positions of the buffers. The mask `visible` is True at the positions that
        contain a token.
        """
        keys, values, room = self._keys, self._values, self._keys.shape[2]
        guard(lambda: self._keys is keys and self._values is values and self.length < room)
        on_replay(partial(self._extend, 1), undo=partial(self._extend, -1))
        store(keys.array, values.array, start, key.array, value.array)
        places = array_module(start).arange(room)
        self.visible = wrap((places <= start)[None, None, None])  # (1, 1, 1, capacity)
        self.length += 1
        return keys, values

    def _extend(self, tokens):
        self.length, self.visible = self.length + tokens, None

    def _make_room(self, key, value, length):
        """Allocate the buffers, or replace buffers that are too small with larger ones."""
        room = max(self.capacity if self._keys is None else 2 * self.capacity, length)
        self.capacity = room
        self._keys, self._values = _roomier(self.key, key, room), _roomier(self.value, value, room)

    def reorder(self, index):
        if self.key is None:
            return
        length = self.length
        with no_grad():
            keys, values = self.key[index], self.value[index]
            if keys.shape != self.key.shape:
                self._keys = _roomier(keys, self.key, self.capacity)
                self._values = _roomier(values, self.value, self.capacity)
            else:
                self._keys[:, :, :length], self._values[:, :, :length] = keys, values


def _roomier(old, like, room):
    """Return a buffer with space for more tokens, which begins with the tokens of `old`, if any.

    The last argument is the length of the new buffer. The batch size, heads and head_dim are those
    of `old`, or those of `like` if `old` is None.
    """
    batch, heads, _, head_dim = like.shape if old is None else old.shape
    # Zeros, because a CUDA graph multiplies positions without a token by weights of 0.
    new = ops.zeros(batch, heads, room, head_dim, dtype=like.dtype, device=like.device)
    if old is not None:
        new[:, :, : old.shape[2]] = old
    return new


@with_kernel
def store(keys, values, start, key, value):
    """Write the keys and values of new tokens into preallocated memory.

    Parameters
    ----------
    keys, values : array of shape (batch, heads, capacity, head_dim)
        Memory to write into, on one device.
    start : int, or integer array of shape (1,) on that device
        Position of the first new token. An array on a GPU is not copied to the CPU.
    key, value : array of shape (batch, heads, token, head_dim)

    Examples
    --------
    >>> import numpy as np
    >>> keys, values = np.zeros((2, 1, 1, 3, 1))
    >>> store(keys, values, 1, np.ones((1, 1, 2, 1)), np.ones((1, 1, 2, 1)))
    >>> keys.ravel()
    array([0., 1., 1.])
    """
    tokens = key.shape[2]
    if isinstance(start, int):
        keys[:, :, start : start + tokens] = key
        values[:, :, start : start + tokens] = value
        return
    places = start + array_module(keys).arange(tokens)
    keys[:, :, places], values[:, :, places] = key, value


class KVCache(NamedErrors):
    """KV cache of a decoder: the keys and values of all layers, extended by concatenation.

    Gradients flow through the cache. For generation, `StaticKVCache` is faster.

    Parameters
    ----------
    past : sequence, optional
        Initial content: for each layer, a tuple (key, value) or (key, value, cross_key,
        cross_value) of tensors of shape (batch, heads, token, head_dim).

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> cache = KVCache()
    >>> attention = mt.nn.Attention(embed_dim=6, num_heads=2)
    >>> for token in mt.zeros(3, 1, 1, 6):
    ...     y = attention(token, is_causal=True, cache=cache.layer(0))
    >>> cache.length, cache[0][0].shape
    (3, (1, 2, 3, 3))
    """

    def __init__(self, past=None):
        self._layers, self._crosses = [], []
        for i, layer in enumerate(past or ()):
            if len(layer) not in (2, 4):
                raise ArgumentError(
                    "KVCache: each layer of past must have 2 or 4 tensors",
                    got=f"{len(layer)} tensors in layer {i}",
                    hint="pass (key, value) or (key, value, cross_key, cross_value) for each layer",
                )
            self._layers.append(_Layer(*layer[:2]))
            self._crosses.append(_Cross(*layer[2:]))

    @classmethod
    def of(cls, past):
        """Convert `past` from tuples to a cache. Return a cache or None unchanged."""
        return past if past is None or isinstance(past, KVCache) else cls(past)

    def _new_layer(self):
        return _Layer()

    def layer(self, i):
        """Return the self-attention keys and values of layer `i`."""
        if len(self._layers) <= i:
            check_layers("KVCache.layer", i=i)
            self._layers += [self._new_layer() for _ in range(len(self._layers), i + 1)]
        return self._layers[i]

    def cross(self, i):
        """Return the cross-attention keys and values of layer `i`, which are stored only once."""
        refuse("reads the keys of an encoder from a KV cache")
        if len(self._crosses) <= i:
            check_layers("KVCache.cross", i=i)
            self._crosses += [_Cross() for _ in range(len(self._crosses), i + 1)]
        return self._crosses[i]

    @property
    def length(self):
        """Number of tokens that the decoder has processed."""
        refuse("reads the length of a KV cache, which is not the same in each replay")
        return self._length()

    def _length(self):
        return self._layers[0].length if self._layers else 0

    def next_position(self):
        """Return the position of the next token, for the model's position embedding.

        Returns
        -------
        int, or int64 Tensor of shape (1,)
            The value of `length`. While a CUDA graph is captured, the position is a Tensor on the
            device, and each replay changes it.
        """
        live = live_numbers(lambda: [self._length()], "int64")
        return self._length() if live is None else wrap(live)

    def reorder(self, index, cross=True):
        """Keep only some rows of the batch, in all layers: for example, the best beams of a search.

        Parameters
        ----------
        index : int64 Tensor of shape (new batch,)
        cross : bool, default True
            Whether to select the encoder's keys and values too. Beam search passes False, because
            all beams of an input have the same encoder output.
        """
        refuse("reorders a KV cache")
        if index.ndim != 1:
            raise ShapeError(
                "KVCache.reorder: index must have 1 axis",
                got=f"{index.shape}",
                hint="index.flatten()",
            )
        for layer in (*self._layers, *(self._crosses if cross else ())):
            layer.reorder(index)

    def __len__(self):
        return len(self._layers)

    def __getitem__(self, i):
        layer = self._layers[i]
        cross = self._crosses[i] if self._crosses else None
        held = (layer.key, layer.value)
        return held if cross is None or cross.key is None else (*held, cross.key, cross.value)

    def __iter__(self):
        return (self[i] for i in range(len(self)))


class StaticKVCache(KVCache):
    """KV cache with preallocated memory, so that a step does not copy the previous tokens.

    Gradients do not flow through this cache. If the capacity is exceeded, it is doubled. With this
    cache, decoding one token can be captured as a CUDA graph (`mt.cuda.GraphedStep`).

    Parameters
    ----------
    capacity : int
        Number of tokens for which each layer allocates memory.
    """

    def __init__(self, capacity):
        super().__init__()
        if capacity < 1:
            raise ArgumentError(
                "StaticKVCache: capacity must be at least 1",
                got=f"{capacity}",
                hint="use KVCache(), which does not need a capacity",
            )
        self.capacity = capacity

    def reset(self):
        """Remove all tokens but keep the memory, so that a captured CUDA graph remains valid.

        Examples
        --------
        >>> import minitorch_attn as mt
        >>> cache = StaticKVCache(4)
        >>> key, value = cache.layer(0).update(mt.ones(1, 1, 2, 3), mt.ones(1, 1, 2, 3))
        >>> cache.reset()
        >>> key.shape, cache.length
        ((1, 1, 2, 3), 0)
        """
        for layer in self._layers:
            layer.length = 0
        self._crosses = []

    def _new_layer(self):
        return _Static(self.capacity)
