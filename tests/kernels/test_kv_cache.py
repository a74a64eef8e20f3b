"""The kernel that writes the keys and values of new tokens into a cache, on a GPU."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.backend.kernel_table import kernels
from minitorch_attn.nn.kv_cache import store

pytestmark = pytest.mark.gpu


def stored(run, capacity, start, key, value, as_array):
    """Return the memory of a cache after a write."""
    like = {"dtype": key.dtype, "device": "cuda"}
    keys = mt.zeros(*key.shape[:2], capacity, key.shape[3], **like)
    values = mt.ones(*value.shape[:2], capacity, value.shape[3], **like)
    if as_array:
        start = mt.tensor([start], device="cuda").array
    run(keys.array, values.array, start, key.array, value.array)
    return keys.numpy(), values.numpy()


@pytest.mark.parametrize(
    ("batch", "heads", "tokens", "key_dim", "value_dim"),
    [(1, 1, 1, 1, 1), (2, 3, 5, 7, 7), (1, 2, 1, 16, 16), (3, 1, 2, 5, 3), (0, 2, 1, 3, 3),
     (1, 3, 0, 5, 5), (2, 17, 3, 31, 31)],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("as_array", [False, True])
def test_equals_the_assignment(make, batch, heads, tokens, key_dim, value_dim, dtype, as_array):
    key = make(batch, heads, tokens, key_dim, dtype=dtype).detach()
    value = make(batch, tokens, heads, value_dim, dtype=dtype).detach().transpose(1, 2)
    ran = []
    kernel = kernels[store]

    class Counted(kernel):
        @staticmethod
        def run(*arguments):
            ran.append(1)
            kernel.run(*arguments)

    kernels[store] = Counted
    try:
        found = stored(store, 11, 4, key, value, as_array)
        del kernels[store]
        expected = stored(store, 11, 4, key, value, as_array)
    finally:
        kernels[store] = kernel
    assert ran or not key.numel()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    if found[0].size and tokens:
        assert (found[0][:, :, 4 : 4 + tokens] == key.numpy()).all()


def test_other_inputs_take_the_composed_version(make):
    key = make(1, 2, 3, 10).detach()[..., ::2]
    assert not kernels[store].accepts(key.array, key.array, 0, key.array, key.array)
    found, _ = stored(store, 4, 1, key, key, False)
    np.testing.assert_array_equal(found[:, :, 1:], key.numpy())


def test_nothing_is_written_outside(make):
    key = make(1, 1, 3, 2, dtype="float32").detach()
    keys = mt.zeros(1, 1, 4, 2, device="cuda")
    kernels[store].run(keys.array, keys.clone().array, 2, key.array, key.array)
    np.testing.assert_array_equal(keys.numpy()[0, 0, :2], np.zeros((2, 2)))
    np.testing.assert_array_equal(keys.numpy()[0, 0, 2:], key.numpy()[0, 0, :2])


def test_one_launch_a_layer():
    cupysim = pytest.importorskip("cupysim")
    layer = mt.nn.StaticKVCache(8).layer(0)
    new = mt.ones(1, 2, 1, 4, device="cuda")
    for _ in range(3):
        cupysim.reset()
        layer.update(new, new)
    assert cupysim.summary()["launch"][0] == 1
