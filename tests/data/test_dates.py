"""Dates in many forms, checked by an independent parser."""

import datetime
import re

import numpy as np
import pytest

from minitorch_attn.data.dates import (
    FORMATS,
    characters_of_dates,
    date_pair,
    split_days,
    write_date,
)

MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
ROMAN = "I II III IV V VI VII VIII IX X XI XII".split()
UNITS = "first second third fourth fifth sixth seventh eighth ninth".split()
TEENS = (
    "tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth "
    "nineteenth"
).split()


def spelled(word):
    """The number of an ordinal in words."""
    if word in ("twentieth", "thirtieth"):
        return {"twentieth": 20, "thirtieth": 30}[word]
    if "-" in word:
        tens, unit = word.split("-")
        return {"twenty": 20, "thirty": 30}[tens] + UNITS.index(unit) + 1
    return UNITS.index(word) + 1 if word in UNITS else TEENS.index(word) + 10


def read(text):
    """(year, month, day) by other means than the ones that wrote it."""
    if re.fullmatch(r"\d{8}", text):
        return int(text[:4]), int(text[4:6]), int(text[6:])
    if match := re.fullmatch(r"(\d+)([./])(\d+)\2(\d{4})", text):
        first, second, year = int(match[1]), int(match[3]), int(match[4])
        return (year, second, first) if match[2] == "." else (year, first, second)
    year = int(re.search(r"\d{4}", text)[0])
    rest = text.replace(str(year), " ", 1)
    if match := re.search(r"\b([IVX]+)\b", rest):
        month = ROMAN.index(match[1]) + 1
    else:
        names = re.findall(r"[A-Za-z]+", rest)
        month = next(MONTHS.index(n[:3].lower()) + 1 for n in names if n[:3].lower() in MONTHS)
    if match := re.search(r"\d+", rest):
        return year, month, int(match[0])
    return year, month, spelled(re.search(r"the ([a-z-]+) of", rest)[1])


@pytest.mark.parametrize("style", range(len(FORMATS)))
def test_every_form_says_the_date(style, rng):
    start = datetime.date(1900, 1, 1).toordinal()
    end = datetime.date(2099, 12, 31).toordinal()
    days = [datetime.date(2000, month, day) for month in range(1, 13) for day in range(1, 30)]
    days += [datetime.date.fromordinal(int(n)) for n in rng.integers(start, end, size=300)]
    for day in days:
        text, answer = date_pair(day.toordinal(), style)
        assert read(text) == (day.year, day.month, day.day), text
        assert answer == f"{day.year}-{day.month:02}-{day.day:02}"
        assert set(text + answer) <= set(characters_of_dates())
    weekday = days[0].strftime("%A").lower()
    written = write_date(days[0], style).lower()
    assert "day" not in written.replace(weekday, "") or weekday in written


def test_the_forms_of_one_day_differ():
    day = datetime.date(2001, 2, 9)
    assert len({write_date(day, style) for style in range(len(FORMATS))}) == len(FORMATS) == 20
    assert write_date(day, 0) == "9 February 2001, a Friday"


@pytest.mark.parametrize(
    ("day", "suffix"),
    [(1, "st"), (2, "nd"), (3, "rd"), (4, "th"), (11, "th"), (12, "th"), (13, "th"), (21, "st"),
     (22, "nd"), (23, "rd"), (31, "st")],
)  # fmt: skip
def test_suffixes(day, suffix):
    assert write_date(datetime.date(1999, 12, day), 7) == f"the {day}{suffix} of December, 1999"


def test_no_day_is_in_both_parts():
    training, held_out = split_days(1990, 1996, held_out=101)
    assert len(held_out) == 101 and len(set(held_out)) == 101
    both = np.concatenate([training, held_out])
    start = datetime.date(1990, 1, 1).toordinal()
    assert (np.sort(both) == np.arange(start, start + 7 * 365 + 2)).all()
    again, other = split_days(1990, 1996, 101), split_days(1990, 1996, 101, seed=1)
    assert (again[1] == held_out).all() and not (other[1] == held_out).all()
    assert len(np.unique([datetime.date.fromordinal(int(d)).month for d in held_out])) == 12
