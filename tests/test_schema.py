"""Reading JSON and TOML files, and checking their fields."""

import pytest

from minitorch_attn.errors import CheckpointError, DataError
from minitorch_attn.schema import (
    ANY,
    COUNT,
    FLAG,
    INTEGER,
    NON_NEGATIVE,
    NUMBER,
    SHARE,
    SIZE,
    TEXT,
    check,
    choice,
    either,
    like,
    list_of,
    map_of,
    number_from,
    optional,
    read_json,
    read_toml,
    read_utf8,
    record,
)  # fmt: skip

NAN, INF, HUGE = float("nan"), float("inf"), 10**400


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"a": 1e999}', "1e999 is not a JSON number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "4300"),
        (b'{"a": "\xff"}', "could not be read as text"),
        ('{"a": 1}'.encode("utf-16"), "could not be read as text"),
        (b"", "is not valid JSON"),
        (b"[]", "must contain a JSON object"),
    ],
)
def test_files_that_are_not_json_objects(content, reason, tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=reason) as caught:
        read_json(path, CheckpointError)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"a = ", b"a = " + b"[" * 100_000, b"\xff", b"a = 1\na = 2"])
def test_files_that_are_not_toml(content, tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.toml"):
        read_toml(path)


def test_files_that_could_not_be_opened(tmp_path):
    for path in (tmp_path / "nowhere", tmp_path, f"{tmp_path}/a\0b", f"{tmp_path}/\ud800"):
        with pytest.raises(DataError, match="could not be read"):
            read_utf8(path)


@pytest.mark.parametrize(
    ("kind", "accepted", "refused"),
    [
        (TEXT, ["", "é"], [None, 5, b"x", ["x"], "\ud800"]),
        (FLAG, [True, False], [0, 1, None, "false", 1.0]),
        (INTEGER, [-1, 0, 2**63 - 1], [True, 1.0, "1", None, 2**63, HUGE, NAN]),
        (COUNT, [0, 1], [-1, False, 0.0]),
        (SIZE, [1, 7], [0, True, -3, 2**63]),
        (NUMBER, [0, -1.5, 2**70], [NAN, INF, -INF, HUGE, True, "1", None, 1j]),
        (NON_NEGATIVE, [0, 1e-5], [-1e-5, NAN]),
        (SHARE, [0, 0.5, 1], [-0.1, 1.1, NAN, True]),
        (number_from(2, 3), [2, 2.5], [1.9, 3.1]),
        (optional(SIZE), [None, 1], [0, "x"]),
        (choice(1, "a", True), [1, "a", True], [False, 1.0, "b", [1], None]),
        (either(SIZE, list_of(SIZE, 2)), [3, [1, 2], (1, 2)], [0, [1], [1, 0], [1, 2, 3], "12"]),
        (list_of(TEXT), [[], ["a"]], ["a", ["a", 1], {"a": 1}, None]),
        (map_of(SIZE), [{}, {"a": 1}], [{"a": 0}, [1], None]),
        (record({"a": SIZE}, {"b": TEXT}), [{"a": 1}, {"a": 1, "b": "", "c": 0}],
         [{}, {"a": 0}, {"a": 1, "b": None}, []]),
        (record({"a": SIZE}, closed=True), [{"a": 1}], [{"a": 1, "b": 2}]),
        (like(0.5), [1, 0.25], [True, "x"]),
        (like((1, 2)), [[3]], [["x"], 3]),
        (like(None), [None, 1, "x"], []),
        (ANY, [None, object()], []),
    ],
)  # fmt: skip
def test_kinds(kind, accepted, refused):
    for value in accepted:
        check(value, kind, "a.json")
    for value in refused:
        with pytest.raises(DataError, match=r"^a\.json: "):
            check(value, kind, "a.json")


def test_the_message_names_the_field_and_the_value():
    table = record({"rows": list_of(record({"name": TEXT}))})
    with pytest.raises(CheckpointError) as caught:
        check({"rows": [{"name": "a"}, {"name": 5}]}, table, "f", CheckpointError, hint="h")
    assert str(caught.value) == (
        "f: the value of rows.1.name is invalid\n  got       5\n  expected  a string\n  try       h"
    )
    with pytest.raises(DataError, match=r"rows\.0\.name is missing"):
        check({"rows": [{}]}, table, "f")


@pytest.mark.parametrize("value", ["x" * 10**6, HUGE, list(range(10**6)), [[[]]] * 99])
def test_messages_stay_short(value):
    with pytest.raises(DataError) as caught:
        check({"a": value}, record({"a": FLAG}), "f")
    assert len(str(caught.value)) < 200
