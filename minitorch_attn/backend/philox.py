"""Philox4x64-10: random bits as a function of a key and a counter (Salmon et al. 2011 [1]_).

Each counter value gives a block of four 64-bit words, which depends only on the key and the
counter. So any device can compute any part of the stream. NumPy implements Philox in C. On other
devices, array operations compute the same words.

.. [1] "Parallel random numbers: as easy as 1, 2, 3", SC'11, section 5.2 and its reference code.
"""

import numpy as np

__all__ = ["philox_words", "words_at"]

_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_KEY_STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_ROUNDS = 10
_LOW = 0xFFFFFFFF


def philox_words(xp, key, offset, blocks):
    """Return the random words for `blocks` consecutive counters, four words for each counter.

    Parameters
    ----------
    xp : module
        Module that computes the words: `numpy`, `cupy` or the strict module.
    key : int
        Key, from 0 to 2**64 - 1.
    offset : int
        First counter, at least 0.
    blocks : int

    Returns
    -------
    array of uint64 of shape (4 * blocks,)
    """
    if xp is np:
        # NumPy increments the counter before it computes a block.
        return np.random.Philox(key=key, counter=(offset - 1) % 2**256).random_raw(4 * blocks)
    return _words_by_arrays(xp, key, offset, blocks)


def words_at(xp, key, counters):
    """Compute the random words for an array of arbitrary counters with array operations.

    Parameters
    ----------
    xp : module
    key : int
        Key, from 0 to 2**64 - 1.
    counters : array of uint64 of shape (n,)

    Returns
    -------
    array of uint64 of shape (n, 4)

    Examples
    --------
    >>> some = words_at(np, 5, np.array([7, 2], dtype=np.uint64))
    >>> bool((some[1] == philox_words(np, 5, 2, 1)).all())
    True
    """
    keys = [key, 0]
    a = counters
    b = c = d = xp.zeros_like(a)
    for number in range(_ROUNDS):
        if number:
            keys = [(k + step) % 2**64 for k, step in zip(keys, _KEY_STEPS, strict=True)]
        high_a, low_a = _wide_product(a, _MULTIPLIERS[0])
        high_c, low_c = _wide_product(c, _MULTIPLIERS[1])
        a, b, c, d = high_c ^ b ^ keys[0], low_c, high_a ^ d ^ keys[1], low_a
    return xp.stack([a, b, c, d], axis=1)


def _words_by_arrays(xp, key, offset, blocks):
    """Compute the words of consecutive counters with array operations."""
    counters = xp.arange(blocks, dtype=xp.uint64) + offset
    return words_at(xp, key, counters).reshape(4 * blocks)


def _wide_product(words, constant):
    """Return the high and the low 64 bits of words * constant, from products of 32-bit halves."""
    low, high = words & _LOW, words >> 32
    constant_low, constant_high = constant & _LOW, constant >> 32
    bottom, cross = low * constant_low, high * constant_low
    # At most (2**32 - 1)**2 + 2 * (2**32 - 1) = 2**64 - 1: the sum cannot overflow.
    middle = (bottom >> 32) + (cross & _LOW) + low * constant_high
    top = high * constant_high + (cross >> 32) + (middle >> 32)
    return top, (middle << 32) | (bottom & _LOW)
