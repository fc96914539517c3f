"""Formats, and what can be said about a file besides its bytes. Checked before a file is touched."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import PurePosixPath
from typing import Any, Final, Literal, get_args

from service.ingest.errors import IngestError
from service.ingest.escaping import ESCAPE
from service.ingest.limits import MAX_MISSING_SPELLINGS, MAX_NAME_CHARACTERS
from service.ingest.profile import has_control_characters
from solver.reading import DECIMALS, THOUSANDS, Reading

Kind = Literal["number", "category", "text", "date"]
"""What a column is: ``text`` is free text, made of words; ``category`` is any other text."""

ENCODINGS = frozenset(
    (
        *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "ascii", "mac-roman", "koi8-r", "koi8-u"),
        *(f"iso8859-{part}" for part in range(1, 17) if part != 12),
        *(f"cp{page}" for page in (437, 850, 852, 866, 1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258)),
        *("shift_jis", "cp932", "euc_jp", "iso2022_jp", "euc_kr", "cp949", "gb2312", "gbk", "gb18030", "big5"),
    )
)
"""Encodings that text files may have, as Python's codecs call themselves: to look one up loads it, and its tables. A
list, because Python also counts compression among its codecs."""


@dataclass(frozen=True)
class TableOptions:
    """Options of every table format."""

    columns: Mapping[str, Kind] = field(default_factory=dict)
    """Kind of columns where the reader's own guess is not wanted: ``{"zip": "category"}``."""
    decimal: str = "."
    """What separates the decimals of a number that stands as text: a point or a comma, as in ``1,5``."""
    thousands: str = ""
    """What separates the thousands of such numbers, of `solver.reading.THOUSANDS`; empty: the texts have to tell."""
    missing: tuple[str, ...] = ()
    """Values that mean "missing" in every column, such as ``NA`` or ``?``; -999 also where it is a number by the format
    of the file. The empty value always does."""

    verbatim: Mapping[str, Reading] = field(default_factory=dict)
    """Columns whose texts stay what they are, numbers or not: a model is to read them, in this way. What stands among
    them as a number by the format of the file is spelt so that this gives that number. No upload can say it."""

    @property
    def reading(self) -> Reading:
        """How values are written, as far as the options say."""
        return Reading(missing=self.missing, decimal=self.decimal, thousands=self.thousands)


@dataclass(frozen=True)
class DelimitedOptions(TableOptions):
    """Options of ``csv`` and ``tsv``."""

    delimiter: str | None = None
    """One ASCII character. None: the first line tells, see `service.ingest.delimiter`."""
    header: bool | Literal["auto"] = "auto"
    """Whether the first row holds the column names; else they are ``f0``, ``f1``, … ``auto``: what its values look
    like, see `service.ingest.header`."""
    quote: str | None = "auto"
    """The character that may quote values; None: quotes are characters like others. ``auto``: ``\"``, unless the file
    makes sense without quoting only."""
    escape: str | None = None
    """A backslash, if it escapes the character behind it, as in what MySQL writes."""
    encoding: str = "utf-8"
    """One of `ENCODINGS`; a byte order mark is skipped."""
    trim: bool = False
    """Strip blanks around every value before anything else."""

    @property
    def reading(self) -> Reading:
        """How values are written, as far as the options say."""
        return replace(super().reading, trim=self.trim)


@dataclass(frozen=True)
class SheetOptions(TableOptions):
    """Options of ``xlsx``."""

    header: bool | Literal["auto"] = "auto"
    """Whether the first row that is not empty holds the column names, as in `DelimitedOptions`."""


@dataclass(frozen=True)
class NpzOptions(TableOptions):
    """Options of ``npz``."""

    vectors: bool = False
    """Whether ``X`` is one column of vectors, and each other array of as many rows a column beside it."""


@dataclass(frozen=True)
class SvmlightOptions:
    """Options of ``svmlight``."""

    zero_based: bool | Literal["auto"] = "auto"
    """Whether the smallest possible index is 0 rather than 1; ``auto``: when an index 0 occurs."""


def kind_option(column: str, kind: Kind) -> str:
    """Return the option, as JSON, that says what a column is: for advice to whoever sent the file."""
    return json.dumps({"columns": {column: kind}}, ensure_ascii=False)


def correction(column: str, kind: Kind) -> str:
    """Return the call that says afterwards what a column is: for advice to whoever sent the file."""
    return f"PATCH /datasets/{{id}} with {kind_option(column, kind)}"


Options = DelimitedOptions | NpzOptions | SheetOptions | TableOptions | SvmlightOptions


