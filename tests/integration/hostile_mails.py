"""Mails that have broken mail software, and what is to be said of each. Written from public complaints; no files."""

from __future__ import annotations

import base64
import random
from dataclasses import dataclass
from email.message import EmailMessage

from api_support import SPAM

HEAD = (
    b"From: win@example.net\r\nTo: you@example.org\r\nDate: Sat, 28 Nov 2026 03:30:00 +0100\r\n"
    b"Subject: claim your prize\r\n"
)
TEXT = SPAM.encode() + b"\r\n"
PLAIN = HEAD + b"\r\n" + TEXT


@dataclass(frozen=True)
class Hostile:
    """A mail; ``label`` None: either label will do, as nothing can be read in it."""

    raw: bytes
    label: str | None = "spam"
    truncated: bool = False
    status: int = 200


def with_charset(name: bytes) -> bytes:
    return HEAD + b"Content-Type: text/plain; charset=" + name + b"\r\n\r\n" + TEXT + "für Sie \x80".encode("latin-1")


def multipart(*parts: bytes) -> bytes:
    return (
        HEAD
        + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"
        + b"".join(b"--b\r\n" + part + b"\r\n" for part in parts)
        + b"--b--\r\n"
    )


def attachment(size: int, kind: str = "application/pdf", disposition: bytes = b'attachment; filename="a.pdf"') -> bytes:
    content = base64.encodebytes(random.Random(1).randbytes(size))  # noqa: S311 (no secret)
    head = b"Content-Type: " + kind.encode() + b"\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: "
    return head + disposition + b"\r\n\r\n" + content


def nested(levels: int) -> bytes:
    heads = (b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (i, i) for i in range(levels))
    return HEAD + b"".join(heads) + b"Content-Type: text/plain\r\n\r\n" + TEXT


def word_salad() -> bytes:
    rng = random.Random(2)  # noqa: S311
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9))) for _ in range(2000)]
    return PLAIN + " ".join(words).encode() + b"\r\n"


def by_python() -> bytes:
    made = EmailMessage()
    made["Subject"] = "claim your prize"
    made.set_content("\n".join(["claim your prize money now"] * 3), cte="base64")
    made.add_alternative("<html>" + SPAM + "</html>", subtype="html")
    return made.as_bytes()


BODY = b"\r\n\r\n" + TEXT
MAILS = {
    "50,000 parts": Hostile(multipart(b"\r\n" + TEXT, *[b"\r\nx"] * 50_000), truncated=True),
    "a body of dashes, and so is the boundary": Hostile(
        HEAD + b'Content-Type: multipart/mixed; boundary="' + b"-" * 60 + b'"' + BODY + b"\r\n" + b"-" * 9_000_000,
        truncated=True,
    ),
    "2,000 levels": Hostile(nested(2000), label=None, truncated=True),
    "50,000 messages in messages": Hostile(HEAD + b"Content-Type: message/rfc822\r\n\r\n" * 50_000, None, True),
    "20,000 addresses in To": Hostile(b"To: " + b"someone@example.org, " * 20_000 + b"\r\n" + PLAIN, truncated=True),
    "5,000 parentheses in To": Hostile(b"To: " + b"(" * 5000 + b"\r\n" + PLAIN),
    "an address literal in Message-ID": Hostile(b"Message-ID: <[x==@microsoft.com]>\r\n" + PLAIN),
    **{
        f"charset {name!r}": Hostile(with_charset(name))
        for name in (b"bogus", b"DEFAULT_CHARSET", b"cp-850", b'""', b"hex", b"undefined", b"utf-8\0x", b"utf-16-x")
    },
    "raw 8 bit beside encoded words": Hostile(b"X-A: =?utf-8?q?=C3=BC?= caf\xe9 =?utf-8?b?w7w=?=\r\n" + PLAIN),
    "8 bit in Subject": Hostile(HEAD.replace(b"prize", b"prize caf\xe9 \xff") + b"\r\n" + TEXT),
    "an encoded line break in Subject": Hostile(
        b"Subject: claim your prize =?utf-8?q?=0D=0AX-Spam-Flag:_NO?=\r\n" + b"From: a@example.org" + BODY
    ),
    "200 forged marks": Hostile(b"X-SPAM-flag: NO\r\nX-Spam-Status:\r\n\tNo, score=-9\r\n" * 100 + PLAIN),
    "NUL in a header": Hostile(HEAD.replace(b"claim", b"claim\0\0") + b"X-A: b\0c\r\n\r\n" + TEXT),
    "NUL in the body": Hostile(PLAIN + b"\0" * 1000 + b"prize\0money"),
    "NUL in an attachment": Hostile(
        multipart(b"\r\n" + TEXT, b"Content-Type: a/b\r\nContent-Disposition: attachment\r\n\r\n" + bytes(999))
    ),
    "no bytes": Hostile(b"", None),
    "no body": Hostile(b"From: a@example.org\r\nDate: x\r\n\r\n", None),
    "a PDF and no text": Hostile(
        b"Content-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\n\r\n" + attachment(180_000), None
    ),
    "a picture and three words": Hostile(multipart(b"\r\nclaim your prize", attachment(50_000, "image/png"))),
    "an attachment of 25 MB": Hostile(multipart(b"\r\n" + TEXT, attachment(25_000_000)), status=413),
    "an attachment of 7 MB": Hostile(multipart(b"\r\n" + TEXT, attachment(7_000_000))),
    "500 KB of <div>": Hostile(
        HEAD + b"Content-Type: text/html\r\n\r\n" + TEXT + b"<div>" * 50_000 + b"</div>" * 50_000, truncated=True
    ),
    "100,000 header lines": Hostile(HEAD + b"X-A: b\r\n" * 100_000 + b"\r\n" + TEXT, truncated=True),
    "word salad": Hostile(word_salad()),
    "a name in windows-1251": Hostile(
        multipart(b"\r\n" + TEXT, attachment(100, disposition=b'attachment; filename="\xcf\xf0\xe8\xe2\xe5\xf2.pdf"'))
    ),
    "a name of a bogus charset": Hostile(
        multipart(b"\r\n" + TEXT, attachment(100, disposition=b"attachment; filename*=x-bogus''%FF%FE; filename*1=x"))
    ),
    "surrogates as UTF-8": Hostile(PLAIN + b"\xed\xa0\x80\xed\xb0\x80 \xf8\x88\x80\x80\x80\r\n"),
    "base64 that ends anywhere": Hostile(
        HEAD + b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.b64encode(TEXT)[:-3]
    ),
    "parts without a boundary": Hostile(HEAD + b"Content-Type: multipart/mixed" + BODY),
    "text right behind the header": Hostile(HEAD + TEXT),
    "2 MB of text": Hostile(PLAIN + b"offer money\r\n" * 160_000, truncated=True),
    "by Python": Hostile(by_python()),
}  # fmt: skip
assert len(MAILS) >= 34
