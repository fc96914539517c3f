"""The same mail, the same texts: in an archive, in an mbox file, as the body of a request, in JSON, as feedback."""

from __future__ import annotations

import base64
import binascii
import io
import re
import tarfile
import zipfile
from dataclasses import dataclass

from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from ingest_helpers import Read

from service.feedback.mails import ALL_FIELDS
from service.ingest.mail import FIELDS
from service.predictions.inputs import completed, knows_meta, rows_of

CHARSETS = {
    "utf-8": ("utf-8", "äöü prize 免费 шок"),
    "iso-8859-1": ("cp1252", "äöü prize “x” €"),
    "koi8-ru": ("koi8-u", "привіт prize"),
    "x-gbk": ("gbk", "免费赢取 prize"),
    "iso-2022-jp": ("iso2022-jp", "無料 prize"),
    "hz-gb-2312": ("hz", "免费 prize"),
    "utf-7": ("utf-7", "für + prize"),
    "windows-874": ("cp874", "สวัสดี prize"),
    "": ("utf-8", "äöü prize"),
    "us-ascii": ("ascii", "a prize"),
    "bogus": ("utf-8", "für prize"),
}
LINES = st.sampled_from(
    ["", "From now on", "From here", "Note: see below", ">From bob", "--b", "hello , you", "to : bob", "<b>pri</b>ze"]
)


@dataclass
class Written:
    raw: bytes
    text: str
    """As a client puts it into JSON: what is beyond ASCII decoded."""


@st.composite
def mails(draw: st.DrawFn) -> Written:
    charset = draw(st.sampled_from(sorted(CHARSETS)))
    codec, letters = CHARSETS[charset]
    pieces = st.lists(st.one_of(st.text(letters, max_size=8), LINES), max_size=6)
    body = "\n".join([*draw(pieces), "x"]) + "\n"
    encoding = draw(st.sampled_from(["8bit", "base64", "quoted-printable", ""]))
    has_gap = draw(st.booleans())  # without an empty line, the body begins with its first line that is no field
    subject = "".join(draw(st.lists(st.sampled_from(letters), max_size=9)))
    data = subject.encode(codec)
    at = draw(st.integers(0, len(data)))
    words = " ".join(f"=?{charset or 'utf-8'}?B?{base64.b64encode(part).decode()}?=" for part in (data[:at], data[at:]))
    kind = draw(st.sampled_from(["plain", "html"]))
    head = f"From: a@example.org\nSubject: {words}\nContent-Type: text/{kind}; charset={charset}\n"
    head += f"Content-Transfer-Encoding: {encoding}\n" if encoding else ""
    content = body.encode(codec)
    if encoding == "base64":
        content = base64.encodebytes(content)
    elif encoding == "quoted-printable":
        content = binascii.b2a_qp(content)
    text = content.decode("ascii") if content.isascii() else body
    gap = "\n" if has_gap or encoding in ("base64", "quoted-printable") else ""
    breaks = draw(st.sampled_from(["\n", "\r\n"]))
    raw = (head + gap).encode() + content
    return Written(raw.replace(b"\n", breaks.encode()), (head + gap + text).replace("\n", breaks))


def words(row: dict[str, str | None]) -> dict[str, list[str]]:
    return {name: (row[name] or "").split() for name in FIELDS}


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(mails(), min_size=1, max_size=5))
def test_every_door_reads_the_same(written: list[Written]) -> None:
    expected = [words(row) for row in rows_of(ALL_FIELDS, "messages", [each.raw for each in written])]
    assert [words(row) for row in rows_of(ALL_FIELDS, "messages", [each.text for each in written])] == expected
    tar, zipped = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w:gz") as packed, zipfile.ZipFile(zipped, "w") as archive:
        for i, each in enumerate(written):
            info = tarfile.TarInfo(f"ham/{i}.eml")
            info.size = len(each.raw)
            packed.addfile(info, io.BytesIO(each.raw))
            archive.writestr(info.name, each.raw)
    mbox = b"".join(
        b"From u@example.org Sat Nov 28 10:00:00 2026\n" + re.sub(rb"(?m)^(>*From )", rb">\1", each.raw) + b"\n"
        for each in written
    )
    for data in (tar.getvalue(), zipped.getvalue(), mbox):
        table = Read(data, "mail").table
        assert [words({name: table[name][i] for name in FIELDS}) for i in range(len(written))] == expected


def test_who_writes_a_mail_as_a_row_need_not_know_what_is_told_beside() -> None:
    columns = [{"name": name, "kind": "text"} for name in ("subject", "body", "meta")]
    assert completed([{"subject": "s", "body": "b"}]) == [{"subject": "s", "body": "b", "meta": None}]
    assert completed([{"meta": "links_0"}]) == [{"meta": "links_0"}]
    assert knows_meta(columns)
    assert not knows_meta(columns[:2])
    assert not knows_meta([{"name": "meta", "kind": "text"}, {"name": "age", "kind": "number"}])
