"""The page on which a model is tried: rows, texts and mails are decided on as by the call, and shown as text."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import orjson
import pytest
from api_support import HAM, SPAM, text_model, tiny_model, upload
from pages_support import Place, Visitor

from service.datasets import repository
from solver.band import Band
from solver.evaluation import Sigmoid
from solver.features import MatrixData, MatrixFeatures
from solver.model_file import Model

pytestmark = pytest.mark.usefixtures("read_here")

HOSTILE = "<img src=https://evil.example/x onerror=alert(1)>\x1b[31m\u202e"
ABSTAIN = {
    **{"precision": 0.9, "lower": -0.7, "upper": 0.6, "rows": 10},
    "positive": {"label": "spam", "rows": 3, "right": 3, "reason": None},
    "negative": {"label": "ham", "rows": 5, "right": 5, "reason": None},
}


def sigmoid(model: Model) -> Model:
    return replace(model, decision=replace(model.decision, probability=Sigmoid(2.0, -1.0)))


def test_a_row_in_fields_is_decided_on_as_by_the_call(place: Place) -> None:
    model = place.model(sigmoid(tiny_model()))
    visitor = Visitor(place.client)
    page = visitor.open(f"/ui/models/{model}")
    (link,) = {link for link in page.links if link.endswith("/try")}
    page = visitor.send(visitor.open(link), "/try", holding={"way": "fields"}, **{"value-0": "41", "value-1": "clerk"})
    said = place.predicted(model, rows=[{"age": 41, "job": "clerk"}])
    assert said["label"] == "spam"
    assert f"Score {said['score']:.4g} Probability of spam {100 * said['probability']:.1f}%" in page.text
    assert "lies above the threshold" in page.text
    assert 'class="here"' in visitor.answer.text
    assert "all the same" not in page.text  # its probability lies above a half, too
    assert "Of 1,000 rows like the labelled ones, 0 score higher." in page.text
    # What was typed stays, to be changed.
    assert page.form("/try", way="fields")["fields"]["value-0"] == "41"
    # What is left empty is missing; what cannot be is said in the words of the call, and nothing is lost.
    page = visitor.send(page, "/try", holding={"way": "fields"}, **{"value-0": ""})
    assert "age missing" in page.text
    page = visitor.send(page, "/try", 422, holding={"way": "fields"}, **{"value-0": "many"})
    assert "column 'age'" in page.text
    assert "body." not in page.text
    assert page.form("/try", way="fields")["fields"]["value-1"] == "clerk"
    assert place.client.post(f"/ui/models/{model}/try", data={"way": "fields"}).status_code == 403


def test_a_row_that_is_flagged_below_a_half_says_why(place: Place) -> None:
    made = replace(tiny_model(), objective={"kind": "recall", "target": 0.95})
    made = replace(made, decision=replace(made.decision, probability=Sigmoid(0.01, -2.0)))
    model = place.model(made, objective=made.objective)
    page = Visitor(place.client).open(f"/ui/models/{model}/try?dataset={place.dataset}&row=33")
    said = place.predicted(model, rows=[{"age": 53, "job": "cook"}])
    assert (said["label"], said["probability"] < 0.5) == ("spam", True)
    assert (
        "lies above the threshold. The probability of “ spam ” is below 50% all the same: it is said from" in page.text
    )
    assert "as was asked: “It finds at least 95% of the “spam” rows" in page.text


def test_warnings_of_a_decision_are_shown(place: Place) -> None:
    model = place.model()
    visitor = Visitor(place.client)
    row = orjson.dumps({"age": 1e9, "job": "acrobat", "name": "Ann"}).decode()
    page = visitor.send(visitor.open(f"/ui/models/{model}/try"), "/try", holding={"way": "json"}, text=row)
    assert "ignored, because the model does not use them: name" in page.text
    assert visitor.answer.text.count('class="note"') > 1


@pytest.mark.parametrize("wrong", ["", "[]", "[1]", '"a"', '{"age": 1', '{"age": {}, "job": null}', "{}", "[" * 5000])
def test_json_that_is_no_row(place: Place, wrong: str) -> None:
    visitor = Visitor(place.client)
    page = visitor.open(f"/ui/models/{place.model()}/try")
    page = visitor.send(page, "/try", 422, holding={"way": "json"}, text=wrong)
    assert 'role="alert"' in visitor.answer.text
    assert page.form("/try", way="json")["fields"]["text"] == wrong


def test_a_row_of_a_data_set_is_decided_on_and_put_into_the_fields(place: Place) -> None:
    model = place.model(sigmoid(tiny_model()))
    visitor = Visitor(place.client)
    page = visitor.open(f"/ui/models/{model}/try?dataset={place.dataset}&row=33")
    said = place.predicted(model, rows=[{"age": 53, "job": "cook"}])
    assert f"Score {said['score']:.4g}" in page.text
    fields = page.form("/try", way="fields")["fields"]
    assert (fields["value-0"], fields["value-1"]) == ("53", "cook")
    assert [link for link in page.links if link.endswith("row=34")]
    for wrong, told in (
        (f"dataset={place.dataset}&row=60", "the data set has 60 rows"),
        (f"dataset={place.dataset}&row=-1", "a whole number from 0"),
        ("dataset=ds_none&row=1", "no data set has this id"),
    ):
        status = 404 if "none" in wrong else 422
        assert told in visitor.open(f"/ui/models/{model}/try?{wrong}", status).text
    other = upload(place.client, b"a,b\n1,2\n3,4\n")["id"]
    assert "lacks columns" in visitor.open(f"/ui/models/{model}/try?dataset={other}&row=0", 422).text
    visitor.open("/ui/models/nobodys/try", 404)


def test_an_undecided_row_is_shown_as_such(place: Place) -> None:
    made = sigmoid(tiny_model())
    made = replace(made, objective={"kind": "f1", "abstain": {"precision": 0.9}})
    made = replace(made, decision=replace(made.decision, band=Band(-0.7, 0.6)))
    model = place.model(made, objective=made.objective, abstain=ABSTAIN)
    visitor = Visitor(place.client)
    page = visitor.open(f"/ui/models/{model}/try?dataset={place.dataset}&row=15")
    assert place.predicted(model, rows=[{"age": 35, "job": "cook"}])["label"] is None
    assert "Undecided" in page.text
    assert "between the bounds" in page.text
    assert visitor.answer.text.count('class="mark bound"') == 2
    assert "above the upper bound" in visitor.open(f"/ui/models/{model}/try?dataset={place.dataset}&row=39").text


def test_a_text(place: Place) -> None:
    model = place.model(text_model(("body",)))
    visitor = Visitor(place.client)
    page = visitor.open(f"/ui/models/{model}/try")
    for given, label in ((SPAM, "spam"), (HAM, "ham")):
        page = visitor.send(page, "/try", holding={"way": "text"}, text=given)
        assert re.search(rf'<h2 id="said"><bdi>{label}</bdi></h2>', visitor.answer.text)
        assert page.form("/try", way="text")["fields"]["text"] == given
    assert "is empty" in visitor.send(page, "/try", 422, holding={"way": "text"}, text=" \n").text


def test_a_mail_is_read_as_by_the_call_and_loads_nothing(place: Place) -> None:
    model = place.model(text_model(("subject", "body")))
    visitor = Visitor(place.client)
    mail = (
        f"From: a@example.org\r\nSubject: {SPAM.split(',')[0]}\r\nContent-Type: text/html\r\n\r\n"
        f"<p>{SPAM}<img src=https://evil.example/beacon.gif><script>alert(1)</script>\r\n{HOSTILE}"
    )
    page = visitor.send(visitor.open(f"/ui/models/{model}/try"), "/try", holding={"way": "mail"}, text=mail)
    said = place.predicted(model, messages=[mail])
    assert f"Score {said['score']:.4g}" in page.text
    html = visitor.answer.text
    assert "<img" not in html
    assert "<script>alert" not in html
    assert page.inline == []
    assert f"subject {SPAM.split(',')[0]}" in page.text


def test_what_is_in_a_row_is_text_and_cut(place: Place) -> None:
    model = place.model(text_model(("body",)))
    content = f'body,label\n"{HOSTILE}{"x" * 1_000_000}",\nb,yes\n'.encode()
    dataset = upload(place.client, content)["id"]
    visitor = Visitor(place.client)
    page = visitor.open(f"/ui/models/{model}/try?dataset={dataset}&row=0")
    html = visitor.answer.text
    assert "<img" not in html
    assert "\u202e" not in html
    assert "\x1b" not in html
    assert "⟨U+202E⟩" in page.text
    assert "(1,000,0" in page.text
    assert len(html) < 50_000
    assert page.form("/try", way="text")["fields"]["text"] == ""  # too long to be changed there


def matrix_model() -> Model:
    made = tiny_model()
    return replace(made, features=MatrixFeatures().fit(MatrixData(np.eye(made.decision.support_vectors.shape[1]))))


def test_a_model_of_a_matrix_takes_json(place: Place) -> None:
    visitor = Visitor(place.client)
    page = visitor.open(f"/ui/models/{place.model(matrix_model())}/try")
    assert not [form for form in page.forms if form["fields"].get("way") == "fields"]
    page = visitor.send(page, "/try", holding={"way": "json"}, text='{"1": 0.5}')
    assert "Score" in page.text


def test_only_data_sets_that_fit_are_offered(place: Place) -> None:
    """The newest data set was offered, whatever columns the model needs."""
    model = place.model()
    other = upload(place.client, b"length,label\n1,ham\n2,spam\n", "others.csv")["id"]
    matrix = upload(place.client, b"1 1:0.5\n-1 2:1\n", "a.svm", format="svmlight")["id"]
    fitting = [each["id"] for each in place.client.get("/datasets", params={"fits": model}).json()["items"]]
    assert place.dataset in fitting
    assert not {other, matrix} & set(fitting)
    offered = Visitor(place.client).open(f"/ui/models/{model}/try").form("/try")["fields"]["dataset"]
    assert offered in fitting
    # A row of no data set in particular is one of that of the training.
    assert "lies above" in Visitor(place.client).open(f"/ui/models/{place.trained('rows')}/try?row=33").text
    # The menu begins with the data set of the training, which is chosen, whatever came after it.
    place.trained("first")
    newer = upload(place.client, b"age,job,label\n1,cook,ham\n2,clerk,spam\n", "newer.csv")["id"]
    visitor = Visitor(place.client)
    for path in ("try", "label"):
        visitor.open(f"/ui/models/first/{path}")
        (menu,) = re.findall(r'<select id="dataset".*?</select>', visitor.answer.text)
        options = re.findall(r'value="(ds_\w+)"( selected)?', menu)
        assert (options[0], (newer, "") in options) == ((place.dataset, " selected"), True)
    assert place.client.get("/datasets", params={"fits": "nobodys"}).status_code == 422
    fitting = place.client.get("/datasets", params={"fits": place.model(matrix_model())}).json()["items"]
    assert [each["id"] for each in fitting] == [matrix]


def test_older_data_sets_are_offered_where_the_newest_do_not_fit(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page said that no data set has the columns, where it had looked at the newest ones only."""
    alias = "older"
    place.trained(alias)
    upload(place.client, b"length,label\n1,ham\n2,spam\n", "newer.csv")
    monkeypatch.setattr(repository, "MOST_LOOKED_AT", 1)
    visitor = Visitor(place.client)
    for page in ("try", "label"):
        shown = visitor.open(f"/ui/models/{alias}/{page}")
        # that of the training is offered however old it is
        assert f'value="{place.dataset}"' in visitor.answer.text
        older = next(link for link in shown.links if "older=" in link)
        visitor.open(older)
        assert "No data set here has" not in visitor.answer.text
    model = place.model()  # of a training whose data set is gone
    shown = visitor.open(f"/ui/models/{model}/try")
    assert "None of the newest data sets here has the columns that this model needs." in shown.text
    for _ in range(50):
        links = [link for link in shown.links if "older=" in link]
        if place.dataset in visitor.answer.text:
            break
        shown = visitor.open(links[0])
    assert f'value="{place.dataset}"' in visitor.answer.text
    visitor.open(f"/ui/models/{model}/try?older=nonsense", 422)
