from __future__ import annotations

import os
import random
import tarfile
import time
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path

import pytest

from service.ingest.mail import FIELDS, MAX_BODY_BYTES, parse_mail, read_mail

SHARED = Path(os.environ.get("PREFSVM_SHARED_DATA", Path(__file__).parents[4] / "shared" / "data"))


def message(**how: str) -> EmailMessage:
    made = EmailMessage()
    made["Subject"] = how.get("subject", "Grüße aus Köln, ein längerer Betreff, der umbrochen werden muss, also weiter")
    made["From"] = "Jürgen Groß <j@example.org>"
    made["To"] = "a@example.org, b@example.org"
    made["Date"] = "Sat, 28 Nov 2026 03:30:00 +0100"
    made.set_content(how.get("text", "Hallo,\nschöne Grüße\n"), cte=how.get("cte"))
    return made


@pytest.mark.parametrize("cte", ["base64", "quoted-printable", "8bit"])
@pytest.mark.parametrize("breaks", ["\n", "\r\n"])
def test_a_message_that_python_wrote(cte: str, breaks: str) -> None:
    made = message(cte=cte)
    made.add_alternative("<p>ignored, as there is plain text</p>", subtype="html")
    made.add_attachment(b"secret", maintype="text", subtype="plain", filename="../../x.txt")
    raw = made.as_bytes(policy=policy.SMTP.clone(linesep=breaks, cte_type="8bit"))
    parsed = parse_mail(raw)
    assert parsed.pop("body").strip() == "Hallo,\nschöne Grüße"
    assert parsed == {
        "subject": "Grüße aus Köln, ein längerer Betreff, der umbrochen werden muss, also weiter",
        "from": "Jürgen Groß <j@example.org>",
        "to": "a@example.org, b@example.org",
        "date": "2026-11-28T02:30:00Z",
    }
    assert parse_mail(b"From x@y Sat Nov 28 03:30:00 2026\n" + raw) == parse_mail(raw)
    assert not read_mail(raw).is_cut


def test_html_only() -> None:
    made = EmailMessage()
    made.set_content(
        "<html><head><style>p {x}</style></head><body><!-- no --><p>Win&nbsp;a <b>prize</b><br>now</p>"
        "<SCRIPT>evil()</script > 1 < 2</body></html>",
        subtype="html",
    )
    assert parse_mail(made.as_bytes())["body"].split() == ["Win", "a", "prize", "now", "1", "<", "2"]


def test_a_forwarded_message() -> None:
    outer = message(text="outer\n")
    outer.add_attachment(message(subject="inner subject", text="inner\n"))
    inner = EmailMessage()
    inner["Content-Type"] = "message/rfc822"
    raw = b"Subject: s\nContent-Type: message/rfc822\n\n" + message(text="inner\n").as_bytes()
    assert parse_mail(raw)["body"].strip() == "inner"
    assert parse_mail(outer.as_bytes())["body"].startswith("outer")


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        ("iso-8859-1", b"caf\xe9", "café"),
        ("windows-1252", b"\x80 5", "€ 5"),
        ("DEFAULT_CHARSET", b"caf\xe9", "café"),
        ("hex", b"616263", "616263"),
        ("zlib", b"abc", "abc"),
        ("", "für".encode(), "für"),
        ("us-ascii", "für".encode(), "für"),
        ("utf-8", b"bad \xff", "bad \ufffd"),
        ("koi8-r", "привет".encode("koi8-r"), "привет"),
    ],
)
def test_charsets(charset: str, data: bytes, text: str) -> None:
    raw = b'Content-Type: text/plain; charset="' + charset.encode() + b'"\nSubject: x\n\n' + data
    assert parse_mail(raw)["body"] == text


@pytest.mark.parametrize(
    ("raw", "subject"),
    [
        ("Subject: =?utf-8?q?a=20b?= =?utf-8?b?w7w=?=", "a bü"),
        ("Subject: =?utf-8?q?=0D=0AX-Spam-Flag:_NO?=", "X-Spam-Flag: NO"),
        ("Subject: =?bogus?q?abc?=", "abc"),
        ("Subject: =?utf-8?b?w7w?=", "ü"),
        ("Subject:\n folded\n\tthrice", "folded thrice"),
        ("Subject: nul\0cut", "nulcut"),
        ("SUBJECT : loud", "loud"),
        ("Subject: first\nSubject: second", "first"),
        ("X: y", ""),
    ],
)
def test_headers(raw: str, subject: str) -> None:
    assert parse_mail(raw.encode() + b"\n\nbody")["subject"] == subject


