"""Every algorithm through the service: what POST /train refuses by name, and a whole path from upload to prediction."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from typing import Any

import numpy as np
import pytest
from api_support import counts, store_dataset, train_body, upload
from sqlalchemy import select

from service.db.tables import DEFAULT_PROJECT, DatasetRow, JobRow, ModelChunkRow, ModelRow
from service.identifiers import new_id
from solver.algorithms import ALGORITHMS, ParamError, validate_params
from worker import fit
from worker.protocol import MODEL_FILE, JobSpec, Reporter

pytestmark = pytest.mark.usefixtures("read_here")

WRONG = {"number": ["1", True, None, [], 1e300], "integer": [0.5, "1", True, [], 1e300], "choice": ["nope", 1, []]}
COST = {"kind": "cost", "false_negative": 5.0, "false_positive": 1.0}


def refused(response) -> list[str]:
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return [error["field"] for error in response.json()["errors"]]


def test_one_wrong_parameter_of_any_algorithm_is_named(client, database):
    """What several algorithms have alike is asked of one of them; what is refused of each, its table says."""
    dataset = store_dataset(database)
    asked = set()
    for algorithm in ALGORITHMS:
        body = train_body(dataset, algorithm=algorithm, params={})
        assert client.post("/train?dry_run=true", json=body).status_code == 200
        for parameter in ALGORITHMS[algorithm].parameters:
            wrong = [value for value in WRONG[parameter.type] if not (value is None and parameter.nullable)]
            if parameter.minimum is not None:
                wrong.append(parameter.minimum - 1)
            for value in wrong:
                with pytest.raises(ParamError, match=parameter.name):
                    validate_params(algorithm, {parameter.name: value})
                if (parameter, repr(value)) in asked:
                    continue
                asked.add((parameter, repr(value)))
                response = client.post("/train", json=body | {"params": {parameter.name: value}})
                assert refused(response) == [f"body.params.{parameter.name}"], (algorithm, value, response.text)
                assert parameter.name in response.json()["errors"][0]["message"]
        assert refused(client.post("/train", json=body | {"params": {"Gamma": 1}})) == ["body.params.Gamma"]
    assert counts(database, "jobs") == [0]


def test_a_wrong_objective_of_any_algorithm_is_named(client, database):
    wrong = [({"kind": "auc", "target": 0.9}, "body.objective")]
    wrong += [
        (COST | {name: cost}, f"body.objective.cost.{name}")
        for cost in (0, -1)
        for name in ("false_negative", "false_positive")
    ]
    for target in (0, -0.1, 1.01, None):
        wrong += [
            ({"kind": kind, "target": target}, f"body.objective.{kind}.target") for kind in ("precision", "recall")
        ]
        both = {"kind": "precision_recall", "precision": 0.9, "recall": target}
        wrong.append((both, "body.objective.precision_recall.recall"))
    for kind, at_most in (("ham_loss", 0), ("ham_loss", 1), ("false_positive_rate", "0,1 %"), ("ham_loss", None)):
        wrong.append(({"kind": kind, "at_most": at_most}, f"body.objective.{kind}.at_most"))
    dataset = store_dataset(database)
    for algorithm in ALGORITHMS:
        body = train_body(dataset, algorithm=algorithm, params={})
        for objective, field in wrong:
            response = client.post("/train", json=body | {"objective": objective})
            assert refused(response) == [field], (objective, response.text)
    assert counts(database, "jobs") == [0]


def test_a_threshold_rule_that_does_not_go_with_the_objective_is_named(client, database):
    dataset = store_dataset(database)
    for rule, objective in (("paper", COST), ("lcb", {"kind": "f1"}), ("fixed-sequence", COST)):
        for algorithm in ALGORITHMS:
            body = train_body(dataset, algorithm=algorithm, params={"threshold_rule": rule}, objective=objective)
            assert refused(client.post("/train", json=body)) == ["body.params.threshold_rule"]
    good = train_body(dataset, params={"threshold_rule": "lcb"}, objective={"kind": "recall", "target": 0.9})
    assert client.post("/train", json=good).status_code == 202


def table(positive: int, negative: int, unlabelled: int) -> bytes:
    """A CSV of rows with these labels; age and job tell the classes apart."""
    rng = np.random.default_rng(0)
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["age", "weight", "job", "label"])
    labels = ["spam"] * positive + ["ham"] * negative + [""] * unlabelled
    for number, label in enumerate(labels):
        high = label == "spam" or (label == "" and number % 2 == 0)
        rows.writerow([30 + 20 * high + 5 * rng.normal(), rng.normal(), ("cook", "clerk")[high], label])
    return text.getvalue().encode()


class ReporterToNobody(Reporter):
    """There is no supervisor that would answer."""

    def ask(self, kind: str, **fields: Any) -> dict[str, Any] | None:  # noqa: ARG002
        return None


@pytest.fixture
def trained_by_worker(client, database, settings, tmp_path):
    """Uploads a table, enqueues a training of it through the API and does what a worker's child does with the job."""

    def train(algorithm: str, content: bytes, **params):
        body = train_body(upload(client, content), algorithm=algorithm, params=params, objective=COST)
        response = client.post("/train", json=body)
        assert response.status_code == 202, response.text
        with database.transaction() as session:
            row = session.get_one(JobRow, response.json()["id"])
            dataset = session.scalars(select(DatasetRow).where(DatasetRow.id == row.dataset_id)).one()
            job = JobSpec(
                job_id=row.id, attempt=1, request=row.request, layout=dataset.layout,
                columnar_key=dataset.columnar_key, blob_location=settings.blob_location, scratch=str(tmp_path),
            )  # fmt: skip
        sink = os.open(os.devnull, os.O_WRONLY)
        try:
            result = fit.run(job, ReporterToNobody(sink))
        finally:
            os.close(sink)
        raw = (tmp_path / MODEL_FILE).read_bytes()
        model_id = new_id("mdl")
        with database.transaction() as session:
            session.add(
                ModelRow(project_id=DEFAULT_PROJECT,
                    id=model_id, job_id=job.job_id, algorithm=result.algorithm, manifest=result.manifest,
                    report=result.report, bytes=len(raw), sha256=hashlib.sha256(raw).hexdigest(),
                )
            )  # fmt: skip
            session.flush()
            session.add(ModelChunkRow(model_id=model_id, seq=0, data=raw))
        return model_id

    return train


