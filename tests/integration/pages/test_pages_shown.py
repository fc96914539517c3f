"""What the pages show and do, through real services; what people made of the data is shown as text."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from api_support import CSV, measures, report, set_status, store_model, train_body, upload
from pages_support import Place, Reader, Visitor
from sqlalchemy import text

from service import shown_text
from service.db.session import Database
from service.db.tables import DEFAULT_PROJECT
from service.models.shadows import BETWEEN
from service.pages import showing, static_files

pytestmark = pytest.mark.usefixtures("read_here")

HOSTILE = "<script>alert(1)</script>"
TURNED = "abc\u202etxt.exe"


def test_the_example_leads_on_to_a_training(client: httpx.Client) -> None:
    visitor = Visitor(client)
    page = visitor.send(visitor.open("/ui"), "/ui/example")
    assert "398" in page.text
    (train,) = {link for link in page.links if "/train" in link}
    at = visitor.at
    visitor.open(train.partition("?")[0])
    few = (
        "15 labelled 'malignant' rows are too few to promise recall 95%: even without an error among them it would hold"
    )
    assert few in Reader(visitor.answer.text).text
    assert few not in visitor.open(f"{visitor.at}?objective=recall&recall=80").text
    visitor.at = at
    page = visitor.open(train)
    asked = "Asked for: “Of what it flags, at least 75% is right.”"
    assert asked in page.text
    body = orjson.loads(page.form("/ui/train")["fields"]["request"])
    assert (body["target"], body["positive"], body["alias"]) == ("diagnosis", "malignant", "tumours")
    assert body["objective"] == {"kind": "precision", "target": 0.75}
    first = visitor.send(page, "/ui/train")
    assert "Waits for a worker" in first.text
    assert asked in first.text
    visitor.at = "/ui/datasets/x/train"
    visitor.send(page, "/ui/train")
    assert len(client.get("/jobs").json()["items"]) == 1  # pressing twice is pressing once
    assert "Waits for a worker" in visitor.open("/ui").text
    assert asked in visitor.open("/ui/jobs").text


def test_what_is_chosen_is_what_is_sent_and_what_curl_would_send(client: httpx.Client) -> None:
    dataset = upload(client, CSV.replace(b",\n", b",unsure\n"))
    visitor = Visitor(client)
    query = "target=label&positive=spam&objective=both&precision=90&recall=80.5&confidence=95&alias=filter&test=0"
    page = visitor.open(f"/ui/datasets/{dataset['id']}/train?{query}&algorithm=svm&unlabeled=unsure")
    said = orjson.loads(page.form("/ui/train")["fields"]["request"])
    assert said["objective"] == {"kind": "precision_recall", "precision": 0.9, "recall": 0.805, "confidence": 0.95}
    assert (said["alias"], said["algorithm"], said["test_fraction"]) == ("filter", "svm", 0.0)
    assert said["unlabeled"] == ["unsure"]
    assert '"recall": 0.805' in page.text
    for objective, rest in (
        ("f1", {}),
        ("recall", {"target": 0.95}),
        ("lost", {"at_most": 0.001}),
        ("cost", {"false_negative": 5, "false_positive": 1}),
    ):
        path = f"/ui/datasets/{dataset['id']}/train?target=label&positive=spam&objective={objective}&abstain=97.5"
        page = visitor.open(path)
        said = orjson.loads(page.form("/ui/train")["fields"]["request"])
        kind = "false_positive_rate" if objective == "lost" else objective
        assert said["objective"] == {"kind": kind, **rest, "abstain": {"precision": 0.975}}
    assert "get no label" in page.text
    assert re.search(r"spam \d+ rows", page.text)
    # What a method may be told.
    query = "target=label&positive=spam&algorithm=svm&param-C=0,5&param-kernel=linear&param-gamma=&param-eggs=1"
    page = visitor.open(f"/ui/datasets/{dataset['id']}/train?{query}")
    said = orjson.loads(page.form("/ui/train")["fields"]["request"])
    assert said["params"] == {"C": 0.5, "kernel": "linear"}
    page = visitor.open(f"/ui/datasets/{dataset['id']}/train?target=label&positive=spam&algorithm=svm&param-C=x")
    assert "C must be a number from 1e-06 to 1e+09" in page.text
    assert 'id="encoder"' not in visitor.answer.text
    # What cannot be is said, and there is no button.
    for wrong in ("objective=recall&recall=950", "objective=recall&recall=x", "objective=recall&alias=No%20Name"):
        page = visitor.open(f"/ui/datasets/{dataset['id']}/train?target=label&positive=spam&{wrong}")
        assert not [form for form in page.forms if form["action"].endswith("/ui/train")]
        assert '<button type="button" disabled aria-describedby="why-not">Train</button>' in visitor.answer.text
    # What a name may be is said without a pattern, and one like it is a link away.
    assert "small letters, digits and . _ - only, at most 63, such as my-model" in page.text
    (link,) = [link for link in page.links if "alias=no-name" in link]
    page = visitor.open(f"/ui/datasets/{dataset['id']}/train{link.partition('train')[2]}")
    assert orjson.loads(page.form("/ui/train")["fields"]["request"])["alias"] == "no-name"
    visitor.open(f"/ui/datasets/{dataset['id']}/train?target=%00", 400)


def test_an_upload_by_form_and_what_is_wrong_with_one(client: httpx.Client) -> None:
    visitor = Visitor(client)
    fields = visitor.open("/ui/datasets").form("/ui/datasets")["fields"]
    sent = {name: text for name, text in fields.items() if name != "file"}  # as a browser: empty fields, too
    made = client.post("/ui/datasets", data=sent, files={"file": ("mails.csv", CSV)})
    assert made.status_code == 303
    page = visitor.open(f"/ui/{made.headers['location'].rpartition('ui/')[2]}")
    assert {"age", "job", "label"} <= set(page.text.split())
    assert "20 … 79" in page.text or "20 … 59" in page.text
    wrong = client.post("/ui/datasets", data=sent, files={"file": ("mails.csv", b"a,b\n1,2,3\n")})
    assert wrong.status_code == 422
    assert 'role="alert"' in wrong.text
    unknown = client.post("/ui/datasets", data=sent, files={"file": ("what", b"a")})
    assert (unknown.status_code, 'data-option="format"' in unknown.text) == (422, True)


def test_a_file_of_windows_is_uploaded_by_form(client: httpx.Client) -> None:
    """The message named an option for which the form had no field."""
    content = b"Name;Betrag;label\n" + "".join(f"Müller{i};{i},5;{('ja', 'nein')[i % 2]}\n" for i in range(30)).encode(
        "cp1252"
    )
    visitor = Visitor(client)
    fields = visitor.open("/ui/datasets").form("/ui/datasets")["fields"]
    assert (fields["encoding"], fields["delimiter"]) == ("", "")
    assert "<details open>" not in visitor.answer.text
    token = {"form_token": fields["form_token"]}
    refused = client.post("/ui/datasets", data=token, files={"file": ("a.csv", content)})
    assert refused.status_code == 422
    assert "choose it under “Encoding” (many Windows files are cp1252)" in refused.text
    assert "Pick the file again" in refused.text
    assert "<details open>" in refused.text
    assert '<option value="cp1252">' in refused.text
    sent = token | {"encoding": "cp1252", "delimiter": ";", "format": "", "name": ""}
    made = client.post("/ui/datasets", data=sent, files={"file": ("a.csv", content)})
    assert made.status_code == 303, made.text
    assert "Müller" in visitor.open(f"/ui/{made.headers['location'].rpartition('ui/')[2]}").text
    table = client.post("/ui/datasets", data=token | {"delimiter": "\\t"}, files={"file": ("a.csv", b"a\tb\n1\t2\n")})
    assert table.status_code == 303, table.text
    for wrong in ({"encoding": "zlib"}, {"delimiter": "abc"}, {"encoding": "\ufffd" * 100}):
        answer = client.post("/ui/datasets", data=token | wrong, files={"file": ("a.csv", content)})
        assert answer.status_code == 422
        assert "<details open>" in answer.text
    lines = client.post("/ui/datasets", data=sent, files={"file": ("a.jsonl", b'{"a": 1}\n')})
    assert (lines.status_code, "unknown option for jsonl" in lines.text) == (422, True)


def test_what_the_page_of_a_data_set_advises_has_a_field_in_the_form(client: httpx.Client) -> None:
    visitor = Visitor(client)
    fields = visitor.open("/ui/datasets").form("/ui/datasets")["fields"]
    assert {"header", "decimal", "thousands", "missing", "quote", "escape", "trim"} <= fields.keys()

    def uploaded(content: str, **options: str) -> tuple[dict[str, Any], str]:
        sent = {"form_token": fields["form_token"], **options}
        made = client.post("/ui/datasets", data=sent, files={"file": ("a.csv", content.encode())})
        assert made.status_code == 303, made.text
        name = made.headers["location"].rpartition("/")[2]
        text = visitor.open(f"/ui/datasets/{name}").text
        return client.get(f"/datasets/{name}").json(), text

    content = "".join(f"{i % 9}.5,{('DE', 'FR')[i % 2]},{('NA', 'yes', 'no')[i % 3]}\n" for i in range(90))
    dataset, said = uploaded(content)
    assert [each["name"] for each in dataset["columns"]] == ["f0", "f1", "f2"]
    assert "The first line was read as a row" in said
    assert "upload again with “First line”: names the columns" in said
    assert "upload again with them under “Words for missing values”" in said
    dataset, _ = uploaded(content, header="true", missing="?, NA,")
    assert [each["name"] for each in dataset["columns"]] == ["0.5", "DE", "NA"]
    assert dataset["columns"][2]["missing"] == 29
    content = "a;b\n" + "".join(f"1.{i:03};{i},5\n" for i in range(30))
    dataset, _ = uploaded(content, decimal=",", thousands=".")
    assert [(each["kind"], each["max"]) for each in dataset["columns"]] == [("number", 1029), ("number", 29.5)]


def test_quotes_backslashes_and_blanks_are_said_in_the_form(client: httpx.Client) -> None:
    visitor = Visitor(client)
    token = {"form_token": visitor.open("/ui/datasets").form("/ui/datasets")["fields"]["form_token"]}
    style = {"escape": "\\", "quote": "'", "trim": "true"}
    made = client.post("/ui/datasets", data=token | style, files={"file": ("a.csv", b"a,b\n' x\\'y ', 1\n'z', 2\n")})
    assert made.status_code == 303, made.text
    dataset = client.get(f"/datasets/{made.headers['location'].rpartition('/')[2]}").json()
    assert dataset["columns"][0]["values"] == {"x'y": 1, "z": 1}
    assert {name: dataset["options"][name] for name in style} == style | {"trim": True}
    plain = client.post("/ui/datasets", data=token | {"quote": "none"}, files={"file": ("a.csv", b'a,b\n"x,1\n')})
    assert plain.status_code == 303, plain.text
    refused = client.post("/ui/datasets", data=token, files={"file": ("a.csv", b'a,b\n"x,y",1\n"u,2\n')})
    assert refused.status_code == 422
    assert "say under “Quotes” that they are characters like others" in refused.text
    assert 'data-option="quote"' in refused.text


def label_column(client: httpx.Client, content: str) -> str:
    """Upload a table, and return the column that the form of a training begins with."""
    dataset = upload(client, content.encode())
    page = Visitor(client).open(f"/ui/datasets/{dataset['id']}/train")
    return str(page.form("/train")["fields"]["target"])


@pytest.mark.parametrize(
    ("names", "cells", "target"),
    [
        # Half-filled before whole, also where the whole one has two values and it has three.
        ("sex,kind", lambda i: f"{'mf'[i % 2]},{('a', 'b', 'c', '', '', '', '')[i % 7]}", "kind"),
        # A few gaps are no sign of it.
        ("smoker,outcome", lambda i: f"{('yes', 'no', 'no')[i % 3] if i % 20 else ''},{'ab'[i % 2]}", "outcome"),
        # A column that is called so.
        ("sex,Class", lambda i: f"{'mf'[i % 2]},{'abc'[i % 3]}", "Class"),
        ("deck,is_target", lambda i: f"{'AB'[i % 2] if i % 4 == 0 else ''},{'yn'[i % 2]}", "is_target"),
        ("classy,label_1", lambda i: f"{'mf'[i % 2]},{'abc'[i % 3]}", "label_1"),
        # What numbers the rows, never changes, or has very many values holds no labels, whatever it is called.
        ("label,spam", lambda i: f"{i},{('yes', 'no', '', '')[i % 4]}", "spam"),
        ("label,spam", lambda i: f"same,{('yes', 'no', 'maybe')[i % 3]}", "spam"),
        # Only positive rows are labelled.
        ("sex,found", lambda i: f"{'mf'[i % 2]},{'yes' if i % 5 == 0 else ''}", "found"),
    ],
)
def test_the_form_begins_with_the_column_that_looks_like_labels(
    place: Place, names: str, cells: Callable[[int], str], target: str
) -> None:
    content = f"x,{names}\n" + "".join(f"{i * 0.37 % 1:.3f},{cells(i)}\n" for i in range(84))
    assert label_column(place.client, content) == target


def test_an_old_address_asks_for_what_it_asked_for(place: Place) -> None:
    model = place.model(objective={"kind": "precision", "target": 0.9})
    page = Visitor(place.client).open(f"/ui/models/{model}?kind=recall&target=80")
    assert "It finds at least 80% of the “spam” rows" in page.text
    assert page.form("/use")["fields"]["recall"] == "80"


def test_a_label_that_means_not_known_is_no_class_in_the_form(client: httpx.Client) -> None:
    rows = "".join(f"{i % 9},{('NA', 'yes', 'no', '')[i % 4]}\n" for i in range(80))
    dataset = upload(client, f"x,label\n{rows}".encode())
    visitor = Visitor(client)
    train = f"/ui/datasets/{dataset['id']}/train?target=label"
    page = visitor.open(f"{train}&tell=one")  # what is looked for is not what may mean 'not known', however rare
    assert "if so, tick NA under “A label that means ‘not known’”; if it is a class, give it another name" in page.text
    unfolded = "<details open><summary>A label that means"
    assert unfolded in visitor.answer.text  # type: ignore[union-attr]
    assert "20 of 80 rows have no label there" in page.text
    asked = re.compile('name="positive" value="(\\w+)"')
    assert asked.findall(visitor.answer.text) == ["NA", "no", "yes"]  # type: ignore[union-attr]
    page = visitor.open(f"{train}&unlabeled=NA")
    assert "40 of 80 rows have no label there" in page.text
    assert asked.findall(visitor.answer.text) == ["no", "yes"]  # type: ignore[union-attr]


def test_the_page_of_a_data_set_says_once_why_a_column_is_left_out(client: httpx.Client) -> None:
    rows = "".join(f"{i},{i % 7},{('ham', 'spam')[i % 2]}\n" for i in range(40))
    dataset = upload(client, f"n,age,label\n{rows}".encode())
    assert any("counts the rows" in each for each in dataset["warnings"])
    page = Visitor(client).open(f"/ui/datasets/{dataset['id']}")
    assert page.text.count("counts the rows") == 1
    assert "include" not in page.text


def numbers_of_rows(visitor: Visitor) -> list[int]:
    found = re.findall(r'<th scope="row" class="num"><a href="[^"]+">([\d,]+)</a></th>', visitor.answer.text)
    return [int(each.replace(",", "")) for each in found]


def test_rows_come_alone_for_who_scrolls_and_each_has_a_page(client: httpx.Client) -> None:
    lines = "".join(f'{i},"{HOSTILE}{"x" * 300 if i == 7 else ""}",ham\n' for i in range(130))
    dataset = upload(client, f"n,text,label\n{lines}".encode())
    visitor = Visitor(client)
    page = visitor.open(f"/ui/datasets/{dataset['id']}?part=rows&from=20")
    assert numbers_of_rows(visitor) == list(range(20, 70))
    assert "<html" not in visitor.answer.text
    assert "<script" not in visitor.answer.text
    page = visitor.open(page.links[0])
    assert "Row 20" in page.text
    assert HOSTILE in page.text
    assert "<script>alert" not in visitor.answer.text
    page = visitor.open(f"/ui/datasets/{dataset['id']}/rows/7")
    assert "x" * 300 in page.text
    assert {"6", "8"} <= {link.rpartition("/")[2] for link in page.links}
    for wrong, status in (("130", 422), ("-1", 422), ("x", 422), (str(2**63), 422)):
        visitor.open(f"/ui/datasets/{dataset['id']}/rows/{wrong}", status)
    matrix = upload(client, b"1 3:0.5 7:2\n-1 1:1\n" * 10, "a.svm", format="svmlight")
    assert "2 values that are not 0" in visitor.open(f"/ui/datasets/{matrix['id']}/rows/0").text


def test_a_mail_is_shown_as_one_and_loads_nothing(client: httpx.Client) -> None:
    mail = (
        "From win@example.net Sat Nov 28 03:30:00 2026\nFrom: win@example.net\nTo: anna@example.org\n"
        "Subject: <b>Prize</b>\nContent-Type: text/html\n\n"
        "<p>Claim it</p><img src=https://evil.example/x.png><script>alert(1)</script>\n\n"
    )
    dataset = upload(client, mail.encode() * 3, "mails.mbox")
    visitor = Visitor(client)
    page = visitor.open(f"/ui/datasets/{dataset['id']}/rows/0")
    assert "From win@example.net To anna@example.org" in page.text
    assert "Subject <b>Prize</b>" in page.text
    assert re.search(r'class="letter">\s*Claim it', visitor.answer.text), visitor.answer.text
    assert "<img" not in visitor.answer.text


def test_rows_go_on_page_by_page(client: httpx.Client) -> None:
    dataset = upload(client)
    visitor = Visitor(client)
    page = visitor.open(f"/ui/datasets/{dataset['id']}")
    assert numbers_of_rows(visitor) == list(range(25))
    (after,) = [link for link in page.links if "from=25" in link]
    visitor.open(after.partition("#")[0])
    visitor.open(f"/ui/datasets/{dataset['id']}?from=99999999999")
    assert numbers_of_rows(visitor) == [59]
    visitor.open(f"/ui/datasets/{dataset['id']}?columns=99999")
    assert visitor.answer.status_code == 200


def test_rows_and_spread_by_call(client: httpx.Client) -> None:
    dataset = upload(client)["id"]
    found = client.get(f"/datasets/{dataset}/rows", params={"first": 58, "limit": 5, "column": ["label", "age"]}).json()
    assert found["total"] == 60
    assert found["items"] == [{"label": "ham", "age": 38.0}, {"label": None, "age": 39.0}]
    assert client.get(f"/datasets/{dataset}/rows", params={"first": 60}).json()["items"] == []
    for wrong in ("no", "\0"):  # Postgres refuses the second one in a text
        assert client.get(f"/datasets/{dataset}/rows", params={"column": wrong}).status_code == 422
        assert client.get(f"/datasets/{dataset}/histograms", params={"column": wrong}).status_code in (200, 422)
    assert client.get(f"/datasets/{dataset}/rows", params={"characters": 2, "limit": 1}).json()["items"][0] == {
        "age": 20.0,
        "job": "cl…",
        "label": "sp…",
    }
    (spread,) = client.get(f"/datasets/{dataset}/histograms").json()["columns"]
    assert (spread["column"], spread["least"], spread["greatest"], sum(spread["counts"])) == ("age", 20, 59, 60)


def test_rows_of_a_matrix(client: httpx.Client) -> None:
    dataset = upload(client, b"1 1:0.5 3:2\n-1 2:1\n", "a.svm", format="svmlight")["id"]
    assert client.get(f"/datasets/{dataset}/rows").json()["items"] == [{"1": 0.5, "3": 2.0}, {"2": 1.0}]
    assert client.get(f"/datasets/{dataset}/histograms").json()["columns"] == []
    assert "1: 0.5, 3: 2" in Visitor(client).open(f"/ui/datasets/{dataset}").text


def test_what_is_in_data_is_text(client: httpx.Client) -> None:
    rows = "".join(
        f'{i},"{HOSTILE}","{TURNED}","\x1b[31mred","{"x" * 5000}",{("yes", "no", "")[i % 3]}\n' for i in range(40)
    )
    head = f'n,"<img src=x onerror=alert(2)>","{TURNED}",ansi,long,"label"\n'
    dataset = upload(client, (head + rows).encode(), name="<b>bold</b>.csv")["id"]
    visitor = Visitor(client)
    for path in ("/ui", "/ui/datasets", f"/ui/datasets/{dataset}", f"/ui/datasets/{dataset}/train"):
        page = visitor.open(path)
        html = visitor.answer.text
        assert page.inline == []
        for tag in (HOSTILE, "<img", "<b>"):
            assert tag not in html
        # A name may stand as it is where it is sent back and not read: in the value of a field.
        shown = re.sub(r'value="[^"]*"', "", html)
        assert "\u202e" not in shown
        assert "\x1b" not in html
        assert "x" * 300 not in html
    assert "⟨U+202E⟩" in Visitor(client).open(f"/ui/datasets/{dataset}").text
    assert HOSTILE in Visitor(client).open(f"/ui/datasets/{dataset}").text


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain", "plain"),
        ("a\u202eb\u2066c", "a⟨U+202E⟩b⟨U+2066⟩c"),
        ("\x1b[0m\x00", "␛[0m␀"),
        ("a\ud800", "a⟨U+D800⟩"),
        ("x" * 3000, "x" * 2000 + "…"),
    ],
)
def test_visible(given: str, shown: str) -> None:
    assert shown_text.visible(given) == shown


def test_a_kind_is_corrected(client: httpx.Client) -> None:
    dataset = upload(client)["id"]
    visitor = Visitor(client)
    page = visitor.open(f"/ui/datasets/{dataset}")
    visitor.send(page, "/kinds", column="age", kind="category")
    assert client.get(f"/datasets/{dataset}").json()["columns"][0]["kind"] == "category"
    visitor.send(page, "/kinds", 422, column="age", kind="colour")


def test_a_vector_column_says_its_length_and_has_no_menu(client: httpx.Client) -> None:
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(1, 91, dtype=np.float32)), 3)
    file = io.BytesIO()
    pq.write_table(pa.table({"vec": lists, "label": ["ham", "spam"] * 15}), file)
    dataset = upload(client, file.getvalue(), "mails.parquet")["id"]
    page = Visitor(client).open(f"/ui/datasets/{dataset}")
    assert "vector, 3 numbers" in page.text
    corrected = [form["fields"]["column"] for form in page.forms if form["action"].endswith("/kinds")]
    assert corrected == ["label"]
    # All rows have a label: nothing is said of those without.
    assert "count as unlabelled" not in Visitor(client).open(f"/ui/datasets/{dataset}/train?target=label").text
    other = upload(client)["id"]
    assert "20 of 60 rows have no label" in Visitor(client).open(f"/ui/datasets/{other}/train?target=label").text


def test_commands_in_hints_are_marked_and_the_rest_is_text() -> None:
    assert showing.hint("a <b> (`prefsvm <x>`)") == "a &lt;b&gt; (<code>prefsvm &lt;x&gt;</code>)"
    assert showing.hint("a ` b\u202e") == "a ` b⟨U+202E⟩"


def test_a_job_from_the_queue_to_its_end(client: httpx.Client, database: Database) -> None:
    job = client.post("/train", json=train_body(upload(client))).json()["id"]
    visitor = Visitor(client)
    page = visitor.open(f"/ui/jobs/{job}")
    assert 'http-equiv="refresh"' in visitor.answer.text
    assert "Cancelled" in visitor.send(page, "/cancel", keep_best="no").text
    assert 'http-equiv="refresh"' not in visitor.answer.text
    page = visitor.send(visitor.open(f"/ui/jobs/{job}"), "/retry")
    assert f"jobs/{job}" in str(page.links)
    other = visitor.at.rpartition("/")[2]
    set_status(database, other, "running")
    page = visitor.open(visitor.at)
    assert "Stop, and keep the best so far" in page.text
    assert "Is stopping" in visitor.send(page, "/cancel", keep_best="yes").text
    with database.transaction() as session:
        error = {"code": "too_few_labels", "message": HOSTILE}
        session.execute(
            text("UPDATE jobs SET status = 'failed', lease_until = NULL, finished_at = now(), error = :error"),
            {"error": orjson.dumps(error).decode()},
        )
    assert HOSTILE in visitor.open("/ui").text  # wants attention
    assert HOSTILE not in visitor.answer.text
    visitor.open("/ui/jobs/job_unknown", 404)


def test_what_became_of_a_retraining_stands_first(place: Place) -> None:
    before = place.model()
    said = f"later stays at {before}: it promises less"
    told = {"alias": "later", "policy": "if_not_worse", "moved": False, "model": before, "promise": None, "rows": None}
    model = place.trained("later", succession={**told, "sentence": said})
    visitor = Visitor(place.client)
    page = visitor.open("/ui/models/later")
    first = page.text.partition("Another threshold")[0]
    assert f"Beside the model before : {said}." in first
    assert "Since then later was pointed at this model." in first
    assert any(link.endswith(f"/ui/models/{before}") for link in page.links)
    job = place.client.get(f"/models/{model}").json()["job_id"]
    with place.database.transaction() as session:
        event = {"status": "succeeded", "alias": {"name": "later", "moved": False, "sentence": said}}
        added = (
            "INSERT INTO job_events (job_id, attempt, kind, data) VALUES (:job, 1, 'finished', CAST(:data AS jsonb))"
        )
        session.execute(text(added), {"job": job, "data": orjson.dumps(event).decode()})
    page = visitor.open(f"/ui/jobs/{job}")
    assert said in page.text.partition("What happened")[0]


def test_the_log_of_a_job_says_when_and_how_far_it_came(client: httpx.Client, database: Database) -> None:
    dataset = upload(client, CSV)
    job = client.post("/train", json=train_body(dataset)).json()["id"]
    set_status(database, job, "running")
    events = [("queued", {}, 0), ("started", {}, 3)]
    events += [
        ("progress", {"phase": phase, "progress": 0.1}, at) for phase, at in (("preparing", 4), ("features", 130))
    ]
    events.append(("finished", {"status": "cancelled"}, 7300))
    with database.transaction() as session:
        session.execute(text("DELETE FROM job_events"))
        session.execute(
            text(
                "INSERT INTO job_events (job_id, attempt, kind, data, created_at) SELECT id, attempt, :kind, "
                "CAST(:data AS jsonb), created_at + make_interval(secs => :after) FROM jobs"
            ),
            [{"kind": kind, "data": orjson.dumps(data).decode(), "after": after} for kind, data, after in events],
        )
        session.execute(text("UPDATE jobs SET status = 'cancelled', lease_until = NULL, finished_at = now()"))
    visitor = Visitor(client)
    page = visitor.open(f"/ui/jobs/{job}")
    for said in ("after 2 h Cancelled", "after 2 min Making features", "after 4 s Getting ready", "after 0 s Put into"):
        assert said in page.text
    states = re.findall(r'<li class="(\w*)">([\w ]+)</li>', visitor.answer.text)  # type: ignore[union-attr]
    assert dict(map(reversed, states)) | {"Making features": "next"} == dict(
        map(reversed, states)
    )  # it came no further
    assert [word for state, word in states if state == "done"] == ["Getting ready", "Reading the data"]
    assert any(link.endswith(f"/ui/datasets/{dataset['id']}") for link in page.links)
    assert dataset["name"] in page.text


def test_a_threshold_is_looked_at_used_and_undone(client: httpx.Client, database: Database, tmp_path: Path) -> None:
    model = store_model(database, tmp_path)
    client.put("/aliases/filter", json={"model": model}).raise_for_status()
    visitor = Visitor(client)
    page = visitor.open("/ui/models/filter")
    assert "Of 1,000 rows like the labelled ones: 500 flagged, 100 of them wrong, 0 missed." in page.text
    page = visitor.open("/ui/models/filter?kind=recall&recall=90")
    assert "It finds at least 90% of the “spam” rows" in page.text
    assert client.get(f"/models/{model}/operating-points").json()["items"] == []  # looking changes nothing
    page = visitor.send(page, "/use")
    assert client.get(f"/models/{model}").json()["operating_point"]["objective"]["target"] == 0.9
    assert "Back to the threshold 0.25 that of the training, for “The best balance" in page.text
    used = client.get(f"/models/{model}").json()["threshold"]
    page = visitor.send(page, "/undo")
    point = client.get(f"/models/{model}").json()["operating_point"]
    assert (point["objective"], point["threshold"]) == ({"kind": "f1"}, 0.25)
    assert f"Back to the threshold {used:g} the one before, for “It finds at least 90%" in page.text
    page = visitor.send(visitor.open("/ui/models/filter?kind=ham_loss&lost=2,5"), "/use")
    applied = client.get(f"/models/{model}").json()["operating_point"]["objective"]
    assert applied == {"kind": "ham_loss", "at_most": 0.025}
    assert "Of the good mails, it flags at most 2.5%" in page.text
    visitor.send(page, "/undo")
    for wrong in (
        "kind=ham_loss&lost=100",
        "kind=recall&recall=900",
        "kind=recall&recall=x",
        "kind=cost&missed=0&alarm=1",
        "kind=what",
        "kind=recall&recall=50&confidence=100",
    ):
        assert 'class="note bad"' in str(visitor.open(f"/ui/models/filter?{wrong}") and visitor.answer.text)
    visitor.open("/ui/models/nobodys", 404)


def test_use_says_which_threshold_it_will_be(client: httpx.Client, database: Database, tmp_path: Path) -> None:
    model = store_model(database, tmp_path)
    page = Visitor(client).open(f"/ui/models/{model}?kind=precision&precision=71.4")
    asked = {"objective": {"kind": "precision", "target": 0.714}}
    point = client.post(f"/models/{model}/operating-points", json=asked).json()
    flagged = (point["calibration"]["true_positives"] + point["calibration"]["false_positives"]) * 100
    told = f"The threshold that is chosen for this is {point['threshold']:g} : {flagged} of 1,000 rows lie above it."
    assert told in page.text


def test_the_threshold_under_the_handle_is_used_as_it_is_and_undone(place: Place) -> None:
    model = place.model()
    visitor = Visitor(place.client)
    page = visitor.open(f"/ui/models/{model}?kind=recall&recall=100&at=-2")
    assert "The threshold under the handle" in page.text
    assert (
        "It is -2 : 1000 of 1,000 rows lie above it. What is asked of the model stays: “The best balance" in page.text
    )
    page = visitor.send(page, "/use")
    point = place.client.get(f"/models/{model}").json()["operating_point"]
    assert (point["threshold"], point["objective"], point["picked"]) == (-2, {"kind": "f1"}, True)
    assert "The threshold was picked by hand; the next training chooses its own for this." in page.text
    # Another one, chosen for what is written; undone, the one that was picked decides again.
    page = visitor.send(visitor.open(f"/ui/models/{model}?kind=precision&precision=60&at="), "/use")
    assert place.client.get(f"/models/{model}").json()["operating_point"]["threshold"] != -2
    visitor.send(page, "/undo")
    point = place.client.get(f"/models/{model}").json()["operating_point"]
    assert (point["threshold"], point["objective"], point["picked"]) == (-2, {"kind": "f1"}, True)
    for wrong in ("-1.5", "x", "nan", "inf"):
        page = visitor.open(f"/ui/models/{model}?kind=precision&precision=40&at={wrong}")
        assert 'class="note bad"' in visitor.answer.text


ABSTAIN = {
    **{"precision": 0.9, "lower": -0.5, "upper": 0.6, "rows": 10},
    "positive": {"label": "spam", "rows": 3, "right": 2, "reason": None},
    "negative": {"label": "ham", "rows": 5, "right": 5, "reason": None},
}


def told_model(database: Database, folder: Path, **told: Any) -> str:
    """Store a model whose report says something else here and there."""
    model = store_model(database, folder)
    with database.transaction() as session:
        change = "UPDATE models SET report = report || CAST(:told AS jsonb) WHERE id = :id"
        session.execute(text(change), {"told": orjson.dumps(told).decode(), "id": model})
    return model


@pytest.fixture
def abstaining(client: httpx.Client, database: Database, tmp_path: Path) -> str:
    """Store a model that leaves rows undecided."""
    objective = {"kind": "f1", "abstain": {"precision": 0.9}}
    return told_model(database, tmp_path, objective=objective, abstain=ABSTAIN)


def test_a_model_that_abstains_goes_on_to_do_so(client: httpx.Client, abstaining: str) -> None:
    visitor = Visitor(client)
    page = visitor.open(f"/ui/models/{abstaining}?kind=recall&recall=90&abstain=0.51")
    assert "go on without a label, as they do now" in page.text
    visitor.send(page, "/use")
    point = client.get(f"/models/{abstaining}").json()["operating_point"]
    assert point["objective"] == {"kind": "recall", "target": 0.9, "abstain": {"precision": 0.9}}
    assert point["abstain"]["precision"] == 0.9
    for wrong in ("0.2", "x"):
        page = visitor.open(f"/ui/models/{abstaining}?kind=recall&recall=90")
        visitor.send(page, "/use", 422, abstain=wrong)


def test_the_page_of_a_model_that_abstains_counts_what_is_said(client: httpx.Client, abstaining: str) -> None:
    visitor = Visitor(client)
    page = visitor.open(f"/ui/models/{abstaining}")
    assert "(F1); rows that it is not sure enough of get no label" in page.text
    told = (
        "Of 1,000 rows like the labelled ones: 300 are called “ spam ”, 100 of them wrongly; "
        "500 are called “ ham ”, 0 of them wrongly; 200 are left undecided."
    )
    assert told in page.text
    assert "500 flagged" not in page.text
    assert "By the threshold alone, before rows are left undecided." in page.text
    assert visitor.answer.text.count('class="mark bound"') == 2


def exports(page: Reader) -> set[str]:
    return {link.rpartition("=")[2] for link in page.links if "/export?" in link}


def test_what_a_model_cannot_be_exported_as_is_said(
    client: httpx.Client, database: Database, tmp_path: Path, abstaining: str
) -> None:
    page = Visitor(client).open(f"/ui/models/{abstaining}")
    assert exports(page) == {"safetensors", "onnx"}
    assert "it leaves rows undecided" in page.text
    of_texts = told_model(database, tmp_path, columns=[{"name": "mail", "kind": "text", "length": None}])
    page = Visitor(client).open(f"/ui/models/{of_texts}")
    assert exports(page) == {"safetensors", "libsvm"}
    assert "ONNX cannot read texts and dates as it does ( “mail” )" in page.text


def test_what_the_unlabelled_rows_bought_needs_some(client: httpx.Client, database: Database, tmp_path: Path) -> None:
    control = {"threshold": -1.0, "calibration": measures(), "test": None}
    controls = {"plain_svm": control, "all_positive": control, "all_negative": control}
    counts = report()["rows"]
    for unlabelled, title in ((0, "Beside simpler methods"), (30, "What the unlabelled rows bought")):
        model = told_model(database, tmp_path, controls=controls, rows=counts | {"unlabelled": unlabelled})
        page = Visitor(client).open(f"/ui/models/{model}")
        assert title in page.text
        assert "Every row flagged" in page.text
        assert "all_positive" not in page.text
        assert ("What the unlabelled rows bought" in page.text) == (unlabelled > 0)


def test_figures_of_a_method_that_was_tried_are_not_called_those_of_this_model(
    client: httpx.Client, database: Database, tmp_path: Path
) -> None:
    """Test rows measured the model before they were learned, and `auto` took another method then."""
    controls = {"plain_svm": {"threshold": 0.0, "calibration": measures(), "test": measures()}}
    test = measures() | {"precision": {"value": 0.123, "low": 0.1, "high": 0.2}}
    for method, shown in (("lapsvm", False), (None, True)):
        refit = {"labelled": 10, "measured": 8, "method": method}
        model = told_model(database, tmp_path, controls=controls, test=test, refit=refit)
        page = Visitor(client).open(f"/ui/models/{model}")
        assert ("12.3%" in page.text) == shown
        assert "This model" in page.text
        assert ("before it learned them" in page.text) == shown


def test_a_job_shows_its_rounds_and_of_very_many_events_the_newest(client: httpx.Client, database: Database) -> None:
    job = client.post("/train", json=train_body(upload(client))).json()["id"]
    visitor = Visitor(client)
    visitor.open(f"/ui/jobs/{job}")
    assert 'id="rounds" data-live="off" aria-labelledby="rounds-head" hidden' in visitor.answer.text
    set_status(database, job, "running")
    rounds = (
        "INSERT INTO job_events (job_id, attempt, kind, data) SELECT :job, attempt, 'round', jsonb_build_object("
        "'phase', 'training', 'round', n, 'f1', 0.5, 'precision', CASE WHEN n % 2 = 0 THEN 0.25 END, 'progress', 0.5) "
        "FROM generate_series(1, :rounds) n, jobs WHERE id = :job"
    )
    with database.transaction() as session:
        session.execute(text(rounds), {"job": job, "rounds": 3000})
    page = visitor.open(f"/ui/jobs/{job}")
    assert 'aria-label="precision, f1 of each round"' in visitor.answer.text
    assert "Training: round 3000" in page.text
    assert "960 or more earlier events are not shown" in page.text
    newest = client.get(f"/jobs/{job}/events", params={"newest": True, "limit": 2}).json()["items"]
    assert [event["data"]["round"] for event in newest] == [2999, 3000]


def test_what_labelling_has_bought_and_what_drifts(place: Place) -> None:
    visitor = Visitor(place.client)
    counts = report()["rows"]
    for labelled in (10, 14, 30):
        model = place.trained("bought", rows=counts | {"labelled": labelled})
        shown = "What labelling has bought" in visitor.open("/ui/models/bought/label").text
        assert shown == (labelled > 10)
    assert "The last 3 models of bought" in visitor.open("/ui/models/bought/label").text
    # One that was asked for something else is not laid beside them.
    place.trained("bought", rows=counts | {"labelled": 40}, objective={"kind": "recall", "target": 0.9})
    assert "What labelling has bought" not in visitor.open("/ui/models/bought/label").text
    assert "It decided on no row in the last 30 days" in visitor.open(f"/ui/models/{model}").text
    counted = (
        "INSERT INTO model_statistics (project_id, model_id, day, threshold, rows, outside_range, positive, unseen) "
        "SELECT project_id, id, (now() AT TIME ZONE 'UTC')::date, 0.25, 200, 50, 20, '{\"job\": 20}' "
        "FROM models WHERE id = :id"
    )
    with place.database.transaction() as session:
        session.execute(text(counted), {"id": model})
    page = visitor.open(f"/ui/models/{model}")
    assert "decided on 200 rows, and flagged 10% of them ( 50% of the labelled rows). 25% were unlike" in (
        page.text.replace("(50", "( 50")
    )
    assert "in job 10% of the rows" in page.text
    assert visitor.answer.text.count("of the rows of each day") == 2


def test_what_a_program_reads_is_the_same_in_every_language(place: Place) -> None:
    """Numbers that people read follow their browser; what a form sends or a call says does not."""
    model = place.trained("languages", objective={"kind": "precision", "target": 0.805})
    visitor = Visitor(place.client)
    path = f"/ui/datasets/{place.dataset}/train?target=label&positive=spam&objective=recall&recall=80.5"
    pages = [f"/ui/models/{model}", f"/ui/models/{model}?kind=recall&recall=80.5", path, "/ui/models"]
    english = [visitor.open(page) for page in pages]
    assert visitor.answer.headers["vary"] == "Accept-Language"
    assert "at least 80.5%" in english[0].text
    place.client.headers["Accept-Language"] = "de-DE,de;q=0.9,en;q=0.8"
    german = [visitor.open(page) for page in pages]
    del place.client.headers["Accept-Language"]
    assert "at least 80,5 %" in german[0].text
    assert "80.5%" not in german[0].text
    # Also a number that stands in a template, whoever was the first to see that.
    assert "of 1,000 rows lie above" in english[1].text
    assert "of 1.000 rows lie above" in german[1].text

    def sent(form: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in form["fields"].items() if name not in ("once", "form_token")}

    for one, other in zip(english, german, strict=True):
        assert list(map(sent, one.forms)) == list(map(sent, other.forms))
    curl = [page.text.partition("curl ")[2].partition("Copy")[0] for page in (english[2], german[2])]
    assert curl[0] == curl[1] != ""
    assert '"target": 0.805' in curl[0]


def test_rows_unlike_the_training_want_attention(place: Place) -> None:
    counted = (
        "INSERT INTO model_statistics (project_id, model_id, day, threshold, rows, outside_range, positive, unseen) "
        "SELECT project_id, id, (now() AT TIME ZONE 'UTC')::date - :back, 0.25, :rows, :outside, 0, '{}' "
        "FROM models WHERE id = :id"
    )
    labelled = report()["rows"] | {"labelled": 400}
    for alias, rows, outside, back in (
        ("steady", 1000, 20, 0),
        ("strange", 1000, 200, 0),
        ("few", 50, 40, 0),
        ("long-ago", 1000, 200, 7),
    ):
        model = place.trained(alias, rows=labelled)
        with place.database.transaction() as session:
            session.execute(text(counted), {"id": model, "rows": rows, "outside": outside, "back": back})
    page = Visitor(place.client).open("/ui").text
    assert "Drift strange Of the 1,000 rows of the last 7 days, 20% were unlike its training." in page
    for alias in ("steady", "few", "long-ago"):
        assert f"Drift {alias}" not in page


def test_what_a_shadow_would_have_said(place: Place) -> None:
    place.trained("answers")
    shadow = place.model()
    model = place.client.get("/models/answers").json()["id"]
    place.client.put("/aliases/answers", json={"model": model, "shadow": shadow}).raise_for_status()
    visitor = Visitor(place.client)
    assert "Both have decided on no row yet." in visitor.open("/ui/models/answers").text
    counted = (
        "INSERT INTO shadow_statistics (project_id, alias, model_id, shadow_id, pairs, dropped, failed) VALUES "
        "(:project, 'answers', :model, :shadow, CAST(:pairs AS jsonb), 3, 0)"
    )
    pairs = orjson.dumps({f"ham{BETWEEN}ham": 90, f"ham{BETWEEN}spam": 10}).decode()
    with place.database.transaction() as session:
        told = {"project": DEFAULT_PROJECT, "model": model, "shadow": shadow, "pairs": pairs}
        session.execute(text(counted), told)
    page = visitor.open("/ui/models/answers")
    assert "it would have called 10 otherwise (10%). 3 rows it did not look at" in page.text.replace("( 10", "(10")
    assert "ham spam 10" in page.text
    assert any(link.endswith(shadow) for link in page.links)


def test_unlabelled_rows_have_their_scores_in_the_picture(place: Place) -> None:
    told = {"rows": 500, "measured": 400, "positive": 100, "share": 0.25, "labelled_share": 0.5}
    visitor = Visitor(place.client)
    visitor.open(f"/ui/models/{place.model(unlabelled=told)}")  # of a report of an older version
    assert "unlabelled rows are spread" not in visitor.answer.text
    scores = {"least": -1.0, "greatest": 1.0, "counts": [0, 400, 0, 0]}
    page = visitor.open(f"/ui/models/{place.model(unlabelled=told | {'scores': scores})}")
    assert "the dashed outline: how 400 unlabelled rows are spread" in page.text
    assert visitor.answer.text.count('class="line guide" d="M') == 1


def test_how_many_unlabelled_rows_a_threshold_calls_positive(place: Place) -> None:
    scores = {"least": -3.0, "greatest": 1.0, "counts": [100, 100, 100, 100]}
    told = {"rows": 400, "measured": 400, "positive": 77, "share": 0.1925, "labelled_share": 0.5, "scores": scores}
    model = place.model(unlabelled=told)
    visitor = Visitor(place.client)
    page = visitor.open(f"/ui/models/{model}")
    assert "Of the training’s 400 unlabelled rows it calls 77 “ spam ”." in page.text  # counted by the training
    page = visitor.open(f"/ui/models/{model}?kind=f1&at=-2")
    assert "rows lie above it. Of the training’s 400 unlabelled rows it calls about 300 “ spam ”." in page.text
    page = visitor.send(page, "/use")
    assert "missed. Of the training’s 400 unlabelled rows it calls about 300 “ spam ”." in page.text
    assert "unlabelled rows it calls" not in visitor.open(f"/ui/models/{place.model()}").text


def test_a_confidence_is_asked_for_by_a_link(place: Place) -> None:
    """Where the promise says that the labels there are may prove the target."""
    needs = {"random_labels": 0, "checked_rows": None}
    promise = {"level": "likely", "chance": 0.9, "confidence": 0.95, "bounds": {"recall": 0.8}, "sentence": "It may."}
    objective = {"kind": "recall", "target": 0.805}
    model = place.model(objective=objective, promise=promise | {"needs": needs})
    visitor = Visitor(place.client)
    page = visitor.open(f"/ui/models/{model}")
    assert "Ask for it with a confidence of 95%" in page.text
    page = visitor.open(next(link for link in page.links if "confidence=95" in link))
    assert "It finds at least 80.5% of the “spam” rows, with a confidence of 95%" in page.text
    visitor.send(page, "/use")
    asked = place.client.get(f"/models/{model}").json()["operating_point"]["objective"]
    assert asked == {"kind": "recall", "target": 0.805, "confidence": 0.95, "certificate": None, "abstain": None} or (
        asked == objective | {"confidence": 0.95}
    )
    for needed in (None, needs | {"random_labels": 5}):
        model = place.model(objective=objective, promise=promise | {"needs": needed})
        assert "Ask for it with a confidence" not in visitor.open(f"/ui/models/{model}").text


def test_what_is_looked_at_without_a_confidence_is_used_without_one(place: Place) -> None:
    model = place.model(objective={"kind": "recall", "target": 0.8, "confidence": 0.95})
    visitor = Visitor(place.client)
    page = visitor.open(f"/ui/models/{model}?kind=recall&recall=80&confidence=")
    visitor.send(page, "/use")
    asked = place.client.get(f"/models/{model}").json()["operating_point"]["objective"]
    assert (asked["target"], asked.get("confidence")) == (0.8, None)


def test_costs_of_thresholds_by_call(client: httpx.Client, database: Database, tmp_path: Path) -> None:
    model = store_model(database, tmp_path)
    plain = client.get(f"/models/{model}/thresholds").json()
    assert (plain["false_negative"], plain["points"][0]["cost"]) == (None, None)
    found = client.get(f"/models/{model}/thresholds", params={"false_negative": 5}).json()
    assert (found["false_negative"], found["false_positive"]) == (5, 1)
    curve = client.get(f"/models/{model}/curves/cost", params={"false_negative": 5}).json()["points"]
    costs = [point["cost"]["value"] for point in found["points"]]
    assert costs == [point["cost"] for point in curve] == [2.0, 0.1, 0.6]
    assert client.get(f"/models/{model}/thresholds", params={"false_negative": -1}).status_code == 422


def test_thresholds_by_call(client: httpx.Client, database: Database, tmp_path: Path) -> None:
    found = client.get(f"/models/{store_model(database, tmp_path)}/thresholds").json()
    assert [(point["true_positives"], point["false_positives"]) for point in found["points"]] == [
        (0, 0),
        (4, 1),
        (4, 6),
    ]
    assert [point["precision"] and point["precision"]["value"] for point in found["points"]] == [None, 0.8, 0.4]
    middle = found["points"][1]["recall"]
    assert middle["low"] < middle["value"] == 1.0
    assert (sum(found["scores"]["positive"]), sum(found["scores"]["negative"])) == (4, 6)
    assert (found["positives"], found["negatives"], found["threshold"]) == (4, 6, 0.25)


def test_a_name_moves_and_goes_back(client: httpx.Client, database: Database, tmp_path: Path) -> None:
    first, second = (store_model(database, tmp_path) for _ in range(2))
    visitor = Visitor(client)
    for page in ("/ui", "/ui/models"):  # without a name, both call a model by its id
        assert first in visitor.open(page).text
    for model in (first, second):
        visitor.send(visitor.open(f"/ui/models/{model}"), "/alias", alias="filter")
    assert visitor.at == "/ui/models/filter"
    # Also from the page to which the training has led, whose address is that of the model.
    page = visitor.open(f"/ui/models/{second}")
    assert f"Point filter back at the model before that is {first} , made just now of 10 labelled rows" in page.text
    assert client.get("/aliases/filter").json()["before"] == first
    visitor.send(page, "/rollback")
    assert visitor.at == "/ui/models/filter"
    assert client.get("/aliases/filter").json()["model_id"] == first
    assert client.get("/aliases/filter").json()["before"] is None
    assert "back at the model before" not in visitor.open("/ui/models/filter").text
    visitor.send(visitor.open(f"/ui/models/{first}"), "/alias", 422, alias="No Name")
    assert "filter" in visitor.open("/ui").text


READ = (
    *(
        ("ink", "paper"),
        ("ink", "card"),
        ("quiet", "paper"),
        ("quiet", "card"),
        ("accent", "card"),
        ("accent", "paper"),
    ),
    *(
        ("accent-ink", "accent"),
        ("accent", "accent-soft"),
        ("good", "good-soft"),
        ("fair", "fair-soft"),
        ("ink", "line"),
    ),
    *(("bad", "bad-soft"), ("bad", "card"), ("ink", "fair-soft"), ("ink", "bad-soft"), ("ink", "good-soft")),
)
SEEN = (("focus", "paper"), ("focus", "card"), ("bar", "card"), ("bar-other", "card"))
"""WCAG 2.2 AA: 4.5 for what is read, 3 for what is seen."""


@pytest.mark.parametrize("place", [0, 1], ids=["light", "dark"])
def test_colours_have_contrast(place: int) -> None:
    block = re.findall(r":root \{(.*?)\}", (static_files.FOLDER / "pages.css").read_text(), re.DOTALL)[place]
    colours = dict(re.findall(r"--([\w-]+): #([0-9a-f]{6})", block))

    def luminance(name: str) -> float:
        parts = [int(colours[name][at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for pairs, least in ((READ, 4.5), (SEEN, 3.0)):
        for pair in pairs:
            dark, light = sorted(map(luminance, pair))
            assert (light + 0.05) / (dark + 0.05) >= least, pair


def test_pages_of_very_many_columns_show_any_part_of_them(client: httpx.Client) -> None:
    names = [*(f"gene_{number}" for number in range(2_500)), "a label"]
    values = "".join("\n" + ",".join([*"7" * 2_500, ("ham", "spam")[row % 2]]) for row in range(4))
    answer = client.post("/datasets", params={"format": "csv"}, content=",".join(names) + values)
    place = f"/ui/datasets/{answer.json()['id']}"
    visitor = Visitor(client)
    last = visitor.open(f"{place}?columns=9999").text
    assert "a label" in last
    assert "gene_2499" not in last
    assert "2,501" in last
    assert "gene_2490" in visitor.open(f"{place}?columns=2480").text
    for query in ("", "?target=a label"):  # it looks most like labels
        said = orjson.loads(visitor.open(f"{place}/train{query}").form("/ui/train")["fields"]["request"])
        assert said["target"] == "a label"