@dataclass(frozen=True)
class Format:
    """A format of uploads. A new one is a module with its reader and an entry in `FORMATS`."""

    reader: str
    """Where its reader is, as ``module:function``; loaded when it is to read, which a child process does."""
    extensions: tuple[str, ...]
    """Of file names; behind them there may be one of a compressed file."""
    media_types: tuple[str, ...] = ()
    options: type[Options] = TableOptions
    delimiter: str | None = None
    """In force where the options do not say one."""
    labels: str | None = None
    """The column that holds the labels whatever the file is; None: nobody knows before a training says it."""


FORMATS: Final[dict[str, Format]] = {
    "csv": Format(
        "service.ingest.delimited:read_delimited", (".csv",), ("text/csv", "application/csv"), DelimitedOptions
    ),
    "tsv": Format(
        "service.ingest.delimited:read_delimited",
        (".tsv", ".tab"),
        ("text/tab-separated-values",),
        DelimitedOptions,
        delimiter="\t",
    ),
    "jsonl": Format(
        "service.ingest.jsonl:read_jsonl", (".jsonl", ".ndjson"), ("application/jsonl", "application/x-ndjson")
    ),
    "parquet": Format(
        "service.ingest.parquet:read_parquet",
        (".parquet", ".pq"),
        ("application/vnd.apache.parquet", "application/x-parquet"),
    ),
    "arrow": Format(
        "service.ingest.arrow:read_arrow",
        (".arrow", ".arrows", ".feather", ".ipc"),
        ("application/vnd.apache.arrow.file", "application/vnd.apache.arrow.stream"),
    ),
    "arff": Format("service.ingest.arff:read_arff", (".arff",), ("application/x-arff", "text/x-arff")),
    "svmlight": Format(
        "service.ingest.svmlight:read_svmlight",
        (".svm", ".svmlight", ".libsvm"),
        ("application/x-svmlight", "text/x-svmlight", "text/libsvm"),
        SvmlightOptions,
        labels="label",
    ),
    "npz": Format("service.ingest.npz:read_npz", (".npz",), ("application/x-npz",), NpzOptions, labels="y"),
    "mail": Format(
        "service.ingest.mailbox:read_mailbox",
        (".mbox", ".tar", ".tgz", ".tbz2", ".zip"),
        ("application/mbox", "application/x-tar", "application/zip"),
        labels="label",
    ),
    "xlsx": Format(
        "service.ingest.xlsx:read_xlsx",
        # the last four are not read, but by this reader told how to get what is
        (".xlsx", ".xlsm", ".xls", ".xlsb", ".ods", ".numbers"),
        (
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            "application/vnd.ms-excel.sheet.macroenabled.12",
        ),
        SheetOptions,
    ),
}
"""By name, as uploads and data sets have it."""
PACKED = (".gz", ".bz2")
"""Extensions of compressed files, which stand behind that of a format."""
_BY_EXTENSION = {extension: name for name, each in FORMATS.items() for extension in each.extensions}
_BY_MEDIA_TYPE = {media_type: name for name, each in FORMATS.items() for media_type in each.media_types}


def guess_format(filename: str | None, media_type: str | None = None) -> str | None:
    """Return the format that a file name (``data.csv.gz``) or a media type says, or None.

    A media type that names a format wins over the file name; general ones (``application/octet-stream``) say nothing.
    """
    if media_type is not None:
        named = _BY_MEDIA_TYPE.get(media_type.partition(";")[0].strip().lower())
        if named is not None:
            return named
    path = PurePosixPath((filename or "").lower())
    if path.suffix in PACKED:
        path = path.with_suffix("")
    return _BY_EXTENSION.get(path.suffix)


def option_names(options: type[Options]) -> list[str]:
    """Return the options that an upload may say."""
    return [each.name for each in fields(options) if each.name in _CHECKS]


def described_options() -> str:
    """Return which formats have which options, for the reference of the API."""
    shared = option_names(TableOptions)
    formats: dict[type[Options], list[str]] = {}
    for name, each in FORMATS.items():
        formats.setdefault(each.options, []).append(name)
    said = [f"Tables: {_ticked(shared)}."]
    for options, names in formats.items():
        if own := [name for name in option_names(options) if name not in shared]:
            also = " also" if issubclass(options, TableOptions) else ""
            said.append(f"{', '.join(names)}{also}: {_ticked(own)}.")
    return " ".join(said)


