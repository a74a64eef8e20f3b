"""Words of the help topics: sentences, the split, and the labels of words with two meanings."""

import pytest

from minitorch_attn.data.help_words import ENGLISH, KEYWORD, HelpWords, is_code

TEXT = """The "if" statement
******************

Use it only if it is true, as in "x if y":

   if x:  # if it is true
      y = 'if' if z else w

An if without a period

>>> if x: pass
if this is output
... else: pass

If it is false, nothing happens."""


def labels(words):
    """(word, the words around it, meaning) of each occurrence."""
    return {
        (word, " ".join(words.sentences[s][p - 1 : p + 2]), meaning)
        for word, found in words.occurrences.items()
        for s, p, meaning in found
    }


def test_labels_follow_the_rule():
    found = labels(HelpWords(TEXT, fewest=1))
    english = {entry[:2] for entry in found if entry[0] == "if" and entry[2] == ENGLISH}
    code = {entry[:2] for entry in found if entry[0] == "if" and entry[2] == KEYWORD}
    assert english == {("if", "only if it"), ("if", "<S> if it")}
    possible = {("if", "<S> if x"), ("if", "' if z"), ("if", "> if x")}
    assert len(code) == 2 and code <= possible


def test_both_meanings_are_equally_frequent_and_rare_words_are_left_out():
    words = HelpWords(TEXT, fewest=1)
    for found in words.occurrences.values():
        meanings = [meaning for _, _, meaning in found]
        assert meanings.count(ENGLISH) == meanings.count(KEYWORD) > 0
    assert "else" not in words.occurrences  # never an English word here
    assert HelpWords(TEXT, fewest=3).occurrences == {}


def test_occurrences_point_at_their_word():
    pytest.importorskip("pydoc_data.topics")
    words = HelpWords()
    assert len(words.occurrences) >= 5
    for word, found in words.occurrences.items():
        assert all(words.sentences[sentence][place] == word for sentence, place, _ in found)
        assert len(set(found)) == len(found) >= 12


def test_long_paragraphs_are_cut_into_equal_parts():
    words = HelpWords(" ".join("abcdefghijklm") + "\n\nshort one", longest=5)
    assert [len(s) - 2 for s in words.sentences] == [5, 5, 3, 2]
    assert [s[1] for s in words.sentences] == ["a", "f", "k", "short"]
    assert all(s[0] == "<S>" and s[-1] == "</S>" for s in words.sentences)
    assert words.paragraphs.tolist() == [0, 0, 0, 1]


def test_punctuation_lines_and_repeated_paragraphs_are_left_out():
    words = HelpWords("Don't stop\n=====\n\nagain, (b)\n\n-----\n\nDon't stop\n=====")
    assert words.sentences == [
        ["<S>", "don't", "stop", "</S>"],
        ["<S>", "again", ",", "(", "b", ")", "</S>"],
    ]


def test_every_tenth_group_of_five_paragraphs_is_for_validation():
    words = HelpWords("\n\n".join(f"paragraph number {n}" for n in range(100)))
    held_out = [n for n, v in zip(words.paragraphs, words.is_validation, strict=True) if v]
    assert held_out == [*range(45, 50), *range(95, 100)]


@pytest.mark.parametrize(
    "text, expected",
    [("x = 1", True), (">>> 2 +", True), ("It is so.", False), ("\x00", False), ("  a\nb", False)],
)  # fmt: skip
def test_code(text, expected):
    assert is_code(text) is expected


def test_only_keywords_that_are_frequent_enough_are_kept():
    text = "It is for you.\n\nIt is for me.\n\nfor you in it: pass\n\nfor j in me: y is it"
    assert sorted(HelpWords(text, fewest=1).occurrences) == ["for", "is"]
    assert sorted(HelpWords(text, fewest=2).occurrences) == ["for"]
    assert HelpWords(text, fewest=3).occurrences == {}
