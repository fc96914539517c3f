"""What is told of a mail beside its texts: the same of all its copies, from a list, and bounded."""

from __future__ import annotations

import time

import pytest

from service.ingest import mail_meta
from service.ingest.mail import read_mail

PLAIN = (
    b"From: Lucky Winner <win77@prizes.example.net>\r\nReply-To: claim@elsewhere.example\r\nX-Mailer: MassMail 2.1\r\n"
    b'Subject: YOU WIN $500!\r\nContent-Type: text/html; charset="koi8-r"\r\n'
    b"Content-Transfer-Encoding: 8bit\r\n\r\n"
    b'<a href="http://www.prizes.example/claim">here</a> or http://192.0.2.7/x\r\n'
)


def told(raw: bytes) -> list[str]:
    return read_mail(raw).fields["meta"].split()


def test_what_is_told() -> None:
    assert told(PLAIN) == [
        *("mailer_massmail", "sender_prizes_example_net", "sender_in_net", "sender_digits", "sender_named"),
        *("reply_other", "type_text_html", "charset_koi8_r", "encoding_8bit", "link_prizes_example", "link_2_7"),
        *("link_number", "links_2", "subject_capitals_4", "subject_call", "subject_dollar", "subject_digits"),
        *("body_capitals_0", "body_length_4", "body_calls_0", "body_dollars_0"),
    ]


@pytest.mark.parametrize(
    "raw",
    [
        PLAIN.replace(b"\r\n", b"\n"),
        b"From win@example.net Sat Nov 28 03:30:00 2026\n" + PLAIN.replace(b"\r\n", b"\n"),
        PLAIN + b"\r\n\r\n",
        b"Received: from a by b; Sat, 28 Nov 2026 03:30:05 +0100\r\nX-Spam-Flag: YES\r\n" + PLAIN,
        b"Delivered-To: me\r\nList-Id: <list>\r\nAuthentication-Results: x; dkim=fail\r\nPrecedence: bulk\r\n" + PLAIN,
    ],
)
def test_copies_of_a_mail_are_told_alike(raw: bytes) -> None:
    assert told(raw) == told(PLAIN)


def test_it_is_bounded() -> None:
    links = b" ".join(b"http://h%d.example" % i for i in range(20_000))
    started = time.process_time()
    words = told(b"From: " + b"a" * 8000 + b"\nX-Mailer: " + b"word " * 1500 + b"\n\n" + links + b"!" * 100_000)
    assert time.process_time() - started < 1
    assert len(words) < 80
    assert max(map(len, words)) < 80


def test_no_mail_tells_nothing() -> None:
    assert told(b"") == []


def test_links_are_found_however_they_are_spelt() -> None:
    text = "http://a.one HTTPS://b.two httpſ://c.three hhttp://d.four shttps://e.five://f.six :// ://g.seven"
    found = [name for name in told(b"\n" + text.encode()) if name.startswith("link_")]
    assert found == ["link_a_one", "link_b_two", "link_c_three"]


def test_capitals_are_counted_alike_in_all_languages() -> None:
    for western in ("aB", "ÀÉ œŸ ßab¹", "1 – ª"):
        letters = [sign for sign in western if sign.isalpha()]
        assert mail_meta._capitals(western) == sum(map(str.isupper, letters)) / len(letters)
