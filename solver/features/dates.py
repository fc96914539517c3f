"""Dates and times → days since 1970, day of the week, month and hour."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from solver.features.columns import LARGEST_SCORE, FeatureCounts
from solver.features.errors import BadValue, FeatureError, StateError
from solver.features.progress import Passes
from solver.features.strings import pack_strings, unpack_strings
from solver.kinds import LIKE_A_DATE
from solver.reading import MAX_CHARACTERS
from solver.typing import FloatArray

ISO: Final = "ISO 8601"
EPOCH_SECONDS: Final = "seconds since 1970"
EPOCH_MILLISECONDS: Final = "milliseconds since 1970"
_EPOCHS: Final = {EPOCH_SECONDS: (1, re.compile("[0-9]{9,10}")), EPOCH_MILLISECONDS: (1000, re.compile("[0-9]{12,13}"))}
# how dates may be written, months in English, short or whole. A model file holds the position in this list, so new ones
# go to its end.
FORMATS: Final = (
    ISO,
    "%d.%m.%Y",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%Y/%m/%d",
    "%Y/%m/%d %H:%M",
    "%Y/%m/%d %H:%M:%S",
    "%d/%m/%Y",
    "%d/%m/%Y %H:%M",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%d.%m.%y",
    "%d.%m.%y %H:%M",
    "%d.%m.%y %H:%M:%S",
    "%d/%m/%y",
    "%d/%m/%y %H:%M",
    "%d/%m/%y %H:%M:%S",
    "%m/%d/%y",
    "%m/%d/%y %H:%M",
    "%m/%d/%y %H:%M:%S",
    "%d %b %Y",
    "%d %b %Y %H:%M",
    "%d %b %Y %H:%M:%S",
    "%d-%b-%Y",
    "%d-%b-%Y %H:%M",
    "%d-%b-%Y %H:%M:%S",
    "%b %d, %Y",
    "%b %d, %Y %H:%M",
    "%b %d, %Y %H:%M:%S",
    "%b %d %Y",
    EPOCH_SECONDS,
    EPOCH_MILLISECONDS,
)
# what `strptime` makes of `%y`, as POSIX says
SHORT_YEARS: Final = "the last two digits are then the year, 1969 to 1999 or 2000 to 2068"

MOST_UNREADABLE: Final = 100

_LIKE_ISO: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = 86400.0

# flags of the parts that a column has as features
_DAYS, _WEEKDAY, _MONTH, _HOUR = 1, 2, 4, 8
# each becomes a point on a circle, so that December lies beside January
_CYCLES: Final = ((_WEEKDAY, "weekday", 7.0), (_MONTH, "month", 12.0), (_HOUR, "hour", 24.0))


def guess_format(values: Sequence[str]) -> str | None:
    """The one format in which all texts are dates; None if there is none, or if the day may as well be the month.

    Years of two digits are never guessed: `1.2.10` may be the number of a version; nor are counts of seconds.

    Parameters
    ----------
    values : sequence of str
        Different texts, at least one.
    """
    if not LIKE_A_DATE.match(values[0]):
        return None
    possible = _formats_of_all(values, [each for each in FORMATS if not _is_short(each) and each not in _EPOCHS])
    return possible[0] if len(possible) == 1 else None


def may_have_short_years(values: Sequence[str]) -> bool:
    """Tell whether all texts may be dates whose years have two digits.

    Parameters
    ----------
    values : sequence of str
        Different texts, at least one.
    """
    likely = LIKE_A_DATE.match(values[0]) is not None
    return likely and bool(_formats_of_all(values, [each for each in FORMATS if _is_short(each)]))


def may_be_day_or_month(values: Sequence[str]) -> bool:
    """Tell whether all texts are dates with years of four digits, of which the day may as well be the month.

    Parameters
    ----------
    values : sequence of str
        Different texts, at least one.
    """
    if not LIKE_A_DATE.match(values[0]):
        return False
    return len(_formats_of_all(values, [each for each in FORMATS if not _is_short(each) and each not in _EPOCHS])) > 1


def date_range(values: Sequence[str]) -> tuple[str, str] | None:
    """The earliest and the latest of texts as they are written; None if they are not dates of one format.

    Parameters
    ----------
    values : sequence of str
        Different texts, at least one.
    """
    possible = _formats_of_all(values, FORMATS)
    if len(possible) != 1:
        return None
    dated = [(time, text) for text in values if (time := _reader(possible[0])(text)) is not None]
    return min(dated)[1].strip(), max(dated)[1].strip()


def _is_short(date_format: str) -> bool:
    return "%y" in date_format


def _formats_of_all(values: Sequence[str], possible: Sequence[str]) -> Sequence[str]:
    for step in (max(1, len(values) // 100), 1):  # a few of them tell nearly always
        possible = [each for each in possible if _all_are_dates(values[::step], each)]
    return possible


def _all_are_dates(values: Sequence[str], date_format: str) -> bool:
    read = _reader(date_format)
    return all(read(value) is not None for value in values)


def _reader(date_format: str) -> Callable[[str], datetime | None]:
    """What turns a text into a time, None if it is not one. Without an offset it is taken for UTC."""

    def read(text: str) -> datetime | None:
        text = text.strip()
        if date_format in _EPOCHS:
            divisor, pattern = _EPOCHS[date_format]
            return datetime.fromtimestamp(int(text) / divisor, UTC) if pattern.fullmatch(text) else None
        if date_format == ISO and not _LIKE_ISO.match(text):
            return None
        try:
            made = datetime.fromisoformat(text) if date_format == ISO else _parsed(text, date_format)
        except ValueError:
            return None
        return made if made.tzinfo is not None else made.replace(tzinfo=UTC)

    return read


def _parsed(text: str, date_format: str) -> datetime:
    """What `strptime` gives; a month may be short (`Nov`) or whole where the format has it as a word."""
    if "%b" not in date_format:
        return datetime.strptime(text, date_format)
    try:
        return datetime.strptime(text, date_format)
    except ValueError:
        return datetime.strptime(text, date_format.replace("%b", "%B"))


class DateColumns:
    """The fitted date columns, and how to apply them.

    Days since 1970 (in UTC) are standardised. Day of the week, month and hour, each as written, become the sine and
    cosine of their place in the cycle; those that are the same in all fitted rows are left out. A missing date gets the
    mean day and the middle of each circle, and a 0/1 feature where `fit` met missing ones and was asked to indicate.

    Attributes
    ----------
    names : list of str
        The columns.
    width : int
        Number of features.
    feature_names : list of str
        Such as `ordered day`, `ordered hour (sine)`.
    feature_columns : list of str
        The column that each feature is of.
    unreadable : dict of str to list of str
        Texts that `fit` met, which are no dates and counted as missing, by column; at most a hundred each.
    """

    def __init__(
        self,
        names: list[str],
        formats: NDArray[np.uint8],
        mean: FloatArray,
        scale: FloatArray,
        parts: NDArray[np.uint8],
        indicator: NDArray[np.uint8],
    ) -> None:
        self.names = names
        self._formats, self._mean, self._scale, self._parts, self._indicator = formats, mean, scale, parts, indicator
        self.unreadable: dict[str, list[str]] = {}
        self.feature_names: list[str] = []
        self.feature_columns: list[str] = []
        for name, own_parts, has_indicator in zip(names, parts.tolist(), indicator.tolist(), strict=True):
            self.feature_names += [f"{name} day"] if own_parts & _DAYS else []
            for part, word, _ in _CYCLES:
                self.feature_names += [f"{name} {word} (sine)", f"{name} {word} (cosine)"] if own_parts & part else []
            self.feature_names += [f"{name} is missing"] if has_indicator else []
            self.feature_columns += [name] * (len(self.feature_names) - len(self.feature_columns))
        self.width = len(self.feature_names)

    @property
    def formats(self) -> dict[str, str]:
        """By column, which of `FORMATS` its dates are written in."""
        return {name: FORMATS[number] for name, number in zip(self.names, self._formats.tolist(), strict=True)}

    @classmethod
    def fit(
        cls,
        columns: Mapping[str, tuple[Sequence[str | None], str]],
        indicate: bool,
        warnings: list[str],
        passes: Passes | None = None,
    ) -> Self:
        """Learn the scale of columns; one that does not vary is left out with a warning.

        Parameters
        ----------
        columns : mapping of str to (values, format)
            The format is one of `FORMATS`; a text that is not such a date counts as missing.
        indicate : bool
            Whether there may be a feature that says where a date is missing.
        warnings : list of str
        passes : Passes, optional
            Counts one for each column.
        """
        passes = passes or Passes()
        fitted: list[tuple[str, int, float, float, int, int]] = []
        unreadable: dict[str, list[str]] = {}
        for name, (values, date_format) in columns.items():
            parsed, places = _parse(values, date_format, passes)
            if places:
                warnings.append(
                    f"column {name!r}: {len(places)} row(s) hold no date that can be read; they are missing"
                )
                found = sorted(
                    {text for row in places if (text := values[row]) is not None and len(text) <= MAX_CHARACTERS}
                )
                unreadable[name] = found[:MOST_UNREADABLE]
            if _is_short(date_format):
                warnings.append(f"column {name!r} has dates whose years have two digits; {SHORT_YEARS}")
            days = parsed[0]
            present = np.isfinite(days)
            has_indicator = indicate and not present.all()
            parts = 0
            mean, scale = 0.0, 1.0
            if present.any():
                mean, scale = float(days[present].mean()), float(days[present].std())
                parts = _DAYS if scale > 0 else 0
                for k, (part, _, _) in enumerate(_CYCLES, start=1):
                    own = parsed[k][present]
                    parts |= part if own.min() < own.max() else 0
            if not parts and not (has_indicator and present.any()):
                warnings.append(f"column {name!r} is left out: it has the same date, or none, in all training rows")
                continue
            fitted.append((name, FORMATS.index(date_format), mean, scale or 1.0, parts, has_indicator))
        made = cls(
            [row[0] for row in fitted],
            np.array([row[1] for row in fitted], dtype=np.uint8),
            np.array([row[2] for row in fitted], dtype=np.float64),
            np.array([row[3] for row in fitted], dtype=np.float64),
            np.array([row[4] for row in fitted], dtype=np.uint8),
            np.array([row[5] for row in fitted], dtype=np.uint8),
        )
        made.unreadable = unreadable
        return made

    def transform(
        self,
        columns: Sequence[Sequence[str | None]],
        counts: FeatureCounts,
        out: FloatArray,
        refuse_unreadable: bool = True,
        passes: Passes | None = None,
    ) -> None:
        """Fill `out`, shape (rows, width), from the dates of each column in the order of `names`.

        Raises
        ------
        BadValue
            For the first text that is no date, unless it shall count as missing.
        """
        at = 0
        passes = passes or Passes()
        for j, (name, values) in enumerate(zip(self.names, columns, strict=True)):
            date_format = FORMATS[self._formats[j]]
            parsed, places = _parse(values, date_format, passes)
            unreadable = len(places)
            if unreadable and refuse_unreadable:
                raise BadValue(places[0], name, f"a date such as {example_of(date_format)}, or null")
            if unreadable:
                counts.unreadable[name] = unreadable
            absent = ~np.isfinite(parsed[0])
            surprises = int(np.count_nonzero(absent)) - unreadable
            if surprises and not self._indicator[j]:
                counts.missing[name] = surprises
            if self._parts[j] & _DAYS:
                scores = (parsed[0] - self._mean[j]) / self._scale[j]
                out[:, at] = np.clip(np.where(absent, 0.0, scores), -LARGEST_SCORE, LARGEST_SCORE)
                at += 1
            for k, (part, _, period) in enumerate(_CYCLES, start=1):
                if self._parts[j] & part:
                    angle = 2 * math.pi / period * np.where(absent, 0.0, parsed[k])
                    out[:, at] = np.where(absent, 0.0, np.sin(angle))
                    out[:, at + 1] = np.where(absent, 0.0, np.cos(angle))
                    at += 2
            if self._indicator[j]:
                out[:, at] = absent
                at += 1

    def state(self) -> dict[str, NDArray[Any]]:
        """What was fitted, as arrays; `from_state` takes them."""
        text, ends = pack_strings(self.names)
        return {
            "date_text": text,
            "date_ends": ends,
            "date_format": self._formats,
            "date_mean": self._mean,
            "date_scale": self._scale,
            "date_parts": self._parts,
            "date_indicator": self._indicator,
        }

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild from `state`, believing nothing.

        Raises
        ------
        StateError
            If the parts contradict each other.
        """
        names = unpack_strings(arrays["date_text"], arrays["date_ends"])
        parts = [arrays[f"date_{part}"] for part in ("format", "mean", "scale", "parts", "indicator")]
        if any(len(part) != len(names) for part in parts):
            raise StateError("date features: each column needs one format, mean, scale, parts and indicator")
        formats, mean, scale, flags, indicator = parts
        if (formats >= len(FORMATS)).any() or (flags > 15).any() or (indicator > 1).any() or (scale <= 0).any():
            raise StateError("date features: a format, scale or flag is not possible")
        if ((flags == 0) & (indicator == 0)).any():
            raise StateError("date features: a column without a feature")
        return cls(names, formats, mean, scale, flags, indicator)


