"""What is put above a mail and taken out of its header; below that, not a byte changes."""

from __future__ import annotations

import re
import tracemalloc
from email import message_from_bytes

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from service.mailfilter.marking import marked, split, without_marks
from service.mailfilter.verdict import HIGHEST, LOWEST, REQUIRED, MailVerdict, headers_of, points_of, report_of

SPAM = MailVerdict("spam", 7.46, alias="spam-filter", model="mdl_" + "0" * 32, label="späm\r\nX-A: b", score=1.0)
PIECES = st.sampled_from(
    [b"\n", b"\r\n", b"\r", b"\r\r\n", b" ", b"\t", b"A: b", b"X-Spam-Flag: NO", b"x-SPAM-a : c", b"From ", b"\0x",
     b"X-Spam-b", b": d"]
)  # fmt: skip


def fields(header: bytes) -> list[bytes]:
    """Return the lines of a header, each with those that continue it."""
    found: list[bytes] = []
    for line in re.split(rb"\r{0,2}\n|\r", header):
        if found and line[:1] in (b" ", b"\t"):
            found[-1] += line
        else:
            found.append(line)
    return found


def is_mark(field: bytes) -> bool:
    return re.match(rb"(?i)x-spam-[^:]*:", field) is not None


@settings(max_examples=examples(300))
@given(st.lists(PIECES, max_size=14).map(b"".join))
def test_all_bytes_but_marks_stay(raw: bytes) -> None:
    envelope, header, body = split(raw)
    assert envelope + header + body == raw
    out = marked(raw, headers_of(SPAM))
    assert out.startswith(without_marks(envelope) + b"X-Spam-Flag: YES")
    assert out.endswith(body)
    assert not any(map(is_mark, fields(without_marks(header))))
    dropped = any(map(is_mark, fields(header)))
    assert dropped or without_marks(header) == header
    assert len(message_from_bytes(out).get_all("X-Spam-Flag", [])) == 1 or envelope


def test_a_field_behind_a_mark_is_no_part_of_the_one_before() -> None:
    header = b"Subject: a\rX-Spam-Flag: NO\r\nFrom: b\r\n"
    assert without_marks(header) == b"Subject: a\r\nFrom: b\r\n"


@pytest.mark.parametrize(
    "folded", [b"X-Spam-A\r\n : NO", b"x-spam-a\n\t\n :\n NO", b"X-SPAM-a\r x\r\n\ty:", b"X-Spam- b \n c : d\n e"]
)
def test_a_mark_that_is_folded_before_its_colon_goes_too(folded: bytes) -> None:
    assert without_marks(b"Subject: a\r\n" + folded + b"\r\nFrom: b\r\n") == b"Subject: a\r\nFrom: b\r\n"
    assert without_marks(b"X-Spam-a\r\nFrom: b\r\n") == b"X-Spam-a\r\nFrom: b\r\n"  # no field, and what follows is one


@pytest.mark.parametrize("filler", [b"\r", b"a\r", b"a\n", b" \n", b"X-Spam-a:\n", b"X-Spam-a\n", b"X-Spam-a\n b\n"])
def test_a_header_of_millions_of_lines_takes_no_memory_a_line(filler: bytes) -> None:
    header = b"X-Spam-a: b\r\n" + filler * (1_000_000 // len(filler))
    tracemalloc.start()
    try:
        without_marks(header)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 * len(header)


def test_the_envelope_hides_no_mark_and_a_mail_of_one_line_has_none() -> None:
    assert marked(b"From x\rX-Spam-Flag: YES\nA: b\n\nc", []) == b"From x\r\nA: b\n\nc"
    assert marked(b"From x", ["X-Spam-Flag: YES"]) == b"X-Spam-Flag: YES\nFrom x"


@pytest.mark.parametrize("kind", ["spam", "ham", "unsure"])
def test_headers_are_ascii_and_short(kind: str) -> None:
    verdict = MailVerdict(kind, 7.46, alias="a" * 63, model="mdl_" + "0" * 32)  # type: ignore[arg-type]
    lines = "\n".join(headers_of(verdict)).split("\n")
    assert all(line.isascii() and line.isprintable() for line in (line.lstrip("\t") for line in lines))
    assert max(map(len, lines)) <= 78
    assert (lines[0] == "X-Spam-Flag: YES") == (kind == "spam")


def test_points_keep_the_order_and_never_say_the_other_thing() -> None:
    scores = [-1e9, -3.0, 0.3, 0.31, 0.31001, 0.5, 2.0, 1e9]
    points = [points_of(score, 0.31, 0.7) for score in scores]
    assert points == sorted(points)
    assert (points[0], points[3], points[-1]) == (LOWEST, REQUIRED, HIGHEST)
    assert points_of(1.01, 0.31, 0.7) == pytest.approx(10.0)
    for each in points:
        assert MailVerdict("spam", each).shown >= REQUIRED
        assert MailVerdict("ham", each).shown < REQUIRED
        assert re.fullmatch(r"-?\d+\.\d", f"{MailVerdict('ham', each).shown:.1f}")


def test_reports_are_ascii_whatever_a_label_is() -> None:
    assert report_of(SPAM).isascii()
    assert "\r" not in report_of(SPAM)
    assert "X-A" in report_of(SPAM).splitlines()[-1]
