"""Dates as people write them, and as a computer wants them: made by a seed, without end."""

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

# A name in braces is filled in by `_words`. Two readings are ruled out: dots put the day first
# (as in Germany), slashes the month (as in the United States), and years have four digits.
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
    """One surface form of a date.

    Parameters
    ----------
    day : datetime.date
    style : int
        Which of `FORMATS`.

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
        day=day.day,
        day02=f"{day.day:02}",
        day_th=f"{day.day}{_suffix(day.day)}",
        ordinal=_ORDINALS[day.day - 1],
        month=month,
        mon=month[:3],
        MON=month[:3].upper(),
        number=day.month,
        number02=f"{day.month:02}",
        roman=_ROMAN[day.month - 1],
        year=day.year,
        weekday=weekday,
        wkd=weekday[:3],
        WKD=weekday[:3].upper(),
    )


def _suffix(day):
    return "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def characters_of_dates():
    """Every character that a surface form or an answer can have, sorted.

    Returns
    -------
    str
    """
    words = [*_MONTHS, *_WEEKDAYS, *_ROMAN, *_ORDINALS, *(word.upper() for word in _MONTHS)]
    words += [word.upper() for word in _WEEKDAYS] + ["0123456789", "stndrdth"]
    return "".join(sorted(set("".join([*words, *FORMATS])) - set("{}_")))


def split_days(first=1900, last=2099, held_out=2000, seed=0):
    """The days of some years, shared out at random between training and a held-out part.

    A held-out day is in no training example in any surface form.

    Parameters
    ----------
    first, last : int
        Years, both included.
    held_out : int, default 2000
        How many days to hold out.
    seed : int, default 0

    Returns
    -------
    training, held_out : int64 array
        Ordinals, as `datetime.date.fromordinal` takes them; the second one in random order.

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
    """A surface form and its answer.

    Parameters
    ----------
    ordinal : int
    style : int

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
