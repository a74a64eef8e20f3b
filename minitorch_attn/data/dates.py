"""Dates in twenty written formats and in ISO format, generated from a seed."""

import datetime

import numpy as np

__all__ = ["FORMATS", "characters_of_dates", "date_pair", "split_days", "write_date"]

_MONTHS = (
    "January February March April May June July August September October November December"
).split()
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_ROMAN = "I II III IV V VI VII VIII IX X XI XII".split()
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
).split()
_ORDINALS += [f"twenty-{word}" for word in _ORDINALS[:9]] + ["thirtieth", "thirty-first"]

# `write_date` fills in the names in braces. Formats are unambiguous. The day comes first in formats
# with dots (as in Germany), the month in formats with slashes (as in the United States). Years have
# four digits.
FORMATS = (
    "{day} {month} {year}, a {weekday}",
    "{weekday}, {day} {month} {year}",
    "{weekday}, {month} {day}, {year}",
    "{month} {day}, {year}",
    "{day} {month} {year}",
    "{mon} {day} {year}",
    "{wkd} {day} {mon} {year}",
    "the {day_th} of {month}, {year}",
    "{month} the {day_th}, {year}",
    "the {ordinal} of {month} {year}",
    "{year}, {month} {day}",
    "{day02}-{mon}-{year}",
    "{day02}.{number02}.{year}",
    "{day}.{number}.{year}",
    "{number02}/{day02}/{year}",
    "{number}/{day}/{year}",
    "{day} {roman} {year}",
    "{year}{number02}{day02}",
    "{MON} {day02} {year} ({WKD})",
    "in {year}, on {weekday} the {day_th} of {month}",
)


def write_date(day, style):
    """Write a date in one of the formats.

    Parameters
    ----------
    day : datetime.date
    style : int
        Index of the format in `FORMATS`.

    Returns
    -------
    str

    Examples
    --------
    >>> day = datetime.date(1987, 7, 3)
    >>> [write_date(day, style) for style in (0, 7, 9, 14, 18)]  # doctest: +NORMALIZE_WHITESPACE
    ['3 July 1987, a Friday', 'the 3rd of July, 1987', 'the third of July 1987', '07/03/1987',
     'JUL 03 1987 (FRI)']
    """
    month, weekday = _MONTHS[day.month - 1], _WEEKDAYS[day.weekday()]
    return FORMATS[style].format(
        day=day.day, day02=f"{day.day:02}", day_th=f"{day.day}{_suffix(day.day)}",
        ordinal=_ORDINALS[day.day - 1], month=month, mon=month[:3], MON=month[:3].upper(),
        number=day.month, number02=f"{day.month:02}", roman=_ROMAN[day.month - 1], year=day.year,
        weekday=weekday, wkd=weekday[:3], WKD=weekday[:3].upper(),
    )  # fmt: skip


def _suffix(day):
    return "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def characters_of_dates():
    """Return all characters that can occur in a source or target, sorted.

    Returns
    -------
    str
    """
    words = [*_MONTHS, *_WEEKDAYS, *_ROMAN, *_ORDINALS, *(word.upper() for word in _MONTHS)]
    words += [word.upper() for word in _WEEKDAYS] + ["0123456789", "stndrdth"]
    return "".join(sorted(set("".join([*words, *FORMATS])) - set("{}_")))


def split_days(first=1900, last=2099, held_out=2000, seed=0):
    """Split the days in a range of years at random into training and held-out days.

    Held-out days do not occur in the training set in any format.

    Parameters
    ----------
    first, last : int
        First and last year, both included.
    held_out : int, default 2000
        Number of days to hold out.
    seed : int, default 0

    Returns
    -------
    training, held_out : int64 array
        Ordinals as in `datetime.date.fromordinal`. The second array is in random order.

    Examples
    --------
    >>> training, held_out = split_days()
    >>> len(training), len(held_out), len(set(training) & set(held_out))
    (71049, 2000, 0)
    """
    start = datetime.date(first, 1, 1).toordinal()
    days = np.arange(start, datetime.date(last, 12, 31).toordinal() + 1)
    mixed = np.random.default_rng(seed).permutation(days)
    return np.sort(mixed[held_out:]), mixed[:held_out]


def date_pair(ordinal, style):
    """Return a date in one of the formats and the same date in ISO format.

    Parameters
    ----------
    ordinal : int
        Day, as in `datetime.date.fromordinal`.
    style : int
        Index of the format in `FORMATS`.

    Returns
    -------
    source, target : str

    Examples
    --------
    >>> date_pair(725555, 4)
    ('3 July 1987', '1987-07-03')
    """
    day = datetime.date.fromordinal(int(ordinal))
    return write_date(day, style), day.isoformat()
