"""What links mails of one thread, of an upload and of feedback; hashes, and nothing of a header."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from ingest_helpers import Read
from test_ingest_mailbox import tarred

from service.feedback.mails import rows_of_mails
from service.ingest.mail import read_mail
from service.ingest.threads import MOST_REFERENCES, THREAD, thread_links
from service.models.repository import ModelShape
from solver.row_groups import groups_of
from solver.training import TrainingRequest
from worker import fit
from worker.protocol import JobSpec, Reporter


def mail(number: int | str, answers: int | str | None = None, references: str = "", more: str = "") -> bytes:
    lines = [f"Message-ID: <{number}@host.example>", *([more] if more else [])]
    lines += [] if answers is None else [f"In-Reply-To: <{answers}@host.example>"]
    lines += [f"References: {references}"] if references else []
    return "\n".join([*lines, "Subject: s", "", "text", ""]).encode()


def groups(*mails: bytes) -> list[int]:
    return groups_of([read_mail(each).thread for each in mails]).tolist()


def test_an_upload_has_the_column_and_it_matters_for_no_row() -> None:
    archive = {"ham/1": mail(1), "ham/2": mail(2, 1), "spam/3": mail(3), "spam/4": b"Subject: none\n\ntext\n"}
    read = Read(tarred(archive), "mail")
    links = read.table[THREAD]
    assert groups_of(links).tolist() == [0, 0, 1, 2]
    assert links[3] is None
    assert read.kinds[THREAD] == "category"
    assert read.result["duplicate_rows"] == 1  # the two of one folder
    assert all(re.fullmatch(r"[0-9a-f]{16}( [0-9a-f]{16})*", each) for each in links[:3])
    assert "host" not in str(links)


def test_threads_are_found_by_parent_references_and_through_mails_that_are_not_there() -> None:
    chain = "<1@host.example> <2@host.example> <3@host.example>"
    assert groups(mail(1), mail(2, 1), mail(9)) == [0, 0, 1]
    assert groups(mail(1), mail(4, references=chain), mail(9)) == [0, 0, 1]
    assert groups(mail(5, "gone"), mail(6, "gone"), mail(7, 6)) == [0, 0, 0]
    assert groups(mail(3, references=chain.replace(" ", "\n\t")), mail(2)) == [0, 0]
    assert groups(mail(1), mail(1)) == [0, 0]  # a copy of another list
    assert groups(mail(1), mail(2, 1), mail(1, 2)) == [0, 0, 0]  # a cycle


def test_of_many_references_the_first_and_the_last_ones_count() -> None:
    many = " ".join(f"<r{i}@host.example>" for i in range(200))
    assert len(read_mail(mail(1, references=many)).thread.split()) == MOST_REFERENCES + 1
    assert groups(mail(1, references=many), mail("r0"), mail("r199"), mail("r90")) == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("headers", "links"),
    [
        ({}, 0),
        ({"message-id": b""}, 0),
        ({"message-id": b"<>", "references": b"<> < > <@>"}, 0),
        ({"message-id": b"plain@host.example"}, 1),
        ({"message-id": b"<" + b"x" * 1100 + b"@h>"}, 0),
        ({"message-id": b"no id at all"}, 0),
        ({"references": b"<" * 8000}, 0),
        ({"references": b"<a1><b2>" * 1000, "in-reply-to": b"<a1>"}, 2),
        ({"in-reply-to": b"Message from Ann <ann@home.example> of Monday"}, 0),
        ({"in-reply-to": b'Message from Ann <ann@home.example> of "Mon" <77.88@home.example>'}, 1),
        ({"in-reply-to": b"<77.88@home.example> (Ann's message of Monday)"}, 1),
        ({"in-reply-to": b"(" * 8000 + b"<a1>" + b"(" * 100}, 0),
    ],
    ids=str,
)
def test_headers_of_all_kinds_are_bounded(headers: dict[str, bytes], links: int) -> None:
    found = thread_links(headers).split()
    assert len(found) == links


def test_ids_that_are_folded_are_the_same() -> None:
    assert groups(mail(1, more="X: y"), mail(2).replace(b"<2@host", b"<2@\n host"), mail(3, 2)) == [0, 1, 1]


class AskedError(Exception):
    """Ends a training with what the solver was asked."""


@pytest.mark.parametrize(("change", "groups"), [({}, THREAD), ({"key": THREAD}, None), ({"target": THREAD}, None)])
def test_a_training_on_mails_is_asked_to_keep_threads_whole(
    change: dict[str, str], groups: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Read(tarred({"ham/1": mail(1), "spam/2": mail(2, 1)}), "mail")
    asked: list[TrainingRequest] = []

    def train(data: Any, labels: Any, request: TrainingRequest, **_: Any) -> None:
        asked.append(request)
        raise AskedError

    monkeypatch.setattr(fit, "train", train)
    body = {
        "algorithm": "svm", "params": {}, "objective": {"kind": "f1"}, "target": "label", "positive": "spam",
        "unlabeled": [], "test_fraction": 0.2, "seed": 0, **change,
    }  # fmt: skip
    for form, expected in (("mail", groups), ("csv", None)):
        job = JobSpec("job_1", 1, body, "table", "out", str(read.path.parent), str(tmp_path), upload={"format": form})
        reading, writing = os.pipe()
        try:
            with pytest.raises(AskedError):
                fit.run(job, Reporter(writing))
        finally:
            os.close(reading)
            os.close(writing)
        assert asked[-1].groups == expected


def test_feedback_on_mails_keeps_their_thread() -> None:
    shape = ModelShape.__new__(ModelShape)
    object.__setattr__(shape, "columns", [{"name": "subject", "kind": "text"}, {"name": "body", "kind": "text"}])
    kept, alone = rows_of_mails(shape, [mail(2, 1), b"Subject: s\n\ntext\n"])
    assert kept[THREAD] == read_mail(mail(2, 1)).thread
    assert alone[THREAD] is None
