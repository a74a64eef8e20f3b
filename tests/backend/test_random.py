"""Random numbers: seeds, states, and dropout masks that are bit-identical on every device."""

import json
import threading

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import backend
from minitorch_attn.backend.philox import _words_by_arrays, philox_words
from minitorch_attn.backend.random import (
    Position,
    keep_mask,
    keep_runs,
    own_offsets,
    reserve_offsets,
)
from minitorch_attn.errors import ArgumentError, GraphError

OFFSETS = (0, 1, 2, 2**32 - 1, 2**40 + 3)
SEEDS = (0, 1, 2**32, 2**63, 2**64 - 1)


@pytest.fixture(autouse=True)
def keep_the_state():
    state = backend.get_rng_state()
    yield
    backend.set_rng_state(state)


def test_words_of_the_reference_implementation():
    # Random123's known answers for philox4x64-10: counter and key zero, then all ones.
    expected = [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]
    assert philox_words(np, 0, 0, 1).tolist() == expected
    assert _words_by_arrays(np, 0, 0, 1).tolist() == expected


@pytest.mark.parametrize("key", SEEDS)
def test_array_operations_give_numpys_words(key):
    strict = backend.module_for("strict")
    for offset in OFFSETS:
        for blocks in (0, 1, 2, 7, 64):
            words = philox_words(np, key, offset, blocks)
            assert words.shape == (4 * blocks,) and words.dtype == np.uint64
            np.testing.assert_array_equal(_words_by_arrays(np, key, offset, blocks), words)
            on_device = philox_words(strict, key, offset, blocks)
            np.testing.assert_array_equal(backend.to_host(on_device), words)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (16,), (17,), (3, 5), (2, 3, 41)])
def test_masks_are_equal_on_every_device(shape):
    for index, device in enumerate(("strict:0", "strict:1")):
        for probability in (0.0, 0.1, 0.5, 0.9, 1.0):
            seed, offset = SEEDS[index + 2], OFFSETS[index + 1]
            host = keep_mask(shape, probability, np, seed, offset)
            mask = keep_mask(shape, probability, backend.module_for(device), seed, offset)
            assert str(backend.device_of(mask)) == device
            assert host.shape == shape and host.dtype == bool and mask.dtype == bool
            np.testing.assert_array_equal(backend.to_host(mask), host)


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 130, 1500])  # 1500: NumPy's own generator
@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_runs_are_parts_of_the_mask(length, probability):
    strict = backend.module_for("strict")
    seed, offset = SEEDS[3], OFFSETS[4]
    mask = keep_mask((4000,), probability, np, seed, offset)
    starts = np.random.default_rng(length).integers(0, 4000 - length, (2, 3))
    for module in (np, strict):
        given = module.asarray(starts) if module is np else backend.from_host(starts, "strict")
        runs = backend.to_host(keep_runs(given, length, probability, seed, offset))
        assert runs.shape == (2, 3, length) and runs.dtype == bool
        for place, start in np.ndenumerate(starts):
            np.testing.assert_array_equal(runs[place], mask[start : start + length])


def test_masks_are_drawn_on_the_device():
    with backend.forbid_sync():
        keep_mask((100,), 0.5, backend.module_for("strict"))


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_frequency(probability):
    n = 1_000_000
    mask = keep_mask((n,), probability, seed=3, offset=0)
    assert abs(mask.mean() - probability) < 5 * np.sqrt(probability * (1 - probability) / n)
    # Neighbours are independent, within a word and across words and blocks.
    for lag in (1, 4, 16, 64):
        together = (mask[lag:] & mask[:-lag]).mean()
        assert abs(together - probability**2) < 0.003


def test_certain_masks():
    n = 2**21  # a lane takes each of its 2**16 values about 32 times
    assert keep_mask((n,), 1.0).all()
    assert not keep_mask((n,), 0.0).any()
    assert 0 < keep_mask((n,), 2**-16, seed=0, offset=0).sum() < 64
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(ArgumentError, match="must be between 0 and 1"):
            keep_mask((3,), wrong)


def test_offsets_continue_a_mask():
    whole = keep_mask((160,), 0.5, seed=9, offset=5)
    rest = keep_mask((128,), 0.5, seed=9, offset=7)
    np.testing.assert_array_equal(whole[32:], rest)