def checked_format(name: str, values: Sequence[str]) -> str:
    """The format of a column that the caller says holds dates.

    Raises
    ------
    FeatureError
        If none of `FORMATS` fits more than half of the texts, or two fit equally well.
    """
    fits = {each: sum(_reader(each)(value) is not None for value in values) for each in FORMATS}
    best = max(fits.values())
    if 2 * best <= len(values):
        raise FeatureError(f"column {name!r}: its texts are no dates; expected ISO 8601 such as 2026-11-28T09:30:00Z")
    chosen = [each for each, n in fits.items() if n == best]
    if len(chosen) > 1:
        raise FeatureError(f"column {name!r}: the day may as well be the month; write dates as 2026-11-28")
    return chosen[0]


def example_of(date_format: str) -> str:
    """A moment as this format writes it."""
    moment = datetime(2026, 11, 28, 9, 30, tzinfo=UTC)
    if date_format in _EPOCHS:
        return f"{int(moment.timestamp() * _EPOCHS[date_format][0])} ({date_format})"
    return "2026-11-28 or 2026-11-28T09:30:00Z" if date_format == ISO else moment.strftime(date_format)


def _parse(values: Sequence[str | None], date_format: str, passes: Passes) -> tuple[FloatArray, list[int]]:
    """Days since 1970, weekday, month and hour by row, shape (4, rows), NaN without a date; and rows that hold none."""
    read, read_iso = _reader(date_format), _reader(ISO)
    nothing = (math.nan,) * 4
    known: dict[str, tuple[float, float, float, float]] = {}
    unreadable: list[int] = []
    parsed = np.empty((4, len(values)))
    for i, value in enumerate(passes.over(values)):
        found = nothing
        if value is not None:
            if value not in known:
                moment = read(value) or read_iso(value)  # which can be taken for nothing else
                known[value] = nothing if moment is None else _parts_of(moment)
            found = known[value]
            if found is nothing:
                unreadable.append(i)
        parsed[:, i] = found
    return parsed, unreadable


def _parts_of(moment: datetime) -> tuple[float, float, float, float]:
    seconds = moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6
    return (moment - _EPOCH).total_seconds() / _DAY, float(moment.weekday()), float(moment.month - 1), seconds / 3600
