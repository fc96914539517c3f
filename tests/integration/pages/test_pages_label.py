"""The pages on which rows get labels: the queue of a model, whose answers are feedback, and audits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from access_support import make_key
from api_support import api_client
from pages_support import Place, Reader, Visitor
from sqlalchemy import Engine, event, text

from service.db.tables import DEFAULT_PROJECT, AuditItemRow, AuditRow, JobRow
from service.pages import labelling
from service.pages.objectives import objective_fields
from service.settings import Settings
from solver.audits import rows_to_prove
from solver.evaluation.counts import ConfusionCounts
from solver.operating_point import Objective
from solver.promise import promise_of

UNLABELLED = [2, 5, 8, 11, 14]
QUEUE = {
    "improve": {
        "rows": UNLABELLED,
        "scores": [0.1, 0.3, 0.2, 0.4, 0.5],
        "reasons": ["random", "unsure", "random", "crowd", "random"],
        "covers": [1, 1, 1, 4, 1],
        "compared": 20,
    },
    "suspicious": {"rows": [0], "scores": [-1.0], "positive": [True], "judged": 40, "better_than_chance": True},
}
CLASSES = {"positive": "spam", "negative": "ham"}


def row_of(page: Reader) -> int:
    return int(page.form("/label")["fields"]["row"])


def feedback(place: Place, alias: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = place.client.get("/feedback", params={"alias": alias}).json()["items"]
    return found


def test_rows_are_answered_put_off_and_taken_back(place: Place) -> None:
    place.trained("mails", queue=QUEUE)
    visitor = Visitor(place.client)
    page = visitor.open("/ui/models/mails")
    page = visitor.open(next(link for link in page.links if link.endswith("/label")))
    assert row_of(page) == 2
    assert page.text.startswith("Label rows for mails · prefsvm")
    assert "Models › mails › Label rows Label rows for mails of " in page.text
    assert any(link.endswith(place.dataset) for link in page.links)
    assert "score 0.1, threshold 0.25" in page.text
    assert "Drawn at random: its label also counts for thresholds" in page.text
    assert "age 22" in page.text
    assert "this model has not learned: 0" in page.text
    assert 'id="again" hidden' in visitor.answer.text
    page = visitor.send(page, "/label", label="spam")
    (sent,) = feedback(place, "mails")
    assert (sent["labels"], sent["rows"]) == ({"spam": 1}, 1)
    assert row_of(page) == 5
    assert "The model is least sure of rows like it" in page.text
    assert "this model has not learned: 1" in page.text
    assert 'id="again" hidden' not in visitor.answer.text
    # Later: the next one comes, and the first again once somebody goes back.
    page = visitor.open(next(link for link in page.links if "skip=1" in link))
    assert row_of(page) == 8
    page = visitor.send(page, "/label", label="ham")
    assert row_of(page) == 11
    assert row_of(visitor.open("/ui/models/mails/label")) == 5
    # What was said last is taken back, and asked again.
    page = visitor.send(page, "/unlabel")
    assert row_of(page) == 8
    assert [each["labels"] for each in feedback(place, "mails")] == [{"spam": 1}]
    with place.database.transaction() as session:
        kept = session.execute(text("SELECT content FROM feedback WHERE alias = 'mails'")).scalar_one()
    assert orjson.loads(kept)["drawn"] == "random"


def test_pressing_twice_is_one_answer_and_an_undo_of_nothing_is_said(place: Place) -> None:
    place.trained("twice", queue=QUEUE)
    visitor = Visitor(place.client)
    page = visitor.open("/ui/models/twice/label")
    for _ in range(2):
        visitor.at = "/ui/models/twice/label"
        after = visitor.send(page, "/label", label="ham")
    assert len(feedback(place, "twice")) == 1
    visitor.at = "/ui/models/twice/label"  # back, and the other button
    again = visitor.send(page, "/label", label="spam")
    assert "This row had an answer already, which stays until you undo it: ham" in again.text
    assert [each["labels"] for each in feedback(place, "twice")] == [{"ham": 1}]
    visitor.send(again, "/unlabel")
    assert feedback(place, "twice") == []
    visitor.at = "/ui/models/twice/label"
    visitor.send(after, "/unlabel", 404)
    visitor.at = "/ui/models/twice/label"  # back once more: it is asked again
    assert row_of(visitor.send(page, "/label", label="spam")) == 2
    assert row_of(visitor.open("/ui/models/twice/label?last=fb_none")) == 2
    for wrong in ("skip=100", "skip=x"):
        visitor.open(f"/ui/models/twice/label?{wrong}", 422)
    for fields in ({"label": "eggs"}, {"label": ""}, {"row": "x"}, {"row": "60"}, {"drawn": "now"}):
        visitor.at = "/ui/models/twice/label"
        visitor.send(page, "/label", 422, **({"label": "spam", "once": ""} | fields))


def test_an_answer_is_not_lost_with_a_session(place: Place, module_settings: Settings) -> None:
    place.trained("kept", queue=QUEUE)
    key = make_key(place.database, DEFAULT_PROJECT, "read", "write")
    with api_client(module_settings, keys_required=True) as client:
        visitor = Visitor(client)
        page = visitor.send(visitor.open("/ui/models/kept/label"), "/ui/sign-in", key=key)
        with place.database.transaction() as session:
            session.execute(text("DELETE FROM sessions"))
        assert "nothing that you typed is lost" in visitor.send(page, "/label", 401, label="spam").text
        visitor.send(visitor.open("/ui"), "/ui/sign-in", key=key)
        for _ in range(2):
            visitor.at = "/ui/models/kept/label"
            after = visitor.send(page, "/label", label="spam")
        assert row_of(after) == 5
    assert [each["labels"] for each in feedback(place, "kept")] == [{"spam": 1}]


def test_labels_in_doubt_are_confirmed_or_changed(place: Place) -> None:
    place.trained("doubted", queue=QUEUE, probability={"slope": 2.0, "offset": 0.0, "brier": 0.1, "reliability": []})
    visitor = Visitor(place.client)
    page = visitor.open("/ui/models/doubted/label?purpose=suspicious")
    assert re.search(r"Labelled 'spam'; models that have not seen this label give 'spam' 1[12]\.\d%", page.text)
    page = visitor.send(page, "/label", label="ham")
    assert "purpose=suspicious" in visitor.at
    assert "Nothing in this list" in page.text
    assert "All of it has an answer" in page.text


def test_a_list_that_says_nothing_says_why(place: Place) -> None:
    nothing = {"rows": [], "scores": [], "positive": [], "judged": 0, "better_than_chance": False}
    place.trained("unjudged", queue=QUEUE | {"suspicious": nothing})
    page = Visitor(place.client).open("/ui/models/unjudged/label?purpose=suspicious")
    assert "No label could be judged" in page.text


def test_a_model_without_a_name_gets_one_first(place: Place) -> None:
    model = place.model()
    visitor = Visitor(place.client)
    page = visitor.open(f"/ui/models/{model}/label")
    assert "This model has none" in page.text
    visitor.send(page, "/alias", alias="old")
    assert "was deleted" in visitor.open("/ui/models/old/label").text  # the data set that its list would be of


def test_all_answers_at_once_make_the_next_training(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelling, "ENOUGH", 2)
    place.trained("again", queue=QUEUE)
    visitor = Visitor(place.client)
    page = visitor.open("/ui/models/again/label")
    assert 'id="again" hidden' in visitor.answer.text
    for label in ("spam", "ham"):
        page = visitor.send(page, "/label", label=label)
    assert "has not learned: 2" in page.text
    assert "<button>Train again" in visitor.answer.text  # no second-class button any more
    told = visitor.send(page, "/retrain")
    assert "Waits for a worker" in told.text
    job = place.client.get("/jobs").json()["items"][0]
    assert job["request"]["alias"] == "again"
    visitor.at = "/ui/models/again/label"
    visitor.send(page, "/retrain")
    assert len([each for each in place.client.get("/jobs").json()["items"] if each["request"]["alias"] == "again"]) == 1
    # The last answer is in use now.
    visitor.at = "/ui/models/again/label"
    assert "uses this feedback" in visitor.send(page, "/unlabel", 409).text
    place.client.post(f"/jobs/{job['id']}/cancel").raise_for_status()


def drawn(place: Place, audit: str, rows: int = 40, **more: Any) -> None:
    """Write what a worker draws: rows that the model calls spam."""
    strata = [{"called": 2, "rows": 120, "share": 0.9}, {"called": 1, "rows": 80, "share": 0.1}] if more else []
    stratum = {"called": True, "rows": 200, "share": 1.0}
    pool = {
        **{"rows": 900, "called_positive": 200, "labelled": 40, "drawn": rows, "threshold": 0.25, "abstain": None},
        **{"positive": "spam", "negative": "ham", "warnings": [], "strata": strata or [stratum], "meant": {}},
        **more,
    }
    with place.database.transaction() as session:
        session.get_one(AuditRow, audit).pool = pool
        for position in range(1, rows + 1):
            content = orjson.dumps({"age": 20 + position, "job": "<b>clerk</b>\u202e"})
            item = {"row": 1000 + position, "stratum": 0, "score": 1.0, "probability": 0.9}
            session.add(AuditItemRow(audit_id=audit, position=position, content=content, **item))


def begun(place: Place, alias: str, **fields: str) -> tuple[Visitor, Reader, str]:
    place.trained(alias, queue=QUEUE)
    visitor = Visitor(place.client)
    asked = {
        "kind": "precision",
        "precision": "80",
        "confidence": "90",
        "dataset": place.dataset,
    } | fields
    page = visitor.send(visitor.open(f"/ui/models/{alias}/label"), "/audits", **asked)
    return visitor, page, visitor.at.rpartition("/")[2]


def test_an_audit_from_its_beginning_to_the_moment_of_proof(place: Place) -> None:
    visitor, page, audit = begun(place, "audited")
    assert "Rows are being drawn" in page.text
    assert page.text.startswith("Audit of audited · prefsvm")
    assert 'data-live="on"' in visitor.answer.text
    assert audit in str(visitor.open("/ui").links)
    drawn(place, audit)
    page = visitor.open(f"/ui/audits/{audit}")
    assert "of the 200 unlabelled rows that the model calls 'spam', at least 80% are 'spam'?" in page.text
    assert "<b>" not in visitor.answer.text
    assert "⟨U+202E⟩" in page.text
    assert "The model decides by the threshold 0.25." in page.text
    before, _, folded = visitor.answer.text.partition("Go on all the same")
    assert ("Keys: " in before, folded) == (True, "")
    bounds = []
    for answers in range(1, 40):
        page = visitor.send(page, "/answer", holding={"row": str(1000 + answers)}, label="spam")
        found = place.client.get(f"/audits/{audit}").json()
        bounds.append(found["verdict"]["bound"])
        assert found["answered"] == answers
        if found["status"] == "proven":
            break
    assert bounds == sorted(bounds)
    assert bounds[-1] >= 0.8
    assert f"Proven , after {len(bounds)} rows" in page.text.replace("Proven,", "Proven ,")
    assert "Nobody has to look at more" in page.text
    assert "Threshold 0.25 in use" in page.text
    before, _, folded = visitor.answer.text.partition("Go on all the same")
    assert "Keys: " not in before
    assert 0 < folded.index("Keys: ") < folded.index("What the model says of it")  # with the row, which is folded
    page = visitor.send(page, "/seal", alias="audited")
    assert "sealed" in page.text
    assert [each["rows"] for each in feedback(place, "audited")] == [len(bounds)]
    assert audit in str(visitor.open("/ui/models/audited/label").links)


def test_what_an_audit_has_proven_comes_first_and_what_the_labels_say_below(place: Place) -> None:
    visitor, _, audit = begun(place, "proved", confidence="95")
    drawn(place, audit)
    asked = {"kind": "precision", "target": 0.8}
    promise = promise_of(Objective.parse(asked), ConfusionCounts(10, 1, 90, 5), "spam", unlabelled=500, called=200)
    point = {"objective": asked, "threshold": 0.25, "promise": promise.to_dict(), "status": "cannot_certify"}
    change = "UPDATE models SET report = report || CAST(:told AS jsonb) WHERE id = :id"
    model = place.client.get("/models/proved").json()["id"]
    with place.database.transaction() as session:
        told = orjson.dumps(point | {"status_reason": promise.sentence}).decode()
        session.execute(text(change), {"told": told, "id": model})
    pages = ("/ui", "/ui/models", "/ui/models/proved", "/models/proved/report.html", "/models/proved/card")
    for path in pages:
        assert "To prove" in visitor.open(path).text
    answers = {"rows": [*range(1001, 1031)], "labels": ["spam"] * 30}
    place.client.post(f"/audits/{audit}/labels", json=answers).raise_for_status()
    assert place.client.get("/models/proved").json()["proven_by"] == audit
    for path in pages:
        page = visitor.open(path).text.partition("Threshold")[0]
        assert "To prove" not in page
        assert "prefsvm audit" not in page
        if path in pages[2:]:
            first, found, below = page.partition("From the labels alone: ")
            assert found
            assert "roven after" in first
            # The card, which programs read, says shares as the calls do; what people read says them in percent.
            assert below.startswith("11 labelled rows called 'spam' are too few to promise precision 80% (chance")
    assert "Of what it flags, at least 80% is right." in visitor.open("/ui").text


def test_an_audit_that_was_closed_unproven_wants_nobodys_attention(place: Place) -> None:
    visitor, _, audit = begun(place, "closed")
    drawn(place, audit)
    assert audit in str(visitor.open("/ui").links)
    place.client.post(f"/audits/{audit}/seal", json={}).raise_for_status()
    assert place.client.get(f"/audits/{audit}").json()["status"] == "open"
    assert audit not in str(visitor.open("/ui").links)


@pytest.mark.parametrize(
    ("objective", "fields"),
    [
        (
            {"kind": "precision", "target": 0.9, "confidence": 0.99},
            {"kind": "precision", "precision": "90", "confidence": "99"},
        ),
        ({"kind": "recall", "target": 0.57}, {"kind": "recall", "recall": "57", "confidence": ""}),
        ({"kind": "ham_loss", "at_most": 0.002}, {"kind": "ham_loss", "lost": "0.2"}),
        ({"kind": "false_positive_rate", "at_most": 0.05}, {"kind": "false_positive_rate", "lost": "5"}),
        ({"kind": "precision_recall", "precision": 0.8, "recall": 0.7}, {"kind": "precision", "precision": "80"}),
        ({"kind": "cost", "false_negative": 7, "false_positive": 2}, {"kind": "cost", "missed": "7", "alarm": "2"}),
        ({"kind": "f1"}, {"kind": "precision", "precision": "95"}),
    ],
)
def test_the_form_of_an_audit_begins_with_what_was_asked(objective: dict[str, Any], fields: dict[str, str]) -> None:
    begun_with = objective_fields(objective, labelling.AUDITED)
    assert fields.items() <= begun_with.items()


def test_a_probability_stands_beside_the_one_that_it_is_compared_with(place: Place) -> None:
    alias = "compared"
    place.trained(alias, queue=QUEUE, probability={"slope": 2.0, "offset": 0.0, "brier": 0.1, "reliability": []})
    least = place.client.get(f"/models/{alias}").json()["threshold_probability"]
    visitor = Visitor(place.client)
    for path in ("label", "label?purpose=suspicious", "mistakes"):
        page = visitor.open(f"/ui/models/{alias}/{path}")
        assert re.search(rf"probability of .*[\d.]+%, called so above {100 * least:.1f}% ", page.text), path


def test_each_thing_that_an_audit_may_prove_has_a_value_of_its_own(place: Place) -> None:
    place.trained("own", queue=QUEUE, objective={"kind": "recall", "target": 0.7})
    page = Visitor(place.client).open("/ui/models/own/label")
    fields = page.form("/audits")["fields"]
    assert {name: fields[name] for name in ("kind", "precision", "recall", "confidence", "rows")} == {
        **{"kind": "recall", "precision": "95", "recall": "70", "confidence": "95", "rows": ""}
    }
    proofs = {percent: rows_to_prove(percent / 100, 1.0, 0.95, 1000) for percent in (90, 95, 99)}
    assert (
        f"is so With a confidence of 95%, {proofs[90]} rows that are all so prove 90%, {proofs[95]} prove 95%, and "
        f"{proofs[99]} prove 99%. Of what is “ spam ”, it finds at least % Takes hundreds of rows, where there are so "
    ) in page.text


def test_the_next_rows_wait_on_the_page_and_come_by_themselves(place: Place) -> None:
    """So that who labels many rows does not load the page with all that stands on it for each of them."""
    place.trained("waiting", queue=QUEUE)
    visitor = Visitor(place.client)
    page = visitor.open("/ui/models/waiting/label")
    asked = [form["fields"] for form in page.forms if form["action"].endswith("/label")]
    assert [int(fields["row"]) for fields in asked] == UNLABELLED
    assert len({fields["once"] for fields in asked}) == len(UNLABELLED)
    assert visitor.answer.text.count('class="one" hidden') == len(UNLABELLED) - 1
    part = visitor.open("/ui/models/waiting/label?part=rows&skip=3")
    assert [int(form["fields"]["row"]) for form in part.forms if form["action"].endswith("/label")] == [11, 14]
    assert "2 put off" not in part.text
    assert "3 put off: back to the first" in part.text
    for of_the_page in ("<html", "Learn them", "Prove it"):
        assert of_the_page not in visitor.answer.text


@pytest.mark.parametrize(
    ("positive", "negative", "keys"),
    [
        ("spam", "ham", "yn"),
        ("no", "yes", "ny"),
        ("yes", "no", "yn"),
        ("NO", "ok", "ny"),
        ("a", "Yes", "ny"),
        ("n1", "n2", "yn"),
    ],
)
def test_keys_are_not_those_of_the_other_label(place: Place, positive: str, negative: str, keys: str) -> None:
    """Where late payers are looked for, labelled “no”, the key y said “no”."""
    place.trained("keyed", queue=QUEUE, classes={"positive": positive, "negative": negative})
    visitor = Visitor(place.client)
    visitor.open("/ui/models/keyed/label")
    first = re.findall(r'value="([^"]+)" data-key="([yn])"', visitor.answer.text)[:2]
    assert first == [(positive, keys[0]), (negative, keys[1])]
    assert f"<kbd>{keys[0]}</kbd> <bdi>{positive}</bdi>" in visitor.answer.text


def test_rows_that_are_long_come_fewer_at_a_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.trained("long", queue=QUEUE)
    for most, rows in ((1, 1), (30, 2), (10**6, 5)):
        monkeypatch.setattr(labelling, "MOST_SHOWN", most)
        page = Visitor(place.client).open("/ui/models/long/label")
        assert len([form for form in page.forms if form["action"].endswith("/label")]) == rows, most


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """What is asked of any database meanwhile."""
    seen: list[str] = []

    def see(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", see)
    yield seen
    event.remove(Engine, "before_cursor_execute", see)


def test_an_answer_looks_at_no_other_model_and_at_no_list(place: Place, statements: list[str]) -> None:
    """Its page looked at eight models and all data sets again after each key."""
    for _ in range(3):
        place.trained("cheap", queue=QUEUE)
    page = Visitor(place.client).open("/ui/models/cheap/label")
    fields = page.form("/label")["fields"]
    statements.clear()
    body = {"alias": "cheap", "dataset": fields["dataset"], "numbers": [int(fields["row"])], "labels": ["spam"]}
    kept = place.client.post(
        "/feedback", json=body | {"drawn": fields["drawn"]}, headers={"Idempotency-Key": fields["once"]}
    )
    assert kept.status_code == 201, kept.text
    assert len(statements) <= 10
    read = [each for each in statements if "models.report" in each.partition("FROM")[0]]
    assert len(read) <= 1  # its columns
    assert not [each for each in statements if "created_at DESC" in each or "alias_changes" in each]


def test_of_several_thresholds_the_page_shows_which_are_proven(place: Place) -> None:
    visitor, _, audit = begun(place, "several", several="1")
    with place.database.transaction() as session:
        assert session.get_one(JobRow, session.get_one(AuditRow, audit).job_id).request["thresholds"] == "curve"
    drawn(
        place,
        audit,
        thresholds=[{"threshold": 0.25, "called_positive": 120}, {"threshold": 0.125, "called_positive": 200}],
    )
    page = visitor.open(f"/ui/audits/{audit}")
    assert "of the 120 unlabelled rows that the model calls 'spam' by the threshold 0.25" in page.text
    answers = {"rows": [*range(1001, 1016)], "labels": ["spam"] * 15}
    place.client.post(f"/audits/{audit}/labels", json=answers).raise_for_status()
    page = visitor.open(f"/ui/audits/{audit}")
    assert "Further answers may prove the next threshold" in page.text
    assert "0.25 120 proven" in page.text
    assert "0.125 200 open" in page.text
    assert "row" in str(page.forms)  # one is asked for at once


@pytest.mark.parametrize(
    ("asked", "measure", "ends"),
    [
        ({"kind": "precision", "precision": "80"}, "precision", ("lowest", "highest")),
        ({"kind": "recall", "recall": "10"}, "recall", ("highest",)),
        ({"kind": "false_positive_rate", "lost": "90"}, "false_positive_rate", ("lowest",)),
    ],
)
def test_what_an_audit_has_proven_is_told_with_the_thresholds(
    place: Place, asked: dict[str, str], measure: str, ends: tuple[str, ...]
) -> None:
    alias = f"curve-{measure.replace('_', '-')}"
    visitor, _, audit = begun(place, alias, **asked)
    assert place.client.get(f"/models/{alias}/thresholds").json()["proven"] == []
    assert "Nothing on this curve is proven" in visitor.open(f"/ui/models/{alias}").text
    strata = [{"called": measure != "false_positive_rate", "rows": 200, "share": 1.0}]
    drawn(place, audit, 200, strata=strata)
    label = "ham" if measure == "false_positive_rate" else "spam"
    answers = {"rows": [*range(1001, 1061)], "labels": [label] * 60}
    place.client.post(f"/audits/{audit}/labels", json=answers).raise_for_status()
    found = place.client.get(f"/audits/{audit}").json()
    assert found["status"] == "proven"
    (part,) = place.client.get(f"/models/{alias}/thresholds").json()["proven"]
    threshold = found["pool"]["threshold"]
    assert part == {
        **{"measure": measure, "bound": found["verdict"]["bound"], "confidence": 0.9, "audit": audit},
        **{end: threshold if end in ends else None for end in ("lowest", "highest")},
    }
    page = visitor.open(f"/ui/models/{alias}")
    assert "Proven on this curve By the threshold 0.25" in page.text
    assert any(link.endswith(audit) for link in page.links)


@pytest.mark.parametrize(
    ("standing", "estimate", "threshold", "box"),
    [
        ("proven", 0.9, 0.25, "good"),
        ("proven", 0.7, 0.25, "bad"),  # the answers since speak against it
        ("refuted", 0.7, 0.25, "bad"),
        ("open", 0.9, 0.25, ""),
        ("proven", 0.9, 0.5, ""),  # of a threshold that does not decide
        ("refuted", 0.7, 0.5, ""),
    ],
)
def test_only_what_is_proven_of_the_threshold_in_use_stands_in_a_green_box(
    place: Place, standing: str, estimate: float, threshold: float, box: str
) -> None:
    alias = f"box-{standing}-{10 * estimate:g}-{100 * threshold:g}"
    visitor, _, audit = begun(place, alias)  # what is asked of the model has no target that this could prove
    drawn(place, audit, threshold=threshold)
    with place.database.transaction() as session:
        verdict = {"standing": standing, "bound": 0.8, "estimate": estimate, "decided_after": 20}
        row = session.get_one(AuditRow, audit)
        row.verdict, row.answered = verdict, 20
    (told,) = place.client.get(f"/models/{alias}").json()["audits"]
    assert told["contradicted"] == (standing == "proven" and estimate < 0.8)
    visitor.open(f"/ui/models/{alias}")
    (shown,) = re.findall(rf'<div class="note ([a-z]*)"><p>{standing.capitalize()} after', visitor.answer.text)
    assert shown == box
    is_refuted = standing == "refuted" and box == "bad"
    assert ("Refuted by an audit" in visitor.answer.text) == is_refuted
    # The lists say it too, as the call does.
    (listed,) = [each for each in place.client.get("/models?limit=100").json()["items"] if alias in each["aliases"]]
    assert listed["refuted_by"] == (audit if is_refuted else None)
    for path in ("/ui/models", "/ui"):
        visitor.open(path)
        (entry,) = [part for part in visitor.answer.text.split("<li>") if f">{alias}<" in part]
        assert ("Refuted by an audit" in entry) == is_refuted


def test_labels_prove_what_a_confidence_was_asked_for(place: Place) -> None:
    objective = {"kind": "recall", "target": 0.8, "confidence": 0.95}
    sure = {"level": "proven", "chance": 0.95, "confidence": 0.95, "bounds": {"recall": 0.8}, "sentence": "It holds."}
    model = place.model(objective=objective, promise=sure)
    (part,) = place.client.get(f"/models/{model}/thresholds").json()["proven"]
    assert part == {
        **{"measure": "recall", "bound": 0.8, "confidence": 0.95, "audit": None},
        **{"lowest": None, "highest": 0.25},
    }
    page = Visitor(place.client).open(f"/ui/models/{model}").text
    assert "By the threshold 0.25, and by each lower one, at least 80% is found of what is there" in page
    likely = place.model(objective=objective, promise=sure | {"level": "likely"})
    assert place.client.get(f"/models/{likely}/thresholds").json()["proven"] == []


def test_of_the_example_an_audit_says_what_is_true_and_of_other_data_nothing(place: Place) -> None:
    visitor, _, audit = begun(place, "known")
    drawn(place, audit, 3)
    known = "The example comes with what is true of its rows: this one is"
    assert known not in visitor.open(f"/ui/audits/{audit}").text
    sent = {"file": ("mine.csv", place.client.get("/example/tumours.csv").content)}
    example = place.client.post("/datasets", files=sent).raise_for_status().json()["id"]
    with place.database.transaction() as session:
        session.execute(text("UPDATE audit_rows SET row = row - 1000 WHERE audit_id = :id"), {"id": audit})
        session.get_one(AuditRow, audit).dataset_id = example
    truth = place.client.get("/example").json()["truth"]
    asked = place.client.get(f"/audits/{audit}/next?n=1").json()["items"][0]["row"]
    assert f"{known} {truth[asked]} ." in visitor.open(f"/ui/audits/{audit}").text


@pytest.mark.parametrize(("told", "is_long"), [(31, False), (130, True), (None, True)])
def test_an_audit_says_before_it_begins_how_long_it_takes(place: Place, told: int | None, is_long: bool) -> None:
    visitor, _, audit = begun(place, f"lasting-{told}".lower(), kind="recall", recall="95")
    drawn(place, audit, 140, expected_answers=told)
    page = visitor.open(f"/ui/audits/{audit}")
    assert ("It takes about" in page.text, "cannot be told beforehand." in page.text) == (
        (False, True) if told is None else (True, False)
    )
    assert ("That is long." in page.text) == is_long
    links = [link for link in page.links if "prove=precision" in link]
    assert len(links) == is_long
    for link in links:
        page = visitor.open(link.partition("#")[0])
        assert page.form("/audits")["fields"]["kind"] == "precision"
        assert "<details open><summary>Begin an audit" in visitor.answer.text


def test_an_answer_of_an_audit_is_changed_and_rows_are_put_off(place: Place) -> None:
    visitor, _, audit = begun(place, "changed")
    drawn(place, audit, 3)
    page = visitor.send(visitor.open(f"/ui/audits/{audit}"), "/answer", holding={"row": "1001"}, label="spam")
    assert "Row 1,001 is kept as spam" in page.text
    page = visitor.send(page, "/answer", holding={"row": "1001"}, label="ham")
    assert "Row 1,001 is kept as ham" in page.text
    found = place.client.get(f"/audits/{audit}").json()
    assert (found["answered"], found["corrected"]) == (1, 1)
    page = visitor.open(next(link for link in page.links if "after=2" in link))
    page = visitor.send(page, "/answer", holding={"row": "1003"}, label="spam")
    assert "Nothing else" in page.text
    page = visitor.open(next(link for link in page.links if link.endswith(audit)))
    visitor.send(page, "/answer", 422, holding={"row": "1002"}, label="eggs")
    visitor.at = f"/ui/audits/{audit}"
    assert "All rows have an answer" in visitor.send(page, "/answer", holding={"row": "1002"}, label="ham").text
    visitor.send(visitor.open(f"/ui/audits/{audit}"), "/delete")
    visitor.open(f"/ui/audits/{audit}", 404)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"precision": "0"}, "above 0"),
        ({"precision": "x"}, "should be a number"),
        ({"kind": "f1"}, "kind"),
        ({"kind": "cost", "at_most": ""}, "at_most"),
        ({"confidence": "100"}, "confidence"),
        ({"rows": "10001"}, "rows"),
        ({"dataset": "ds_none"}, "no such data set"),
    ],
)
def test_an_audit_that_cannot_be(place: Place, fields: dict[str, str], told: str) -> None:
    place.trained("wrong", queue=QUEUE)
    visitor = Visitor(place.client)
    asked = {
        "kind": "precision",
        "precision": "80",
        "confidence": "90",
        "rows": "40",
        "dataset": place.dataset,
    } | fields
    page = visitor.send(visitor.open("/ui/models/wrong/label"), "/audits", 422, **asked)
    assert told in page.text


def test_an_audit_of_a_cost_shows_what_a_row_costs_at_most(place: Place) -> None:
    promise = {"level": None, "chance": None, "confidence": 0.95, "bounds": {"cost": 0.8688}, "sentence": "It costs."}
    place.trained("costly", objective={"kind": "cost", "false_negative": 5, "false_positive": 1}, promise=promise)
    fields = Visitor(place.client).open("/ui/models/costly/label").form("/audits")["fields"]
    assert (fields["kind"], fields["at_most"]) == ("cost", "0.869")  # what can be counted on by the labels
    visitor, _, audit = begun(place, "priced", kind="cost", at_most="0.5")
    drawn(place, audit)
    page = visitor.send(visitor.open(f"/ui/audits/{audit}"), "/answer", holding={"row": "1001"}, label="spam")
    assert "Proved: a row costs at most" in page.text


def test_an_audit_whose_rows_could_not_be_drawn_says_why_and_where_to_go_on(place: Place) -> None:
    visitor, _, audit = begun(place, "failed")
    job = place.client.get(f"/audits/{audit}").json()["job"]
    with place.database.transaction() as session:
        error = orjson.dumps({"code": "no_rows", "message": "all rows have a label"}).decode()
        change = "UPDATE jobs SET status = 'failed', finished_at = now(), error = :error WHERE id = :id"
        session.execute(text(change), {"error": error, "id": job})
    page = visitor.open(f"/ui/audits/{audit}")
    assert "No rows could be drawn: all rows have a label" in page.text
    assert page.links[-2:] == ["../../ui/models/failed#threshold", "../../ui/models/failed/label#prove"]
    page = visitor.open("/ui/models/failed/label")
    assert "No rows could be drawn" in page.text
    assert "Rows are being drawn" not in page.text
    assert re.search(r"<details open><summary>Begin an audit", visitor.answer.text)
