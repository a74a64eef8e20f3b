"""Philox random numbers in CUDA, so that a kernel draws the same dropout mask as `keep_mask`.

`PHILOX` is CUDA source to put at the start of a kernel file. See `backend.random` and
`backend.philox`.
"""

from ..backend.graph_capture import live_random

__all__ = ["PHILOX", "draw_from"]

PHILOX = r"""
// Philox4x64-10: four random 64-bit words for one counter value.
__device__ inline void philox(unsigned long long key, unsigned long long counter,
                              unsigned long long (&words)[4])
{
    const unsigned long long first = 0xD2E7470EE14C6C93ULL, second = 0xCA5A826395121157ULL;
    unsigned long long a = counter, b = 0, c = 0, d = 0, other_key = 0;
    for (int round = 0; round < 10; ++round) {
        unsigned long long high_a = __umul64hi(a, first), high_c = __umul64hi(c, second);
        unsigned long long low_a = a * first, low_c = c * second;
        a = high_c ^ b ^ key;
        b = low_c;
        c = high_a ^ d ^ other_key;
        d = low_a;
        key += 0x9E3779B97F4A7C15ULL;
        other_key += 0xBB67AE8584CAA73BULL;
    }
    words[0] = a;
    words[1] = b;
    words[2] = c;
    words[3] = d;
}

// Return entries `first` to `first` + 15 of a dropout mask as bits 0 to 15. A bit is 1 if the entry
// is kept, which is the case if its random number is below `threshold`. Each counter value yields
// 16 random numbers of 16 bits. In a CUDA graph, `live` contains the seed of this replay, and the
// counter to which `offset` is added.
__device__ inline unsigned keep_bits(unsigned long long seed, unsigned long long offset,
                                     const unsigned long long* live,
                                     unsigned long long first, unsigned threshold)
{
    if (live) { seed = live[0]; offset += live[1]; }
    unsigned bits = 0;
    unsigned long long words[4];
    for (int k = 0; k < 16; ++k) {
        int lane = (first + k) % 16;
        if (k == 0 || lane == 0) philox(seed, offset + (first + k) / 16, words);
        unsigned number = words[lane / 4] >> 16 * (lane % 4) & 0xffff;
        bits |= unsigned(number < threshold) << k;
    }
    return bits;
}
"""


def draw_from(seed, offset):
    """Return the arguments of the CUDA function `keep_bits` that determine its random numbers.

    Parameters
    ----------
    seed, offset : int
        Seed and first counter of a mask. If a CUDA graph is being captured, the returned
        arguments make the kernel read both from the device at each replay.

    Returns
    -------
    (int, int, int)
        `seed`, `offset` and `live`, as signed 64-bit integers. If a CUDA graph is being captured,
        `live` is the device address where each replay of the graph reads its seed and its offset.
        Otherwise, `live` is 0.
    """
    captured = live_random()
    if captured is None:
        return _as_signed(seed % 2**64), _as_signed(offset % 2**64), 0
    first, live = captured
    return 0, offset - first, live.data.ptr


def _as_signed(word):
    """Convert `word`, from 0 to 2**64 - 1, to the signed 64-bit integer with the same bits."""
    return word - 2**64 if word >= 2**63 else word