def test_masks_depend_on_seed_and_offset():
    mask = keep_mask((256,), 0.5, seed=1, offset=0)
    assert (mask != keep_mask((256,), 0.5, seed=2, offset=0)).any()
    assert (mask != keep_mask((256,), 0.5, seed=1, offset=16)).any()
    backend.manual_seed(1)
    np.testing.assert_array_equal(keep_mask((256,), 0.5), mask)
    np.testing.assert_array_equal(
        keep_mask((256,), 0.5), keep_mask((256,), 0.5, seed=1, offset=256 // 16)
    )


def test_offsets_never_overlap():
    backend.manual_seed(0)
    sizes = [1, 16, 17, 0, 100, 3]
    starts = [backend.next_offset(size) for size in sizes]
    for start, size, following in zip(starts, sizes, starts[1:], strict=False):
        assert following * 16 >= start * 16 + size


def test_manual_seed_starts_anew():
    def draw():
        generator = backend.host_generator()
        return generator.random(3).tolist(), keep_mask((64,), 0.5).tolist()

    backend.manual_seed(11)
    first, second = draw(), draw()
    assert first != second
    backend.manual_seed(11)
    assert [draw(), draw()] == [first, second]
    assert backend.initial_seed() == 11
    backend.manual_seed(12)
    assert draw() != first
    backend.manual_seed(-1)
    assert backend.initial_seed() == 2**64 - 1
    for wrong in (2**64, -(2**63) - 1):
        with pytest.raises(ArgumentError, match="out of range"):
            backend.manual_seed(wrong)


def test_without_a_seed_every_process_differs():
    from minitorch_attn.backend.random import _State

    assert _State().seed is None
    backend.random._state.seed = None
    first = backend.initial_seed()
    assert backend.initial_seed() == first
    backend.random._state.seed = None
    assert backend.initial_seed() != first


def test_state_goes_through_json():
    backend.manual_seed(5)
    generator = backend.host_generator()
    generator.random(3)
    generator.integers(0, 9, 1, dtype="uint32")  # leaves half a word behind
    backend.next_offset(100)
    state = json.loads(json.dumps(backend.get_rng_state()))

    def draw():
        g = backend.host_generator()
        return g.integers(0, 2**32, 3, dtype="uint32").tolist(), g.standard_normal(2).tolist(), \
            keep_mask((32,), 0.5).tolist(), backend.initial_seed()  # fmt: skip

    first = draw()
    assert draw() != first
    backend.set_rng_state(state)
    assert draw() == first
    assert state == json.loads(json.dumps(state))


def test_offsets_from_many_threads_are_distinct():
    starts, lock = [], threading.Lock()

    def work():
        mine = [backend.next_offset(16) for _ in range(500)]
        with lock:
            starts.extend(mine)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(starts)) == 2000


def test_a_position_is_drawn_from_again_unseen_by_others():
    backend.manual_seed(3)
    backend.next_offset(50)
    here = Position()
    first = backend.initial_seed(), backend.next_offset(40), backend.host_generator().random()
    backend.manual_seed(4)
    later = backend.next_offset(16), backend.host_generator().random()
    backend.manual_seed(4)
    with here.again():
        assert (
            backend.initial_seed(),
            backend.next_offset(40),
            backend.host_generator().random(),
        ) == first
        assert Position().offset == here.offset + 3
    assert backend.initial_seed() == 4
    assert (backend.next_offset(16), backend.host_generator().random()) == later
    with own_offsets(reserve_offsets(2)[1]):
        there = Position()
        own = backend.next_offset(1)
    with there.again():
        assert backend.next_offset(1) == own
        with pytest.raises(GraphError, match="depend on the order of the threads"):
            backend.host_generator()


def test_manual_seed_returns_the_generator_that_it_seeds():
    generator = mt.manual_seed(5)
    assert isinstance(generator, mt.Generator) and generator.initial_seed() == 5
    first = mt.randn(3)
    mt.manual_seed(5)
    assert mt.randn(3).tolist() == first.tolist()
    expected = generator.manual_seed(5).random()
    assert mt.manual_seed(5).random() == expected
