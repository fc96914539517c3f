from __future__ import annotations

import base64
import os
import random
import re
import tarfile
import threading
import time
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path

import pytest

from service.ingest import mail as mail_module
from service.ingest.html_text import PIECE_CHARACTERS, visible_text
from service.ingest.mail import (
    FIELDS,
    MAX_BODY_BYTES,
    MAX_DEPTH,
    MAX_FIELD_BYTES,
    MAX_HEADERS,
    MAX_HTML_BYTES,
    MAX_PARTS,
    MAX_WORDS,
    read_mail,
)

SHARED = Path(os.environ.get("PREFSVM_SHARED_DATA", Path(__file__).parents[5] / "shared" / "data"))


def parse_mail(message: bytes | str) -> dict[str, str]:
    return read_mail(message).fields


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
    told = parsed.pop("meta").split()
    assert {"mailer_none", "sender_example_org", "sender_named", "reply_none", "attached_txt"} < set(told)
    assert {"type_multipart_alternative", "type_text_html", "charset_utf_8", "links_0"} < set(told)
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
        ("iso-8859-1", "für".encode(), "für"),
        ("iso-8859-8-i", "שלום".encode("iso8859-8"), "שלום"),
        ("windows-874", "สวัสดี".encode("cp874"), "สวัสดี"),
        ("tis-620", "สวัสดี".encode("cp874"), "สวัสดี"),
        ("x-gbk", "免费".encode("gbk"), "免费"),
        ("gb_2312-80", "免费".encode("gb2312"), "免费"),
        ("GB2312_CHARSET", "電子".encode("gbk"), "電子"),
        ("CHINESEBIG5", "免費".encode("big5"), "免費"),
        ("hz-gb-2312", "免费".encode("hz"), "免费"),
        ("hz", "免费".encode("hz"), "免费"),
        ("x-sjis", "無料".encode("shift-jis"), "無料"),
        ("windows-31j", "①無料".encode("cp932"), "①無料"),
        ("x-euc-jp", "無料".encode("euc-jp"), "無料"),
        ("iso-2022-jp", "無料".encode("iso2022-jp"), "無料"),
        ("utf-7", "für +".encode("utf-7"), "für +"),
        ("utf-7", b"+2AA-lone", "lone"),
        ("koi8-ru", "привіт".encode("koi8-u"), "привіт"),
        ("x-windows-949", "무료".encode("cp949"), "무료"),
        ("ks_c_5601-1987", "무료".encode("cp949"), "무료"),
        ("cp-850", "für".encode("cp850"), "für"),
        ("x-mac-roman", "für".encode("mac-roman"), "für"),
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
        ("Subject: =?utf-8?b?w7w=?= and =?utf-8?b?w7w=?=", "ü and ü"),
        ("Subject: =?utf-8*de?b?w7w=?=\n =?UTF-8?q?=C3=BC?=", "üü"),
        ("Subject: =?utf-8?q?a?= =?iso-8859-1?q?=FC?=", "aü"),
        ("Subject: =?utf-7?q?+2AA-?= lone", "lone"),
    ],
)
def test_headers(raw: str, subject: str) -> None:
    assert parse_mail(raw.encode() + b"\n\nbody")["subject"] == subject


@pytest.mark.parametrize("charset", ["utf-8", "gb18030", "iso-2022-jp", "big5", "shift_jis", "euc-kr"])
@pytest.mark.parametrize("kinds", ["BB", "QQ", "BQ", "QB"])
@pytest.mark.parametrize("between", ["", " ", "\n ", "\r\n\t"])
def test_encoded_words_are_joined_before_they_are_decoded(charset: str, kinds: str, between: str) -> None:
    """Wherever a program cuts them: also inside a character."""
    text = {"euc-kr": "무료 선물", "gb18030": "免费赢取大奖", "utf-8": "Überraschung für Jürgen"}.get(
        charset, "無料無料"
    )
    data = text.encode(charset)
    for at in range(1, len(data)):
        raw = f"Subject: {word(kinds[0], charset, data[:at])}{between}{word(kinds[1], charset, data[at:])}\n\nx"
        assert parse_mail(raw.encode())["subject"] == text


def word(kind: str, charset: str, data: bytes) -> str:
    said = base64.b64encode(data).decode() if kind == "B" else "".join(f"={byte:02X}" for byte in data)
    return f"=?{charset}?{kind}?{said}?="


