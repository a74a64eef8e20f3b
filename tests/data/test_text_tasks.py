"""The four tasks of the T5 recipe."""

import numpy as np
import pytest

from minitorch_attn.data.text_tasks import PREFIXES, TextTasks


@pytest.mark.parametrize(
    ("prefix", "given", "answer"),
    [
        ("reverse", "abca", "acba"),
        ("sort", "banana", "aaabnn"),
        ("vowels", "education", "euaio"),
        ("vowels", "xyz", "none"),
        ("add", "7 + 5", "12"),
        ("add", "99 + 99", "198"),
    ],
)
def test_answers(prefix, given, answer):
    assert TextTasks.answer(prefix, given) == answer


def test_examples_are_right_and_not_held_out(rng):
    tasks = TextTasks(3, 4, held_out=300)
    held_out = {source for pairs in tasks.held_out.values() for source, _ in pairs}
    assert len(held_out) == 1200
    drawn = [tasks.draw(rng) for _ in range(4000)]
    for source, target in drawn:
        prefix, given = source.split(": ")
        assert target == TextTasks.answer(prefix, given)
        assert source not in held_out
        assert set(source + target) <= set(tasks.characters)
        assert prefix == "add" or 3 <= len(given) <= 4
    shares = [np.mean([s.startswith(prefix) for s, _ in drawn]) for prefix in PREFIXES]
    assert min(shares) > 0.2


def test_a_held_out_sum_is_not_drawn_with_its_terms_exchanged(rng):
    tasks = TextTasks(3, 4, held_out=4000)
    held_out = {source.removeprefix("add: ") for source, _ in tasks.held_out["add"]}
    turned = {" + ".join(reversed(given.split(" + "))) for given in held_out}
    drawn = {tasks.draw(rng)[0] for _ in range(3000)}
    sums = {source.removeprefix("add: ") for source in drawn if source.startswith("add")}
    assert len(sums) > 200 and not sums & turned and not sums & held_out


def test_the_held_out_inputs_do_not_depend_on_the_seed_of_a_run():
    assert TextTasks(3, 5).held_out == TextTasks(3, 5).held_out
    assert TextTasks(3, 5).held_out != TextTasks(3, 5, seed=1).held_out
