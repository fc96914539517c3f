"""A format is declared once: a reader and an entry of `FORMATS` are all that an upload of it needs."""

import re
from collections import Counter
from pathlib import Path

from ingest_helpers import Read, refusal

from service.ingest.delimited import read_delimited
from service.ingest.options import FORMATS, DelimitedOptions, Format, TableOptions, guess_format

PAGE = (Path(__file__).parents[4] / "docs/datasets.md").read_text()


def read_lines(path, options, limits, output, warnings):
    """The reader of a format that is CSV with a headline of its own."""
    assert type(options) is TableOptions
    warnings.append("one line was a headline")
    path.write_bytes(path.read_bytes().partition(b"\n")[2])
    return read_delimited(path, DelimitedOptions(columns=options.columns), limits, output, warnings)


def test_a_new_one_is_read_with_its_options(monkeypatch):
    monkeypatch.setitem(FORMATS, "lines", Format(f"{__name__}:read_lines", (".lines",), labels="b"))
    data = b"a headline\na,b\n" + b"".join(b"%d,%dx\n" % (i, i % 3) for i in range(30))
    read = Read(data, "lines", {"columns": {"b": "category"}})
    assert read.rows == 30
    assert read.warnings[0] == "one line was a headline"
    assert "3 different labels" in read.warnings[-1]
    assert refusal(data, "lines", {"header": True}).code == "bad_option"


def test_no_name_says_two_formats():
    for of in ("extensions", "media_types"):
        named = Counter(each for form in FORMATS.values() for each in getattr(form, of))
        assert max(named.values()) == 1
    assert [guess_format(f"a{each.extensions[0]}") for each in FORMATS.values()] == list(FORMATS)


def test_the_page_names_every_format():
    table = PAGE.partition("| format | files |")[2].partition("\n\n")[0]
    cells = re.findall(r"^\| (`[^|]*)", table, re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == set(FORMATS)
