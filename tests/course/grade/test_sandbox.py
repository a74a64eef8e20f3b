"""The levels: which there are, and which of them works here."""

import pytest

from minitorch_attn.course.grade.sandbox import Sandbox
from minitorch_attn.errors import ArgumentError


def test_there_are_three_levels():
    with pytest.raises(ArgumentError, match="no such level"):
        Sandbox(4)
    assert Sandbox.best() in (1, 2, 3)
