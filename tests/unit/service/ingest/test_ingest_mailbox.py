from __future__ import annotations

import bz2
import gzip
import io
import tarfile
import time
import zipfile
from email import message_from_bytes
from email.generator import BytesGenerator

import pytest
from ingest_helpers import Read, refusal

from service.ingest.mail import MAX_BODY_BYTES, read_mail

MAILS = {
    "corpus/spam/1.eml": b"Subject: win\nFrom: a@b\n\nWin a prize\n",
    "corpus/spam/2.eml": b"Subject: win more\n\nFrom here on\n",
    "corpus/ham/cur/1:2,S": b"Subject: lunch\nDate: Sat, 28 Nov 2026 02:30:00 +0000\n\nToday?\n",
    "corpus/README": b"this is no mail, but a file of some words\n",
    "top.eml": b"Subject: unlabelled\n\nx\n",
    "corpus/.hidden": b"Subject: no\n\n",
}
ORDER = ["corpus/spam/1.eml", "corpus/spam/2.eml", "corpus/ham/cur/1:2,S", "top.eml"]
TABLE = {
    "subject": ["win", "win more", "lunch", "unlabelled"],
    "from": ["a@b", None, None, None],
    "to": [None] * 4,
    "date": [None, None, "2026-11-28T02:30:00Z", None],
    "body": ["Win a prize\n", "From here on\n", "Today?\n", "x\n"],
    "meta": [read_mail(MAILS[name]).fields["meta"] for name in ORDER],
    "label": ["spam", "spam", "ham", None],
    "file": ORDER,
    "thread": [None] * 4,
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
        "subject": "text", "from": "text", "to": "text", "date": "date", "body": "text", "meta": "text",
        "label": "category",
        "file": "category", "thread": "category",
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
    assert read.table["file"] == ["1", "2", "3", "4", "5"]
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
    assert refusal(zeros, "mail").message == "the file unpacks to more than 250 times its own size"
    found = refusal(zipped(MAILS), "mail", max_bytes=100)
    assert (found.code, found.message) == ("expands_too_much", "the file unpacks to more than the 100 bytes allowed")
    assert refusal(gzip.compress(tarred({"a": bytes(80 << 20)})), "mail").code == "expands_too_much"


def test_large_messages_are_cut_with_a_warning() -> None:
    data = tarred({"a/1.eml": b"Subject: long\n\n" + b"x" * (9 << 20), "a/2.eml": MAILS["top.eml"]})
    read = Read(data, "mail")
    assert [len(body) for body in read.table["body"]] == [MAX_BODY_BYTES, 2]
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


FROM = "From u@example.org Sat Nov 28 10:00:00 2026\n"
BODY_LINES = {
    3: "From now on, call us.",
    8: "From all of us: thank you",
    12: "From here\nNote: see below",
    15: "From today, Sat Nov 28, on\nNote: see below",
    16: "From bob@example.org Sat Nov 28 10:00:00 2026",
    17: ">From a quoted line",
}


def mbox(inside: dict[int, str], *, counted: bool = False, first: str = FROM) -> str:
    """Twenty mails, some with lines in their bodies that begin as those between mails do."""
    text = ""
    for i in range(20):
        body = f"body line {i}\n\n" + (f"{inside[i]}\ntail words {i}\n\n" if i in inside else "")
        length = f"Content-Length: {len(body)}\n" if counted else ""
        text += f"{first}From: u{i}@example.org\nSubject: subject {i}\n{length}\n{body}" + ("\n" if counted else "")
    return text


@pytest.mark.parametrize("breaks", ["\n", "\r\n"])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(
    "first",
    [
        FROM,
        "From - Sat Nov 28 10:00:00 2026\n",
        "From bob at example.org  Sat Nov 28 10:00:00 2026\n",
        "From 18112@xxx Sat Nov 28 10:00:00 +0000 2026\n",
        "From bob@example.org Sat, 28 Nov 2026 10:00:00 +0100\n",
        "From bob@example.org\n",
        "From bob@example.org Sat Nov 28\n",
    ],
)
def test_lines_of_a_body_begin_no_mail(breaks: str, counted: bool, first: str) -> None:
    data = mbox(BODY_LINES, counted=counted, first=first).replace("\n", breaks).encode()
    read = Read(data, "mail")
    assert read.rows == 20
    assert read.result["dropped_rows"] == 0
    assert read.table["subject"] == [f"subject {i}" for i in range(20)]
    for i, body in enumerate(read.table["body"]):
        said = [f"body line {i}", *([BODY_LINES[i].lstrip(">"), f"tail words {i}"] if i in BODY_LINES else [])]
        assert body.split() == " ".join(said).split()


@pytest.mark.parametrize("inside", ["From here\nNote: see", f"{FROM}Subject: forwarded\n\nby somebody"])
def test_a_length_that_is_right_is_believed(inside: str) -> None:
    read = Read(mbox(dict.fromkeys(range(20), inside), counted=True).encode(), "mail")
    assert read.table["subject"] == [f"subject {i}" for i in range(20)]
    assert all(f"tail words {i}" in body for i, body in enumerate(read.table["body"]))


@pytest.mark.parametrize("length", ["0", "7", "100", "99999999", "-1", "x"])
def test_a_length_that_is_wrong_is_not(length: str) -> None:
    mail = f"{FROM}Subject: s\nContent-Length: {length}\n\na body\n\n"
    assert Read((mail * 5).encode(), "mail").table["body"] == ["a body\n\n"] * 5


def test_mails_that_were_put_together_without_empty_lines() -> None:
    data = "".join(f"{FROM}Subject: s{i}\n\nbody {i}\n" for i in range(3)).encode()
    assert Read(b"\n" + data, "mail").table["subject"] == ["s0", "s1", "s2"]


def test_an_mbox_file_costs_what_it_is_long() -> None:
    """Lengths of which none is right, and lines that nearly begin a mail."""
    wrong = b"From a@b Sat Nov 28 10:00:00 2026\nSubject: x\nContent-Length: 60000000\n\nbody\n\n" * 20_000
    near = b"From a@b Sat Nov 28 10:00:00 2026\nA: b\n\n" + b"\nFrom " + b"a" * 900 + b" Sat Nov 28\n"
    started = time.process_time()
    assert Read(wrong, "mail").rows == 20_000
    assert Read(near + b"\nFrom From From Sat Nov Sat Nov Sat Nov\n" * 20_000, "mail").rows == 1
    assert time.process_time() - started < 10


def test_mailboxes_in_an_archive_are_told() -> None:
    read = Read(tarred({"spam/all.mbox": mbox({}).encode(), "spam/1.eml": FROM.encode() + MAILS["top.eml"]}), "mail")
    assert read.rows == 2
    assert any(warning.startswith("1 files of the archive hold several mails") for warning in read.warnings)


def test_a_collection_without_empty_lines_keeps_its_bodies() -> None:
    """As Enron-Spam is laid out: a subject, and the text right behind it."""
    mails = {f"ham/{i}.txt": f"Subject: re : deal {i}\nhello ,\nhere it is\n".encode() for i in range(20)}
    read = Read(tarred(mails), "mail")
    assert read.table["body"] == ["hello ,\nhere it is\n"] * 20
    assert not any("body" in warning for warning in read.warnings)


@pytest.mark.parametrize(("empty", "said"), [(2, False), (3, True)])
def test_many_empty_bodies_are_said(empty: int, said: bool) -> None:
    mails = {f"ham/{i}.eml": b"Subject: s\n\n" + (b" \n" if i < empty else b"x\n") for i in range(20)}
    warnings = Read(tarred(mails), "mail").warnings
    assert [w for w in warnings if "no text in their body" in w] == [
        w for w in warnings if w.startswith(f"{empty} of 20 mails have no text in their body")
    ]
    assert any("no text in their body" in w for w in warnings) is said


def test_unknown_charsets_are_said_with_their_counts() -> None:
    def mail(charset: str) -> bytes:
        return f"Subject: s\nContent-Type: text/plain; charset={charset}\n\ncaf".encode() + b"\xe9\n"

    names = ["x-bogus"] * 3 + ["klingon", "iso-8859-1", "windows-874", "us-ascii", "unknown-8bit"]
    read = Read(tarred({f"{i}.eml": mail(name) for i, name in enumerate(names)}), "mail")
    said = [warning for warning in read.warnings if "charset" in warning]
    assert len(said) == 1
    assert "'x-bogus' (3), 'klingon' (1);" in said[0]
    many = Read(tarred({f"{i}.eml": mail(f"bogus-{i}") for i in range(1200)}), "mail")
    said = [warning for warning in many.warnings if "charset" in warning]
    assert "and 990 more" in said[0]
    assert len(said[0]) < 500


def test_the_file_of_a_mail_makes_it_no_other_one() -> None:
    read = Read(tarred({f"ham/{i}.eml": MAILS["top.eml"] for i in range(3)}), "mail")
    assert read.result["duplicate_rows"] == 2