@pytest.mark.parametrize(
    ("raw", "subject", "body"),
    [
        ("Subject: deal\nhello ,\nsee you\n", "deal", "hello ,\nsee you\n"),
        ("Subject: deal\r\nhello ,\r\n\r\nsee you", "deal", "hello ,\n\nsee you"),
        ("Subject: deal\nNote: see below\nand here", "deal", "Note: see below\nand here"),
        ("Subject: deal\nnote : see below\n\nand here", "deal", "note : see below\n\nand here"),
        ("Subject: re : deal\nto : bob\nall of us", "re : deal", "to : bob\nall of us"),
        ("Subject: deal\nhttp://example.org\n", "deal", "http://example.org\n"),
        ("Subject: deal\nFrom now on\n", "deal", "From now on\n"),
        ("Subject: deal\n>From u@b Sat Nov 28 10:00:00 2026\nTo: c\n\nx", "deal", "x"),
        ("Subject: deal\nX-Mailer: y\ntext", "deal", "text"),
        ("Subject: deal\r\r\nTo: c\r\r\n\r\r\nx", "deal", "x"),
        ("Subject: deal\n \t\nx", "deal", "x"),
        ("Subject: deal", "deal", ""),
        ("Subject: deal\n\n", "deal", ""),
        ("Subject: deal\n\nNote: a\n\nb", "deal", "Note: a\n\nb"),
        ("Content-Type: multipart/mixed; boundary=b\n\n--b\nno header\n\nmore\n--b--", "", "no header\n\nmore\n"),
        ('Content-Type: multipart/mixed; boundary="b c"\n\n--b\nContent-Type: text/html\n\n<p>x\n--b--', "", "\nx\n"),
        ("Content-Type: multipart/mixed; boundary=c\n\nno part", "", "no part"),
        ("Content-Type: multipart/mixed\n\nno boundary", "", "no boundary"),
    ],
)
def test_no_body_is_lost(raw: str, subject: str, body: str) -> None:
    parsed = parse_mail(raw.encode())
    assert (parsed["subject"], parsed["body"]) == (subject, body)


@pytest.mark.parametrize(
    "inside",
    [
        "<!-- x -->",
        "<!--x--><!-->",
        "<b></b>",
        "<wbr>",
        "<style>p {}</style>",
        "<script>x</script >",
        "&shy;",
        "&zwnj;",
    ],
)
def test_what_html_hides_does_not_part_words(inside: str) -> None:
    raw = f"Content-Type: text/html\n\n<p>pri{inside}ze<br>money</p>".encode()
    letters = [c for c in parse_mail(raw)["body"] if c.isalpha() or c.isspace()]
    assert "".join(letters).split() == ["prize", "money"]


def test_a_text_is_read_as_its_bytes_are() -> None:
    """In JSON a mail is text: what is beyond ASCII in it was decoded by whoever sent it."""
    for charset in ("utf-8", "iso-8859-1", "koi8-r", "gbk", ""):
        for breaks in ("\n", "\r\n"):
            said = f"Subject: Größe{breaks}Content-Type: text/plain; charset={charset}{breaks * 2}für 免费{breaks}"
            as_text = parse_mail(said)
            assert as_text["body"] == "für 免费\n"
            of_bytes = parse_mail(said.replace(f"={charset}", "=utf-8").encode())
            assert as_text | {"meta": ""} == of_bytes | {"meta": ""}  # which tells the charset that the header names
            if charset in ("utf-8", "iso-8859-1", "koi8-r", ""):
                assert as_text == parse_mail(said.encode())
    assert parse_mail("Subject: a\ud800b\n\nx")["subject"] == "a?b"


