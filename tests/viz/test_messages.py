"""Messages between ranks: an arrow with its text for every message, in the row of its round."""

import numpy as np
import pytest

from minitorch_attn.course.rank_messages import Message
from minitorch_attn.errors import ArgumentError
from minitorch_attn.viz import messages_figure
from minitorch_attn.viz.style import COLOURS


def arrows_of(figure):
    """(start, stop) of every arrow, and the texts."""
    (axes,) = figure.axes
    texts = [t for t in axes.texts if t.get_text()]
    arrows = [t for t in axes.texts if not t.get_text()]
    return [(a.xyann[0], a.xy[0]) for a in arrows], [t.get_text() for t in texts]


def test_an_arrow_and_a_text_for_each_message():
    messages = [
        Message(0, 1, np.ones(3), 1),
        Message(2, 0, np.ones(2), 2),
        Message(1, 0, np.ones(1), 2),
    ]
    arrows, texts = arrows_of(messages_figure(messages, 3))
    assert arrows == [(0, 1), (2, 2.7), (-0.7, 0), (1, 0)]  # 2 -> 0 goes around the end
    assert texts == ["24 B", "16 B", "8 B"]


@pytest.mark.parametrize(("source", "target"), [(0, 1), (1, 0)])
def test_two_ranks_have_no_way_around(source, target):
    arrows, texts = arrows_of(
        messages_figure([Message(source, target, np.ones(1), 1)], 2, label=lambda m: "text")
    )
    assert arrows == [(source, target)] and texts == ["text"]


def test_without_a_way_around_the_margins_are_narrow():
    around, back = Message(2, 0, np.ones(1), 1), Message(1, 0, np.ones(1), 1)
    assert messages_figure([around], 3).axes[0].get_xlim() == (-0.75, 2.75)
    assert messages_figure([back], 3).axes[0].get_xlim() == (-0.35, 2.35)


def test_the_color_is_that_of_the_source_or_the_chosen_one():
    messages = [Message(0, 1, np.ones(1), 1), Message(1, 0, np.ones(1), 1)]

    def colors(figure):
        (axes,) = figure.axes
        return [text.get_color() for text in axes.texts if text.get_text()]

    assert colors(messages_figure(messages, 2)) == [*COLOURS[:2]]
    assert colors(messages_figure(messages, 2, color=lambda m: 3 - m.target)) == [
        COLOURS[2],
        COLOURS[3],
    ]


def test_errors():
    with pytest.raises(ArgumentError, match="no messages"):
        messages_figure([], 2)
    with pytest.raises(ArgumentError, match="ranks must be greater than every rank"):
        messages_figure([Message(0, 2, np.ones(1), 1)], 2)