def _ticked(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def parse_options(format: str, given: Mapping[str, Any]) -> Options:
    """Check the options of an upload, as they come out of JSON.

    Raises
    ------
    IngestError
        ``bad_option``, with the option's name and what was expected.
    """
    cls = FORMATS[format].options
    known = option_names(cls)
    for name in given:
        if name not in known:
            raise IngestError("bad_option", f"unknown option for {format}; there are: {', '.join(known)}")
    checked: dict[str, Any] = {name: _CHECKS[name](value) for name, value in given.items()}
    if FORMATS[format].delimiter is not None:
        checked.setdefault("delimiter", FORMATS[format].delimiter)
    if isinstance(delimiter := checked.get("delimiter"), str) and delimiter == checked.get("quote"):
        raise IngestError("bad_option", "options delimiter and quote: expected two different characters")
    if checked.get("decimal", ".") == checked.get("thousands"):
        raise IngestError(
            "bad_option",
            "options decimal and thousands: expected two different characters; decimal is a point unless said",
        )
    return cls(**checked)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise IngestError("bad_option", f"option {name}: expected true or false")
    return value


def _delimiter(value: Any) -> str:
    if value == "\\t":
        return "\t"
    if not isinstance(value, str) or len(value) != 1 or not (" " <= value <= "~" or value == "\t") or value in '"\\':
        raise IngestError(
            "bad_option", "option delimiter: expected one ASCII character other than a quote or backslash"
        )
    if value.isalnum() or value in "+-.":
        raise IngestError(
            "bad_option", "option delimiter: letters, digits and the characters of numbers cannot delimit"
        )
    return value


def _header(value: Any) -> bool | Literal["auto"]:
    if value == "auto":
        return "auto"
    if isinstance(value, bool):
        return value
    raise IngestError("bad_option", 'option header: expected true, false or "auto"')


def _quote(value: Any) -> str | None:
    if value is None or value == "auto":
        return value  # type: ignore[no-any-return]
    if not isinstance(value, str) or len(value) != 1 or not "!" <= value <= "~" or value.isalnum() or value in "+-.\\":
        raise IngestError(
            "bad_option", "option quote: expected null or one ASCII character, no letter, digit, backslash or blank"
        )
    return value


def _escape(value: Any) -> str | None:
    if value not in (None, ESCAPE):
        raise IngestError("bad_option", 'option escape: expected null or a backslash, in JSON "\\\\"')
    return value  # type: ignore[no-any-return]


def _decimal(value: Any) -> str:
    if value not in DECIMALS:
        raise IngestError("bad_option", 'option decimal: expected "." or ","')
    return str(value)


def _thousands(value: Any) -> str:
    if not isinstance(value, str) or value not in THOUSANDS:
        raise IngestError("bad_option", 'option thousands: expected ",", ".", " " or "\'"')
    return value


def _encoding(value: Any) -> str:
    try:
        name = codecs.lookup(value).name
    except (LookupError, TypeError, ValueError):
        name = ""
    if name not in ENCODINGS:
        raise IngestError("bad_option", f"option encoding: expected one of {', '.join(sorted(ENCODINGS))}")
    return name


def _missing(value: Any) -> tuple[str, ...]:
    if (
        not isinstance(value, list)
        or len(value) > MAX_MISSING_SPELLINGS
        or not all(isinstance(each, str) and _is_one_line(each) for each in value)
    ):
        raise IngestError(
            "bad_option",
            f"option missing: expected a list of at most {MAX_MISSING_SPELLINGS} strings of at most "
            f"{MAX_NAME_CHARACTERS} characters without control characters",
        )
    return tuple(value)


def _columns(value: Any) -> dict[str, Kind]:
    if not isinstance(value, dict) or not all(
        isinstance(name, str) and kind in get_args(Kind) for name, kind in value.items()
    ):
        kinds = ", ".join(get_args(Kind))
        raise IngestError("bad_option", f"option columns: expected the kind of each column by its name, one of {kinds}")
    return value


def _zero_based(value: Any) -> bool | Literal["auto"]:
    if value == "auto":
        return "auto"
    if isinstance(value, bool):
        return value
    raise IngestError("bad_option", 'option zero_based: expected true, false or "auto"')


def _is_one_line(value: str) -> bool:
    return len(value) <= MAX_NAME_CHARACTERS and not has_control_characters(value)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "columns": _columns,
    "decimal": _decimal,
    "delimiter": _delimiter,
    "encoding": _encoding,
    "escape": _escape,
    "header": _header,
    "missing": _missing,
    "quote": _quote,
    "thousands": _thousands,
    "trim": lambda value: _flag("trim", value),
    "vectors": lambda value: _flag("vectors", value),
    "zero_based": _zero_based,
}