def test_large_html_lets_others_run() -> None:
    """The API reads mails in a thread, and one call of a regular expression would hold all others."""
    ends: list[int] = []
    reader = threading.Thread(target=lambda: ends.append(len(visible_text("<" * (8 << 20)))))
    reader.start()
    turns = 0
    while reader.is_alive():
        time.sleep(0.001)
        turns += 1
    assert ends == [8 << 20]
    assert turns >= 10


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
    "parentheses": b"To: " + b"(" * 30_000 + b"\nFrom: " + b"a@b, " * 6_000 + b"\n\n",
    "encoded words without end": b"Subject: " + b"=?a?q?" * 10_000 + b"\n\n",
    "semicolons in a quote": b'Content-Type: multipart/mixed; boundary="' + b";" * 60_000 + b"\n\n",
    "tags without end": b"Content-Type: text/html\n\n" + b"<" * 1_000_000,
    "scripts without end": b"Content-Type: text/html\n\n" + b"<script>" * 120_000,
    "comments": b"Content-Type: text/html\n\n" + b"<!---->" * 140_000,
    "entities": b"Content-Type: text/html\n\n" + b"&#x110000;&#xd800;&amp" * 40_000,
    "folded for ever": b"Subject:" + b"\n " * 30_000,
    "long text": b"\n" + b"\xc3\xa9" * 5_000_000,
}
STRANGE = {
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
    assert time.process_time() - started < 4
    assert mail.is_cut == (name in HOSTILE)
    assert tuple(mail.fields) == FIELDS
    for text in mail.fields.values():
        assert len(text.encode()) <= MAX_BODY_BYTES
        assert "\0" not in text


MULTIPART = b"Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n"
LIMITS = {
    "parts": (MAX_PARTS - 1, lambda n: MULTIPART + b"--b\n\nx\n" * n),  # the message itself is one
    "levels": (MAX_DEPTH, nested),
    "headers": (MAX_HEADERS, lambda n: b"Subject: s\n" + b"X-A: y\n" * (n - 1) + b"\nx"),
    "value": (MAX_FIELD_BYTES, lambda n: b"Subject:" + b"s" * n + b"\n\nx"),
    "words": (MAX_WORDS, lambda n: b"Subject: s\n\n" + b"word, " * n),
    "ideographs": (
        MAX_WORDS,
        lambda n: b"Subject: s\nContent-Type: text/plain; charset=utf-8\n\n" + "\u8d8a".encode() * n,
    ),
    "middle dots, which count as ideographs": (
        MAX_WORDS,
        lambda n: b"Subject: s\nContent-Type: text/plain; charset=utf-8\n\n" + "\u30fb".encode() * n,
    ),
    "words of HTML": (MAX_WORDS, lambda n: b"Subject: s\nContent-Type: text/html\n\n" + b"<p>word</p>" * n),
    "text": (MAX_BODY_BYTES, lambda n: b"Subject: s\n\n" + b"x" * n),
    "html": (MAX_HTML_BYTES, lambda n: b"Subject: s\nContent-Type: text/html\n\n" + b"x" * n),
    "html beside text": (
        MAX_BODY_BYTES,
        lambda n: MULTIPART + b"--b\n\n" + b"x" * n + b"\n--b\nContent-Type: text/html\n\n" + b"y" * 2 * n + b"\n--b--",
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_up_to_a_limit_all_is_kept_and_beyond_it_is_said(name: str) -> None:
    most, make = LIMITS[name]
    most -= name == "html beside text"  # the line break before the boundary is of the part
    assert not read_mail(make(most)).is_cut
    mail = read_mail(make(most + 1))
    assert mail.is_cut
    assert set(mail.fields["subject"]) <= {"s"}
    assert len(mail.fields["body"]) <= MAX_BODY_BYTES


def test_headers_behind_a_long_one_count() -> None:
    """Who writes to 20,000 people at once cannot hide the subject behind them."""
    raw = b"To: " + b"someone@example.org, " * 20_000 + b"\nSubject: prize\n\nx"
    assert read_mail(raw).fields["subject"] == "prize"


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
            same += ascii_words(parsed["body"]) == ascii_words(text) and ascii_words(parsed["subject"]) == ascii_words(
                subject
            )
    assert compared >= 50
    assert same >= 0.9 * compared


def ascii_words(text: str) -> list[bytes]:
    """Without what the standard library takes for controls, where whoever wrote Latin-1 meant quotes of Windows."""
    return text.encode("ascii", "ignore").split()


def test_no_body_of_real_mail_is_lost() -> None:
    empty, unknown, read = [], set(), 0
    for name in ("spam_1", "easy_ham_1"):
        path = SHARED / f"spamassassin_{name}.tar.gz"
        if not path.exists():
            pytest.skip(f"the shared data sets are not here: {path} (PREFSVM_SHARED_DATA says where)")
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile() and member.name.endswith(".eml"):
                    mail = read_mail(archive.extractfile(member).read())  # type: ignore[union-attr]
                    read += 1
                    unknown.update(mail.unknown_charsets)
                    if not mail.fields["body"].strip():
                        empty.append(member.name.split("/")[-1][:5])
    assert read == 3000
    assert empty == ["00307", "00329"]  # a picture, and a frame with another page
    assert unknown == {"default", "default_charset"}


@pytest.mark.parametrize("word", ["a", "naïve’", "w" * 40, "ж", "水"])
@pytest.mark.parametrize("count", [MAX_WORDS - 1, MAX_WORDS, MAX_WORDS + 1, 4 * MAX_WORDS])
def test_a_text_ends_before_the_word_beyond_the_last(word: str, count: int) -> None:
    text = f"; {word}" * count + " …"
    expected = text if count <= MAX_WORDS else f"; {word}" * MAX_WORDS + "; "
    assert mail_module._first_words(text) == expected


def test_html_is_read_as_far_as_its_words_are_looked_at() -> None:
    source = "<p>one <b>wo</b>rd &amp; <i>a</i>nother\r\n</p>" * 6000
    assert len(source) > 3 * PIECE_CHARACTERS
    mail = read_mail(f"Subject: x\nContent-Type: text/html\n\n{source}")
    assert mail.is_cut
    seen = mail_module._clean(visible_text(source[:MAX_HTML_BYTES]))
    assert mail.fields["body"] == mail_module._first_words(seen)
    assert len(re.findall(r"\w+", mail.fields["body"])) == MAX_WORDS
    alike = re.sub(r"\w+", "!", source)  # no word: all of it is looked at
    assert len(mail_module._visible_words(["<p>?</p>", alike])) == len(visible_text("<p>?</p>")) + 1 + len(
        visible_text(alike)
    )


@pytest.mark.parametrize("around", ["", "é", "水", "\u212a", "\u0130"])
def test_hidden_html_is_found_in_capitals(around: str) -> None:
    assert visible_text(f"{around}a<SCRIPT>x</ScRiPt>b<!--{around}-->c{around}") == f"{around}abc{around}"
