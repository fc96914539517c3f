"""Each of the 32 public complaints about mail software that the design page lists: a test."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from hostile_mails import HEAD, MAILS, PLAIN, TEXT, attachment, multipart, with_charset
from mail_support import Door, mail_door, parsed

from service.settings import Settings

TESTS = Path(__file__).parents[2]
UNKNOWN = {"Spam": "False ; 0.0 / 5.0"}
SPAM_TOLD = re.compile(r"True ; (\d+\.\d) / 5\.0")
ELSEWHERE = {
    3: "integration/datasets/test_api_hostile_mails.py::test_each_gets_the_right_answer_soon_and_the_process_lives_on",
    13: "acceptance/test_mails.py::test_thirty_mails_of_each_class_are_enough_and_none_of_one_is_told",
    14: "integration/mailfilter/test_mail_fails_open.py::test_too_few_labels",
    16: "integration/mailfilter/test_mail_learning.py::test_a_mail_counts_once_and_what_is_said_last_counts",
    18: "integration/datasets/test_api_hostile_mails.py::test_copies_of_a_mail_are_one_mail",
    21: "statistical/test_mail_models.py::test_what_is_called_good_is_as_good_with_very_uneven_labels",
    23: "mail_e2e/test_e2e_dovecot.py::test_what_is_moved_into_junk_and_out_of_it_is_learned",
    24: "mail_e2e/test_e2e_dovecot.py::test_without_the_filter_mails_are_moved_all_the_same",
    25: "statistical/test_mail_models.py::test_a_pool_of_spam_does_not_pull_the_threshold_where_its_share_is_given",
    27: "unit/service/test_milter.py::test_every_answer_that_is_none_lets_the_mail_pass",
    28: "mail_e2e/test_e2e_postfix.py::test_mails_are_marked_once_and_below_the_marks_they_stay_as_they_are",
    32: "statistical/test_mail_models.py::test_chance_and_one_label_more_hardly_move_what_is_called_spam",
}
"""Where a complaint is tested that needs another stage than this file has."""


@pytest.fixture
def door(settings: Settings, api: httpx.Client) -> Iterator[Door]:
    # What is decided on is tested here, not how fast a busy machine wakes up: `decided` looks at processor time.
    with mail_door(settings, mail_learn=True) as opened:
        yield opened


def decided(door: Door, raw: bytes, seconds: float = 4.0) -> tuple[bool, float]:
    """Return whether a mail is spam, and its points; it must be decided on, soon."""
    began = time.process_time()
    fields = parsed(door.ask("CHECK", raw))[1]
    assert time.process_time() - began < seconds
    assert fields != UNKNOWN
    told, _, points = fields["Spam"].partition(" ; ")
    return told == "True", float(points.split(" / ")[0])


def marked(door: Door, raw: bytes) -> Any:
    return BytesHeaderParser().parsebytes(parsed(door.ask("PROCESS", raw))[2])


def feedback(api: httpx.Client) -> list[dict[str, int]]:
    return [each["labels"] for each in api.get("/feedback", params={"alias": "spam-filter"}).json()["items"]]


def an_address_literal_in_message_id(door: Door, api: httpx.Client) -> None:
    assert decided(door, MAILS["an address literal in Message-ID"].raw)[0]


def unknown_charsets(door: Door, api: httpx.Client) -> None:
    for name in (b"bogus", b"DEFAULT_CHARSET", b"cp-850", b'""', b"hex", b"undefined", b"utf-8\0x", b"CHINESEBIG5"):
        assert decided(door, with_charset(name))[0], name


def nested_parts(door: Door, api: httpx.Client) -> None:
    decided(door, MAILS["2,000 levels"].raw)
    assert decided(door, PLAIN)[0]


def long_address_lists(door: Door, api: httpx.Client) -> None:
    assert decided(door, MAILS["20,000 addresses in To"].raw)[0]
    assert decided(door, MAILS["5,000 parentheses in To"].raw)[0]


def eight_bits_beside_encoded_words(door: Door, api: httpx.Client) -> None:
    raw = MAILS["raw 8 bit beside encoded words"].raw
    assert parsed(door.ask("PROCESS", raw))[2].endswith(raw)


def lone_surrogates_in_json(door: Door, api: httpx.Client) -> None:
    body = b'{"model": "spam-filter", "messages": ["\\ud800 prize"]}'
    answer = api.post("/predict", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)


def an_encoded_line_break(door: Door, api: httpx.Client) -> None:
    raw = MAILS["an encoded line break in Subject"].raw
    assert marked(door, raw).get_all("X-Spam-Flag") == ["YES"]
    assert 400 <= api.put("/aliases/a%0D%0Ab", json={"model": "mdl_" + "0" * 32}).status_code < 500


def no_field_spills_into_the_body(door: Door, api: httpx.Client) -> None:
    before, after = BytesHeaderParser().parsebytes(PLAIN), marked(door, PLAIN)
    ours = [name for name in after.keys() if name.startswith("X-Spam-")]  # noqa: SIM118 (a name a field, doubled ones too)
    assert len(after.keys()) == len(before.keys()) + len(ours)
    assert not any(str(value).endswith(("\r", "\n")) for value in after.values())
    with door.http() as http:
        for added in http.post("/checkv2", content=PLAIN).json()["milter"]["add_headers"].values():
            assert not re.search(r"[\r\n]", added["value"])


def forged_marks(door: Door, api: httpx.Client) -> None:
    raw = MAILS["200 forged marks"].raw
    assert marked(door, raw).get_all("X-Spam-Flag") == ["YES"]
    assert decided(door, raw) == decided(door, PLAIN)


def nul(door: Door, api: httpx.Client) -> None:
    for name in ("NUL in a header", "NUL in the body", "NUL in an attachment"):
        assert decided(door, MAILS[name].raw)[0], name
        answer = door.ask("TELL", MAILS[name].raw, Set="local", Message_class="spam")
        assert b"DidSet: local" in answer, name
    assert len(feedback(api)) == 3
    other = PLAIN.replace(b"money", b"gold")
    assert b"DidSet: local" in door.ask("TELL", other, Set="local", Message_class="spam")


def tiny_mails(door: Door, api: httpx.Client) -> None:
    with door.http() as http:
        for name in ("no bytes", "no body", "a PDF and no text"):
            assert http.post("/checkv2", content=MAILS[name].raw).status_code == 200
            learned = http.post("/learnspam", content=MAILS[name].raw)
            assert (learned.status_code, learned.json()["result"]) == (200, "ignored"), name
    assert feedback(api) == []


def learned_already(door: Door, api: httpx.Client) -> None:
    with door.http() as http:
        first, second = (http.post("/learnham", content=PLAIN) for _ in range(2))
        assert (first.json()["result"], second.json()["result"]) == ("learned", "known")
        assert second.status_code == 200
        assert second.json()["takes_effect"] == "the next training learns from it"  # not the verdict of now
    assert feedback(api) == [{"ham": 1}]


def different_mails(door: Door, api: httpx.Client) -> None:
    same_id = b"Message-ID: <1@x>\r\n"
    for raw in (same_id + PLAIN, same_id + PLAIN.replace(b"money", b"gold"), b"Received: by a\r\n" + same_id + PLAIN):
        door.ask("TELL", raw, Set="local", Message_class="spam")
    assert feedback(api) == [{"spam": 1}] * 2


def forwarded_mails(door: Door, api: httpx.Client) -> None:
    """Attached; one that is forwarded in the text cannot be told from a text about it, and is learned as it is."""
    inner = PLAIN.replace(b"\r\n", b"\n")
    wrapper = multipart(b"\r\nlook at this", b"Content-Type: message/rfc822\r\n\r\n" + inner)
    with door.http() as http:
        asked = "/learnspam?learn_attachments=true"
        assert http.post(asked, content=wrapper).json()["result"] == "learned"
        assert http.post("/learnspam", content=PLAIN).json()["result"] == "known"
        assert http.post(asked, content=PLAIN).json()["result"] == "ignored"
        many = multipart(*[b"Content-Type: message/rfc822\r\n\r\n" + inner + b"%d" % i for i in range(50)])
        assert http.post(asked, content=many).status_code == 422
    assert feedback(api) == [{"spam": 1}]


def word_salad(door: Door, api: httpx.Client) -> None:
    """Still spam, and of its points less than 30 % are gone."""
    is_spam, points = decided(door, MAILS["word salad"].raw)
    assert is_spam
    assert points > 0.7 * decided(door, PLAIN)[1] > 0


def whose_model(door: Door, api: httpx.Client) -> None:
    learned = api.get("/models/spam-filter").json()["report"]["rows"]
    assert (learned["labelled"], learned["positive"]) == (10, 4)  # of the report that is stored with it
    assert decided(door, PLAIN)[0]
    door.predictions.usage.flush()
    used = api.get("/models/spam-filter/drift").json()["by_day"]
    assert [(each["day"], each["rows"] > 0) for each in used] == [(f"{datetime.now(UTC):%Y-%m-%d}", True)]  # and last
    assert "spam-filter" in str(marked(door, PLAIN)["X-Spam-Model"])  # which one said that
    assert parsed(door.ask("CHECK", PLAIN, User="nobody@example.org"))[1] == parsed(door.ask("CHECK", PLAIN))[1]


def too_large(door: Door, api: httpx.Client) -> None:
    large = PLAIN + b"x" * (11 << 20)
    assert parsed(door.ask("CHECK", large))[1] == UNKNOWN  # and spamc passes it on
    assert door.ask("PROCESS", large).startswith(b"SPAMD/1.1 98 EX_TOOBIG")
    assert api.post("/predict?model=spam-filter", content=large, headers=RFC822).status_code == 413


def large_attachments(door: Door, api: httpx.Client) -> None:
    assert decided(door, MAILS["an attachment of 7 MB"].raw)[0]
    assert parsed(door.ask("CHECK", multipart(b"\r\n" + TEXT, attachment(25_000_000))))[1] == UNKNOWN


def names_of_attachments(door: Door, api: httpx.Client) -> None:
    assert decided(door, MAILS["a name in windows-1251"].raw)[0]
    assert decided(door, MAILS["a name of a bogus charset"].raw)[0]


def nested_html(door: Door, api: httpx.Client) -> None:
    raw = HEAD + b"Content-Type: text/html\r\n\r\n" + TEXT + b"<div>" * 50_000 + b"</div>" * 50_000
    assert decided(door, raw)[0]


RFC822 = {"Content-Type": "message/rfc822"}
HERE: dict[int, Callable[[Door, httpx.Client], None]] = {
    1: an_address_literal_in_message_id,
    2: unknown_charsets,
    4: nested_parts,
    5: long_address_lists,
    6: eight_bits_beside_encoded_words,
    7: lone_surrogates_in_json,
    8: an_encoded_line_break,
    9: no_field_spills_into_the_body,
    10: forged_marks,
    11: nul,
    12: tiny_mails,
    15: learned_already,
    17: different_mails,
    19: forwarded_mails,
    20: word_salad,
    22: whose_model,
    26: too_large,
    29: large_attachments,
    30: names_of_attachments,
    31: nested_html,
}


@pytest.mark.parametrize("number", HERE)
def test_complaint(number: int, door: Door, api: httpx.Client) -> None:
    HERE[number](door, api)


def test_each_complaint_has_its_test() -> None:
    assert sorted([*HERE, *ELSEWHERE]) == list(range(1, 33))
    for where in ELSEWHERE.values():
        path, _, name = where.partition("::")
        named = {
            each.name for each in ast.walk(ast.parse((TESTS / path).read_text())) if isinstance(each, ast.FunctionDef)
        }
        assert name in named, where
