"""English rules: the whole repository is within its budget, and each rule finds violations."""

import ast
import collections

import english_rules
import pytest


@pytest.fixture(scope="module")
def counts():
    return collections.Counter(rule for _, _, rule, _ in english_rules.report())


def test_there_is_something_to_check():
    suffixes = collections.Counter(path.suffix for path in english_rules.files())
    assert suffixes[".py"] > 100 and suffixes[".md"] > 10 and suffixes[".toml"] > 1


@pytest.mark.parametrize("rule", english_rules.BUDGET)
def test_no_rule_has_more_complaints_than_its_budget(counts, rule):
    """`python tests/english_rules.py` lists them, with file and line."""
    print(f"{rule}: {counts[rule]} complaints, budget {english_rules.BUDGET[rule]}")
    assert counts[rule] <= english_rules.BUDGET[rule]


def test_code_in_a_title_does_not_end_a_sentence():
    """The site shows the first sentence of a docstring; `x . y` would cut the code in two."""
    found = []
    for path in (path for path in english_rules.files() if "minitorch_attn" in path.parts):
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    title = (ast.get_docstring(node) or "").partition("\n")[0]
                    if any(". " in code for code in title.split("`")[1::2]):
                        found.append(f"{path}: {title}")
    assert found == []


@pytest.mark.parametrize(
    ("path", "title", "good"),
    [
        ("ops/pad.py", "More room around a tensor, or less", False),
        ("ops/pad.py", "Padding: add elements around a tensor", True),
        ("ops/normalize.py", "Batch normalization", True),
        ("data/decode.py", "Decoding of bytes", True),
        ("ops/gather_scatter.py", "Scatter values into a tensor", True),
        ("ops/steps.py", "Functions that are constant between jumps", False),
        ("nn/__init__.py", "Layers and containers", True),
        ("nn/__init__.py", "Everything else", False),
        ("ops/log_softmax.py", "LogSoftmax along an axis", True),
        ("backend/philox.py", "Random numbers from a counter", True),
        ("ops/string.py", "A strict rule", False),
        ("ops/format.py", "What is there for the user", False),
        ("ops/where.py", "Elementwise choice: where and clamp", True),
        ("ops/pad.py", "", False),
    ],
)
def test_a_title_without_a_word_of_the_file_name_is_found(path, title, good):
    source = f'"""{title}\n\nPad, normalize, decode."""' if title else "x = 1"
    found = list(english_rules.title_complaints(ast.parse(source), path))
    assert (found == []) is good


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("the peers' names", False),
        ("model.peer_state()", True),
        ("a composed twin", False),
        ("the face of a model", False),
        ("a Hugging Face model, with a surface", True),
        ("numbers are drawn anew", False),
        ("that is no JSON", False),
        ("the two are no\ntensors", False),
        ("there is no graph", True),
        ("the tensor is no longer needed", True),
        ("the error is no larger than 1", True),
        ("both are no worse than before", True),
        ("the house rule", False),
        ("a cat in the house", True),
        ("all in one go", False),
        ("computed in the open", False),
        ("the decoder shall choose", False),
        ("a shallow copy", True),
        ("takes the layer apart", False),
        ("apart from that", True),
        ("cannot tell the two apart", True),
        ("windows `step` apart", True),
        ("1e-6 apart", True),
        ("read in a room of its own", False),
        ("there is no room for a token", True),
        ("shapes and axes are equally\n    # many", False),
        ("the weights are thrown", False),
        ("the result is thrown away", True),
    ],
)
def test_an_unusual_phrase_is_found(text, good):
    assert (list(english_rules.phrase_complaints(text)) == []) is good


def test_phrases_are_found_in_strings_and_comments_and_nowhere_else():
    source = '''"""A title.

The twin."""
twin = 1
name = f"{twin.shall} the peer"  # drawn
# in one
# go
text = ("is not "
        "anew")
raise ValueError(f"x {f'meanwhile'}")
'''
    found = [
        (line, text.split("'")[1])
        for line, _, text in english_rules.prose_complaints(source, ".py")
    ]
    assert sorted(found) == [
        (3, "twin"),
        (5, "peer"),
        (6, "in one go"),
        (8, "anew"),
        (10, "meanwhile"),
    ]
    assert [line for line, _, _ in english_rules.prose_complaints("a\n\nthe twin\n", ".md")] == [3]


@pytest.mark.parametrize(
    ("argument", "rules"),
    [
        ('"dropout: p is a probability."', ["headline", "full stop"]),
        ('f"{name}: {key} is a size"', ["headline"]),
        ('"pool: " f"labels are integers"', ["headline"]),
        ('"p must be a probability"', []),
        ('"index is not an integer"', []),
        ('"key and value have different lengths"', []),
        ('"key and value have different lengths."', ["full stop"]),
        ('prefix + "the file is empty."', ["full stop"]),
        ('"x is empty." if x else "y"', ["full stop"]),
    ],
)
def test_a_headline_that_is_a_rule_or_ends_with_a_full_stop_is_found(argument, rules):
    tree = ast.parse(f"raise errors.ShapeError({argument}, got='a. b.')\nraise Other('p is a b.')")
    classes = english_rules.error_classes()
    found = [rule for _, rule, _ in english_rules.headline_complaints(tree, classes)]
    assert found == rules


def test_the_error_classes_are_those_of_the_package():
    names = set(english_rules.error_classes())
    for path in english_rules.files([english_rules.ROOT / english_rules.PACKAGE]):
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    bases = {
                        getattr(base, "id", getattr(base, "attr", None)) for base in node.bases
                    }
                    assert node.name in names or not bases & names, node.name


def docstring(description):
    return f"Sum.\n\nParameters\n----------\nx : Tensor\n    {description}\n\nNotes\n-----\nSum.\n"


def test_a_parameter_description_that_is_a_fragment_is_found():
    for fragment in ("Of the query projections.", "On the attention weights."):
        ((line, rule, _),) = english_rules.parameter_complaints(docstring(fragment))
        assert (line, rule) == (6, "parameter")
    assert not list(english_rules.parameter_complaints(docstring("Number of heads.")))
    inside = docstring("Number of heads.\n    y : Tensor\n        Number of keys.")
    ((line, _, text),) = english_rules.parameter_complaints(inside)
    assert line == 7 and "indented like a description" in text


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("Of the method: what is not a tensor.", False),
        ("Sum of all.\n\nOf equal elements the first is taken.", False),
        ("Sum of all. Of equal\nelements the first is taken.", False),
        ("The sum of all\nof the elements. Offsets count.", True),
    ],
)
def test_a_sentence_that_begins_with_of_is_found(text, good):
    assert (list(english_rules.sentence_complaints(text)) == []) is good


def test_the_command_lists_file_and_line(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("One line.\n\nThe twin.\n", encoding="utf-8")
    assert english_rules.main([page])
    out, err = capsys.readouterr()
    assert out.startswith(f"{page}:3: phrase: 'twin'") and "phrase 1" in err