def test_what_cannot_be_learned_from_is_refused_at_once(client):
    one_class, one_positive, all_labelled = (
        upload(client, table(*rows)) for rows in ((10, 0, 10), (1, 10, 10), (10, 10, 0))
    )
    for algorithm in ALGORITHMS:
        told = [(one_positive, "body.positive")]  # by the profile
        if ALGORITHMS[algorithm].needs_negatives:
            told.append((one_class, "body.target"))
        for dataset, field in told:
            body = train_body(dataset, algorithm=algorithm, params={}, objective=COST)
            assert refused(client.post("/train", json=body)) == [field], algorithm
        if ALGORITHMS[algorithm].needs_unlabelled:
            body = train_body(all_labelled, algorithm=algorithm, params={}, objective=COST)
            assert refused(client.post("/train", json=body)) == ["body.algorithm"], algorithm


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_from_a_tiny_table_to_a_report_curves_and_predictions(client, trained_by_worker, algorithm):
    # the method's own model, not the one without unlabelled rows that so few rows would have put in its place
    params = {"mode": "method"} if ALGORITHMS[algorithm].needs_unlabelled else {}
    # of so few rows the probabilities are timid, and by a cost they call a row positive that is none
    params |= {"threshold_rule": "f1max"}
    model = trained_by_worker(algorithm, table(10, 12, 20), **params)
    answer = client.get(f"/models/{model}")
    assert answer.status_code == 200, answer.text
    report = answer.json()["report"]
    assert report["algorithm"] == algorithm
    assert report["rows"]["unlabelled"] == 20
    assert {"no_unlabelled", "plain_svm", "all_positive", "all_negative"} <= report["controls"].keys()
    assert all(control["calibration"]["n"] == 22 for control in report["controls"].values())
    assert (report["comparison"] is not None) == ALGORITHMS[algorithm].needs_unlabelled
    rows = [{"age": 50, "weight": 0, "job": "clerk"}, {"age": 30, "weight": 0, "job": "cook"}]
    answer = client.post("/predict", json={"model": model, "rows": rows})
    assert answer.status_code == 200, answer.text
    assert [prediction["label"] for prediction in answer.json()["predictions"]] == ["spam", "ham"]
    assert client.get(f"/models/{model}/curves/pr").status_code == 200
    retuned = client.post(f"/models/{model}/operating-points", json={"objective": {"kind": "f1"}})
    assert retuned.status_code == 200, retuned.text
    assert 0 <= retuned.json()["calibration"]["f1"]["value"] <= 1