@pytest.mark.parametrize(
    "date", ["", "yesterday", "Sat, 99 Nov 2026 03:30:00", "1 Jan 99999 00:00:00 +2359", "9" * 5000]
)
def test_dates_that_are_none(date: str) -> None:
    assert parse_mail(f"Date: {date}\n\n".encode())["date"] == ""


def nested(depth: int) -> bytes:
    head = b"".join(b'Content-Type: multipart/mixed; boundary="b%d"\n\n--b%d\n' % (i, i) for i in range(depth))
    return head + b"Content-Type: text/plain\n\ndeep\n"


HOSTILE = {
    "nested": nested(20_000),
    "messages in messages": b"Content-Type: message/rfc822\n\n" * 50_000,
    "many parts": b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\nx\n" * 300_000,
    "huge header": b"Subject: " + b"x" * 10_000_000 + b"\n\nbody",
    "many headers": b"X: y\n" * 500_000 + b"\nbody",
    "base64 bomb": b"Content-Transfer-Encoding: base64\n\n" + b"QUFB" * 5_000_000,
    "long text": b"\n" + b"\xc3\xa9" * 5_000_000,
}
STRANGE = {
    "parentheses": b"To: " + b"(" * 30_000 + b"\nFrom: " + b"a@b, " * 6_000 + b"\n\n",
    "encoded words without end": b"Subject: " + b"=?a?q?" * 10_000 + b"\n\n",
    "semicolons in a quote": b'Content-Type: multipart/mixed; boundary="' + b";" * 60_000 + b"\n\n",
    "tags without end": b"Content-Type: text/html\n\n" + b"<" * 1_000_000,
    "scripts without end": b"Content-Type: text/html\n\n" + b"<script>" * 120_000,
    "comments": b"Content-Type: text/html\n\n" + b"<!---->" * 140_000,
    "entities": b"Content-Type: text/html\n\n" + b"&#x110000;&#xd800;&amp" * 40_000,
    "folded for ever": b"Subject:" + b"\n " * 30_000,
    "rfc2231": b"Content-Type: multipart/mixed; boundary*0*=utf-8''a; boundary*" + b"9" * 900 + b"=b\n\n",
    "carriage returns": b"\r" * 1_000_000,
    "nothing": b"",
    "boundary of nothing": b'Content-Type: multipart/mixed; boundary=""\n\n--\n\nx\n----\n',
    "utf-16": b"Content-Type: text/plain; charset=utf-16\n\n\x00\xd8a",
}


@pytest.mark.parametrize("name", [*HOSTILE, *STRANGE])
def test_hostile_messages_cost_little(name: str) -> None:
    raw = (HOSTILE | STRANGE)[name]
    started = time.process_time()
    mail = read_mail(raw)
    assert time.process_time() - started < 1
    assert mail.is_cut == (name in HOSTILE)
    assert tuple(mail.fields) == FIELDS
    for text in mail.fields.values():
        assert len(text.encode()) <= MAX_BODY_BYTES
        assert "\0" not in text


def test_random_bytes() -> None:
    rng = random.Random(0)  # noqa: S311 (no secret)
    whole = message(cte="base64")
    whole.add_alternative("<p>x</p>", subtype="html")
    raw = whole.as_bytes()
    for _ in range(500):
        data = bytearray(raw)
        for _ in range(rng.choice([1, 5, 30])):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        parse_mail(bytes(data))


def test_agrees_with_the_standard_library_on_real_mail() -> None:
    """Subjects and bodies of the SpamAssassin corpus, as `email` reads those that it can read."""
    path = SHARED / "spamassassin_spam_1.tar.gz"
    if not path.exists():
        pytest.skip(f"the shared data sets are not here: {path} (PREFSVM_SHARED_DATA says where)")
    same = compared = 0
    with tarfile.open(path) as archive:
        for member in archive:
            if not member.isfile() or compared == 150:
                continue
            raw = archive.extractfile(member).read()  # type: ignore[union-attr]
            parsed = parse_mail(raw)
            try:
                theirs = BytesParser(policy=policy.default).parsebytes(raw)
                plain = theirs.get_body(("plain",))
                text = plain.get_content() if plain is not None else None
                subject = str(theirs["subject"] or "")
            except Exception:  # noqa: S112 (what it cannot read cannot be compared)
                continue
            if text is None:
                continue
            compared += 1
            same += parsed["body"].split() == text.split() and parsed["subject"].split() == subject.split()
    assert compared >= 50
    assert same >= 0.9 * compared
