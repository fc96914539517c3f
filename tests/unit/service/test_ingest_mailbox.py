from __future__ import annotations

import bz2
import gzip
import io
import tarfile
import zipfile
from email import message_from_bytes
from email.generator import BytesGenerator

import pytest
from ingest_helpers import Read, refusal

MAILS = {
    "corpus/spam/1.eml": b"Subject: win\nFrom: a@b\n\nWin a prize\n",
    "corpus/spam/2.eml": b"Subject: win more\n\nFrom here on\n",
    "corpus/ham/cur/1:2,S": b"Subject: lunch\nDate: Sat, 28 Nov 2026 02:30:00 +0000\n\nToday?\n",
    "corpus/README": b"this is no mail, but a file of some words\n",
    "top.eml": b"Subject: unlabelled\n\nx\n",
    "corpus/.hidden": b"Subject: no\n\n",
}
TABLE = {
    "subject": ["win", "win more", "lunch", "unlabelled"],
    "from": ["a@b", None, None, None],
    "to": [None] * 4,
    "date": [None, None, "2026-11-28T02:30:00Z", None],
    "body": ["Win a prize\n", "From here on\n", "Today?\n", "x\n"],
    "label": ["spam", "spam", "ham", None],
}


def tarred(members: dict[str, bytes], mode: str = "w:", **how: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, **how) as archive:  # type: ignore[call-overload]
        folder = tarfile.TarInfo("corpus")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("corpus")
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(tarred(MAILS), id="tar"),
        pytest.param(tarred(MAILS, "w:gz"), id="tar.gz"),
        pytest.param(tarred(MAILS, "w:bz2"), id="tar.bz2"),
        pytest.param(tarred(MAILS, format=tarfile.GNU_FORMAT), id="gnu"),
        pytest.param(tarred(MAILS, format=tarfile.USTAR_FORMAT), id="ustar"),
        pytest.param(zipped(MAILS), id="zip"),
    ],
)
def test_archives(data: bytes) -> None:
    read = Read(data, "mail")
    assert read.table == TABLE
    assert read.kinds == {
        "subject": "text", "from": "text", "to": "text", "date": "date", "body": "text", "label": "category",
    }  # fmt: skip
    assert read.result["dropped_rows"] == 1
    assert any("1 files of the archive are no mails" in warning for warning in read.warnings)
    assert read.labels("label") == TABLE["label"]


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names(format: int) -> None:
    name = "/".join(["x" * 90] * 3) + "/späm/1.eml"
    assert Read(tarred({name: MAILS["top.eml"]}, format=format), "mail").table["label"] == ["späm"]


def test_mbox_as_python_writes_it() -> None:
    out = io.BytesIO()
    for raw in MAILS.values():
        BytesGenerator(out, mangle_from_=True).flatten(message_from_bytes(raw), unixfrom=True)
        out.write(b"\n")
    data = out.getvalue()
    read = Read(data, "mail")
    assert read.table["subject"] == ["win", "win more", "lunch", "unlabelled", "no"]
    assert read.table["body"][1].startswith("From here on")
    assert read.table["label"] == [None] * 5
    for packed in (gzip.compress(data), bz2.compress(data), data.replace(b"\n", b"\r\n")):
        assert Read(packed, "mail").table["subject"] == read.table["subject"]


NAMES = ["../../etc/evil.eml", "/abs.eml", "a/../../b.eml", "..\\b.eml", "C:\\x.eml", "a/.."]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make", [tarred, zipped])
def test_names_that_lead_out_are_refused(make: object, name: str) -> None:
    error = refusal(make({"ok/1.eml": MAILS["top.eml"], name: MAILS["top.eml"]}), "mail")  # type: ignore[operator]
    assert error.code == "malformed"
    assert "leads out" in error.message


def test_links_and_devices_are_passed_over() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo("spam/link.eml")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        info = tarfile.TarInfo("spam/1.eml")
        info.size = len(MAILS["top.eml"])
        archive.addfile(info, io.BytesIO(MAILS["top.eml"]))
    assert Read(out.getvalue(), "mail").table["label"] == ["spam"]


def test_refusals() -> None:
    assert refusal(b"", "mail").code == "empty"
    assert refusal(b"hello\n", "mail").code == "malformed"
    assert refusal(b"PK\3\4 and nothing", "mail").code == "malformed"
    assert refusal(tarred({}), "mail").code == "empty"
    whole = tarred(MAILS)
    assert refusal(whole[:700], "mail").code == "truncated"
    assert refusal(whole[:512] + b"\1" + whole[513:], "mail").code == "malformed"
    label = {"a\x1bb/1.eml": MAILS["top.eml"]}
    assert refusal(tarred(label), "mail").code == "bad_label"
    assert (
        refusal(tarred({f"{i}.eml": MAILS["top.eml"] for i in range(11)}), "mail", max_rows=10).code == "too_many_rows"
    )
    zeros = zipped({f"spam/{i}.eml": b"A: b\n\n" + bytes(9 << 20) for i in range(12)})
    assert refusal(zeros, "mail").code == "expands_too_much"
    assert refusal(gzip.compress(tarred({"a": bytes(80 << 20)})), "mail").code == "expands_too_much"


def test_large_messages_are_cut_with_a_warning() -> None:
    data = tarred({"a/1.eml": b"Subject: long\n\n" + b"x" * (9 << 20), "a/2.eml": MAILS["top.eml"]})
    read = Read(data, "mail")
    assert [len(body) for body in read.table["body"]] == [1 << 20, 2]
    assert any(warning.startswith("1 mails are larger") for warning in read.warnings)


def test_a_packed_archive_has_to_be_whole() -> None:
    """Also where what is missing is after the last mail: only its end tells that the rest is what was packed."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        raw = b"Subject: x\n\nbody\n"
        entry = tarfile.TarInfo("ham/1.eml")
        entry.size = len(raw)
        tar.addfile(entry, io.BytesIO(raw))
    assert Read(packed.getvalue(), "mail").rows == 1
    assert refusal(packed.getvalue()[:-8], "mail").code == "truncated"


def test_an_archive_without_mails_says_so() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("data.csv", "a,b\n1,2\n")
    error = refusal(packed.getvalue(), "mail")
    assert error.code == "empty"
    assert "none of the 1 files of the archive is a mail" in error.message
