"""Einsum: products written with one letter per axis."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError


def case(equation, *shapes):
    """The same equation in NumPy."""
    return Case(
        equation,
        lambda *xs: mt.einsum(equation, *xs),
        lambda *xs: np.einsum(equation, *xs),
        *shapes,
    )


CASES = [
    case("ij,jk->ik", (2, 3), (3, 5)),
    case("ij,jk", (2, 3), (3, 5)),
    case("bij,bjk->bik", (2, 3, 5), (2, 5, 7)),
    case("bqhd,bkhd->bhqk", (2, 3, 2, 5), (2, 4, 2, 5)),
    case("bhqk,bkhd->bqhd", (2, 2, 3, 4), (2, 4, 2, 5)),
    case("i,j->ij", (2,), (3,)),
    case("i,j->ji", (2,), (3,)),
    case("i,i->i", (3,), (3,)),
    case("i,i", (3,), (3,)),
    case("ij->ji", (2, 3)),
    case("ij->", (2, 3)),
    case("ij->j", (2, 3)),
    case("ba", (2, 3)),
    case("bA", (2, 3)),
    case("ii", (3, 3)),
    case("ii->i", (3, 3)),
    case("iji->j", (3, 2, 3)),
    case("iii->i", (2, 2, 2)),
    case("ijij->ij", (2, 3, 2, 3)),
    case("ii,ij->j", (3, 3), (3, 2)),
    case("ij,ij->", (2, 3), (2, 3)),
    case("ij,kl->ijkl", (2, 3), (1, 2)),
    case("ij,k->i", (2, 3), (5,)),
    case("...ij,...jk->...ik", (2, 3, 5), (5, 7)),
    case("...ij,...jk", (7, 1, 2, 3), (4, 3, 5)),
    case("i...,i->...", (3, 2, 5), (3,)),
    case("...->...", (2, 3)),
    case("a...b->b...a", (2, 3, 5)),
    case("i...j,j...->i...", (2, 3, 5), (5, 3)),
    case("ij,jk,kl->il", (2, 3), (3, 5), (5, 2)),
    case("ij,jk,ki->", (2, 3), (3, 5), (5, 2)),
    case("a,b,ab->ab", (2,), (3,), (2, 3)),
    case(",ij->ij", (), (2, 3)),
    case("->", ()),
    case(" i j , j k -> i k ", (2, 3), (3, 5)),
    case("ij,jk->ik", (2, 0), (0, 3)),
    case("ij,jk->ik", (0, 2), (2, 3)),
    Case("broadcast sizes", lambda a, b: mt.einsum("ij,ij->ij", a, b), lambda a, b: a * b, (2, 1),
         (2, 3)),
    Case("broadcast sizes, summed", lambda a, b: mt.einsum("ij,jk->ik", a, b),
         lambda a, b: np.broadcast_to(a, (2, 3)) @ b, (2, 1), (3, 5)),
    Case("a list of operands", lambda a, b: mt.einsum("ij,jk", [a, b]), lambda a, b: a @ b, (2, 3),
         (3, 5)),
    Case("lists of axes", lambda a, b: mt.einsum(a, [0, 1], b, [1, 2], [2, 0]),
         lambda a, b: (a @ b).T, (2, 3), (3, 5)),
    Case("lists of axes with ...", lambda a, b: mt.einsum(a, [..., 0], b, [0]),
         lambda a, b: a @ b, (2, 3), (3,)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)

BAD = [
    (
        "ij,jk",
        (2, 3),
        None,
        ArgumentError,
        "do not match",
        "2 terms and 1 operands",
    ),
    ("ijk,jk->i", (2, 3), (3, 2), ArgumentError, "does not match", "'ijk' for 2 axes"),
    ("i,jk->i", (2, 3), (3, 2), ArgumentError, "does not match", "'i' for 2 axes"),
    ("ij,jk->il", (2, 3), (3, 2), ArgumentError, "not in any operand", "'l'"),
    ("ij,jk->ii", (2, 3), (3, 2), ArgumentError, "is repeated", "'i'"),
    (
        "ij,jk->ik",
        (2, 3),
        (2, 3),
        ShapeError,
        "an axis do not match",
        "'j' is 3 and 2",
    ),
    ("ii,jk->i", (2, 3), (2, 3), ShapeError, "must have the same size", "'i' is 2 and 3"),
    ("i1,jk->i", (2, 3), (2, 3), ArgumentError, "does not match", "'i1'"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make):
    equation, *shapes, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        mt.einsum(equation, *[make(*shape) for shape in shapes if shape])
    assert detail in str(caught.value)
    assert repr(equation) in str(caught.value)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_any_equation(data, device):
    sizes = {letter: data.draw(st.integers(0, 3), label=letter) for letter in "abcd"}
    letters = st.lists(st.sampled_from("abcd"), max_size=3)
    terms = data.draw(st.lists(letters, min_size=1, max_size=3), label="terms")
    known = sorted({c for term in terms for c in term})
    result = data.draw(st.permutations(known), label="result")
    result = result[: data.draw(st.integers(0, len(result)))]
    equation = ",".join("".join(term) for term in terms) + "->" + "".join(result)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal([sizes[c] for c in term]) for term in terms]
    got = mt.einsum(equation, *[mt.tensor(a, device=device) for a in arrays])
    np.testing.assert_allclose(got.numpy(), np.einsum(equation, *arrays), atol=1e-12)
