"""Moving digits: each clip shows its digit, which moves as its direction says, inside the image."""

import numpy as np
import pytest

from minitorch_attn.data.digits import digits_split
from minitorch_attn.data.moving_digits import DIRECTIONS, draw_clips, enlarged_digits
from minitorch_attn.errors import ArgumentError

DIGITS = enlarged_digits(np.random.default_rng(3).uniform(0.1, 1, (20, 1, 8, 8)), (9, 11, 13))
LABELS = np.arange(20) % 10
MOVES = {
    "up": (-1, 0), "up right": (-1, 1), "right": (0, 1), "down right": (1, 1), "down": (1, 0),
    "down left": (1, -1), "left": (0, -1), "up left": (-1, -1),
}  # fmt: skip


def corner_and_size(frame):
    """The first row and column with ink, and the height and width of the ink."""
    rows, columns = np.flatnonzero(frame.any(1)), np.flatnonzero(frame.any(0))
    return np.array([rows[0], columns[0]]), (np.ptp(rows) + 1, np.ptp(columns) + 1)


@pytest.mark.parametrize(("side", "frames"), [(17, 3), (24, 4), (13, 1)])
def test_the_whole_digit_moves_in_its_direction(rng, side, frames):
    clips = draw_clips(200, DIGITS, LABELS, rng, side, frames)
    assert clips.frames.shape == (200, 1, frames, side, side)
    assert clips.frames.dtype == np.float32
    speeds = set()
    for clip, digit, direction in zip(*clips, strict=True):
        corners, pieces = [], []
        for frame in clip[0]:
            (row, column), (height, width) = corner_and_size(frame)
            assert height == width and height in (9, 11, 13)  # nothing is cut off
            corners.append((row, column))
            pieces.append(frame[row : row + height, column : column + width])
        images = DIGITS[(9, 11, 13).index(len(pieces[0]))]
        shown = [i for i in range(20) if all((images[i] == piece).all() for piece in pieces)]
        assert [LABELS[i] for i in shown] == [digit]
        steps = np.diff(corners, axis=0)
        move = np.array(MOVES[list(DIRECTIONS)[direction]])
        assert all((step == move).all() or (step == 2 * move).all() for step in steps)
        assert len({tuple(step) for step in steps}) <= 1  # constant speed
        speeds |= {int(abs(step).max()) for step in steps}
    assert speeds == ({1, 2} if frames > 1 else set())


def test_every_digit_direction_and_place_is_drawn(rng):
    clips = draw_clips(3000, DIGITS[:1], LABELS, rng, side=15, frames=2)
    pairs = clips.digits * 8 + clips.directions
    assert (np.bincount(pairs, minlength=80) > 10).all()
    first = {tuple(corner_and_size(clip[0, 0])[0]) for clip in clips.frames}
    assert first == {(row, column) for row in range(7) for column in range(7)}


def test_spread_keeps_the_paths_near_the_center():
    """The mean of the first and the last corner of a path; 15 - 9 pixels are free."""
    for spread, most in ((1.0, 3.0), (0.5, 2.0), (0.0, 1.0)):
        clips = draw_clips(400, DIGITS[:1], LABELS, np.random.default_rng(0), 15, 2, spread=spread)
        ends = [[corner_and_size(frame)[0] for frame in clip[0]] for clip in clips.frames]
        far = np.abs(np.mean(ends, 1) - 3).max()
        assert most - 1 < far <= most, spread
    for spread in (-0.1, 1.1, np.nan):
        with pytest.raises(ArgumentError, match="spread must be between 0 and 1"):
            draw_clips(3, DIGITS, LABELS, np.random.default_rng(0), spread=spread)


def test_speeds_are_drawn_from_those_given(rng):
    clips = draw_clips(90, DIGITS[:1], LABELS, rng, side=24, frames=4, speeds=(1, 3, 5))
    ends = [[corner_and_size(clip[0, k])[0] for k in (0, 3)] for clip in clips.frames]
    found = {int(abs(step).max()) for step in np.diff(ends, axis=1)}
    assert found == {3, 9, 15}
    with pytest.raises(ArgumentError, match="do not fit"):
        draw_clips(1, DIGITS[:1], LABELS, rng, side=23, frames=4, speeds=(1, 5))


def test_the_seed_decides():
    drawn = [
        draw_clips(30, DIGITS, LABELS, np.random.default_rng(seed), noise=0.1) for seed in (1, 1, 2)
    ]
    for one, same, other in zip(*drawn, strict=True):
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, other)


def test_noise():
    clean, noisy = (
        draw_clips(50, DIGITS, LABELS, np.random.default_rng(1), noise=noise).frames
        for noise in (0.0, 0.2)
    )
    difference = noisy - clean
    assert noisy.dtype == np.float32
    assert abs(difference.std() - 0.2) < 0.01 and abs(difference.mean()) < 0.01


def test_enlarging_keeps_ramps_and_interpolates_between_pixels():
    ramp = np.add.outer(2 * np.arange(8.0), 3 * np.arange(8.0))
    (image,) = enlarged_digits(ramp[None, None], (16,))
    assert image.shape == (1, 16, 16) and image.dtype == np.float32
    places = (np.arange(1, 15) + 0.5) / 2 - 0.5
    np.testing.assert_allclose(image[0, 1:-1, 1:-1], np.add.outer(2 * places, 3 * places))
    assert image[0, 0, 0] == ramp[0, 0] and image[0, -1, -1] == ramp[-1, -1]
    (same,) = enlarged_digits(ramp[None, None], (8,))
    np.testing.assert_array_equal(same[0], ramp)


def test_held_out_handwriting_is_disjoint():
    pytest.importorskip("sklearn")
    images, labels, test_images, test_labels = digits_split()
    assert len(images) == len(labels) and len(test_images) == len(test_labels)
    training, test = ({x.tobytes() for x in part} for part in (images, test_images))
    assert test and not training & test
    enlarged = [{x.tobytes() for x in enlarged_digits(part, (12,))[0]} for part in
                (images, test_images)]  # fmt: skip
    assert len(enlarged[1]) == len(test) and not enlarged[0] & enlarged[1]


def test_no_clips_and_too_long_a_way(rng):
    clips = draw_clips(0, DIGITS, LABELS, rng)
    assert [len(part) for part in clips] == [0, 0, 0]
    draw_clips(1, DIGITS, LABELS, rng, side=19, frames=4)
    with pytest.raises(ArgumentError, match="side to be at least 19"):
        draw_clips(1, DIGITS, LABELS, rng, side=18, frames=4)
