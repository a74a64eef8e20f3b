"""Messages of several ranks are matched and put into rounds."""

import numpy as np
import pytest

from minitorch_attn.course.rank_messages import in_rounds, print_messages


def sent(target, value):
    return "send", target, np.array([value])


def received(source):
    return "recv", source, None


def as_tuples(messages):
    return [(m.round, m.source, m.target, m.values.tolist()[0]) for m in messages]


def test_no_messages():
    assert in_rounds([]) == [] and in_rounds([[], []]) == []


def test_a_chain_takes_one_round_per_step():
    logs = [[sent(1, 5.0)], [received(0), sent(2, 6.0)], [received(1), sent(0, 7.0)]]
    found = as_tuples(in_rounds(logs))
    assert found == [(1, 0, 1, 5.0), (2, 1, 2, 6.0), (3, 2, 0, 7.0)]


def test_a_ring_sends_all_messages_of_a_round_together():
    ranks, steps = 3, 2
    logs = [
        [entry for step in range(steps)
         for entry in (sent((r + 1) % ranks, 10.0 * step + r), received((r - 1) % ranks))]
        for r in range(ranks)
    ]  # fmt: skip
    found = as_tuples(in_rounds(logs))
    assert found == [(s + 1, r, (r + 1) % 3, 10.0 * s + r) for s in range(2) for r in range(3)]


def test_several_messages_of_one_pair_arrive_in_their_order():
    logs = [[sent(1, 1.0), sent(1, 2.0)], [received(0), sent(0, 3.0), received(0), sent(0, 4.0)]]
    assert as_tuples(in_rounds(logs)) == [
        (1, 0, 1, 1.0), (2, 0, 1, 2.0), (2, 1, 0, 3.0), (3, 1, 0, 4.0)
    ]  # fmt: skip


def test_a_late_receive_of_an_early_message_does_not_turn_the_clock_back():
    logs = [
        [sent(1, 1.0), sent(1, 2.0), received(1), sent(1, 3.0)],
        [sent(0, 4.0), received(0), received(0), received(0)],
    ]
    assert as_tuples(in_rounds(logs)) == [
        (1, 0, 1, 1.0), (1, 1, 0, 4.0), (2, 0, 1, 2.0), (3, 0, 1, 3.0)
    ]  # fmt: skip


def test_a_receive_without_its_send_keeps_what_came_before():
    logs = [[sent(1, 1.0)], [received(0), received(0), sent(0, 2.0)]]
    assert as_tuples(in_rounds(logs)) == [(1, 0, 1, 1.0)]


def test_printed_rounds(capsys):
    logs = [[sent(1, 5.0)], [received(0), sent(0, 6.0)]]
    print_messages(in_rounds(logs))
    whole = capsys.readouterr().out
    assert whole == "round 1\n  0 -> 1  [5.]  8 bytes\nround 2\n  1 -> 0  [6.]  8 bytes\n"
    print_messages(in_rounds(logs), first=2)
    assert capsys.readouterr().out == "round 2\n  1 -> 0  [6.]  8 bytes\n"
    print_messages(in_rounds(logs), last=1)
    assert capsys.readouterr().out == "round 1\n  0 -> 1  [5.]  8 bytes\n"


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_the_text_of_a_message(shape):
    (message,) = in_rounds([[("send", 1, np.zeros(shape, "float32"))], [received(0)]])
    assert str(message).endswith(f"{4 * int(np.prod(shape))} bytes")
