"""Write to a KV cache on a GPU: the key and the value of new tokens in one launch.

    keys[b, h, start + t, d] = key[b, h, t, d],   values[b, h, start + t, d] = value[b, h, t, d]

Two assignments to slices would take two launches. The keys of new tokens are usually a
transposed view of the projection's output, so the kernel takes their strides. `start` may be
a number in device memory, so that a recorded graph of launches can write to a different
position in each replay.
"""

from ..backend.kernel_table import register
from ..nn.kv_cache import store
from .source import FLOATS, Source

__all__ = ["StoreKernel"]

THREADS = 256

SOURCE = Source(
    r"""
// One thread for each number of the key (blockIdx.y = 0) or the value (blockIdx.y = 1).
template <typename T, typename A> __global__ void kv_store(
    T* keys, T* values, const T* key, const T* value,
    long long key_batch, long long key_head, long long key_token,
    long long value_batch, long long value_head, long long value_token,
    long long n, long long heads, long long tokens, long long key_dim, long long value_dim,
    long long capacity, long long start, const long long* start_here)
{
    bool is_key = blockIdx.y == 0;
    long long dim = is_key ? key_dim : value_dim;
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n * dim) return;  // n = batch * heads * tokens
    long long d = i % dim, t = i / dim % tokens, h = i / dim / tokens % heads;
    long long b = i / dim / tokens / heads;
    if (start_here) start = *start_here;
    if (start < 0 || start + t >= capacity) return;  // never write outside
    long long to = ((b * heads + h) * capacity + start + t) * dim + d;
    if (is_key) keys[to] = key[b * key_batch + h * key_head + t * key_token + d];
    else values[to] = value[b * value_batch + h * value_head + t * value_token + d];
}
""",
    "kv_store",
)


@register(store)
class StoreKernel:
    """CUDA kernel of `nn.kv_cache.store`: one launch."""

    @staticmethod
    def accepts(keys, values, start, key, value):
        arrays = (keys, values, key, value)
        return (
            keys.dtype.name in FLOATS
            and all(a.dtype == keys.dtype for a in arrays)
            and keys.flags.c_contiguous
            and values.flags.c_contiguous
            and key.shape[:3] == value.shape[:3] == (*keys.shape[:2], key.shape[2])
            and keys.shape[:3] == values.shape[:3]
            and (key.shape[3], value.shape[3]) == (keys.shape[3], values.shape[3])
            and all(a.shape[3] == 1 or a.strides[3] == a.itemsize for a in (key, value))
            and (isinstance(start, int) or start.dtype == "int64")
        )

    @staticmethod
    def run(keys, values, start, key, value):
        # key (batch, heads, token, head_dim)   keys (batch, heads, capacity, head_dim)
        batch, heads, tokens, key_dim = key.shape
        value_dim, capacity = value.shape[3], keys.shape[2]
        n = batch * heads * tokens
        strides = [s // a.itemsize for a in (key, value) for s in a.strides[:3]]
        number, here = (start, None) if isinstance(start, int) else (0, start)
        blocks = -(-n * max(key_dim, value_dim) // THREADS), 2
        SOURCE.launch(
            "kv_store", keys.dtype, blocks, THREADS, keys, values, key, value, *strides,
            n, heads, tokens, key_dim, value_dim, capacity, number, here,
        )  # fmt: skip
