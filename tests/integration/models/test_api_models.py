"""``/models``, ``/aliases`` and ``/predict`` on the real application, with model files as a worker writes them."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from api_support import api_client, counts, problem, report, store_model, tiny_model
from sqlalchemy import event, text

from service.db.tables import DEFAULT_PROJECT
from service.models.repository import AliasRepository
from service.predictions.schemas import PredictAnswer
from solver.report import Report

ROWS = [{"age": 20, "job": "clerk"}, {"age": 50.5, "job": "cook"}]


def test_show_list_delete(client, database, tmp_path):
    made = [store_model(database, tmp_path) for _ in range(3)]
    client.put("/aliases/b", json={"model": made[0]})
    client.put("/aliases/a", json={"model": made[0]})
    shown = client.get(f"/models/{made[0]}").json()
    assert shown["aliases"] == ["a", "b"]
    assert (shown["algorithm"], shown["status"], shown["threshold"]) == ("svm", "met", 0.25)
    assert "curve" not in shown["report"]
    assert shown["columns"] == [
        {"name": "age", "kind": "number", "length": None},
        {"name": "job", "kind": "category", "length": None},
    ]
    stored = Report.from_dict(report()).to_dict()
    del stored["curve"], stored["columns"], stored["queue"], stored["rows"]["feedback"]
    assert shown["report"] == stored
    page = client.get("/models", params={"limit": 2}).json()
    rest = client.get("/models", params={"cursor": page["next_cursor"]}).json()
    assert [model["id"] for model in page["items"] + rest["items"]] == made[::-1]
    assert rest["items"][0] == {name: part for name, part in shown.items() if name in rest["items"][0]}
    assert "a points" in problem(client.delete(f"/models/{made[0]}"), 409, "model-in-use")["detail"]
    assert client.delete(f"/models/{made[1]}").status_code == 204
    problem(client.get(f"/models/{made[1]}"), 404, "model-not-found")
    problem(client.delete(f"/models/{made[1]}"), 404, "model-not-found")
    assert counts(database, "models") == [2]
    with database.transaction() as session:
        left = session.execute(text("SELECT count(DISTINCT model_id) FROM model_chunks")).scalar_one()
    assert left == 2
    for unknown in ("mdl_" + "0" * 32, "x", "%00", "c"):
        for path in (f"/models/{unknown}", f"/models/{unknown}/curves/pr"):
            problem(client.get(path), 404, "model-not-found")


def test_what_an_alias_points_at_is_shown_and_tuned(client, database, tmp_path):
    first, second = (store_model(database, tmp_path) for _ in range(2))
    for model in (first, second):
        client.put("/aliases/spam-filter", json={"model": model})
        assert client.get("/models/spam-filter").json() == client.get(f"/models/{model}").json()
        for part in ("curves/pr", "card", "drift", "operating-points", "export", "export?format=libsvm"):
            by_alias, by_id = (client.get(f"/models/{name}/{part}") for name in ("spam-filter", model))
            assert by_alias.status_code == 200, by_alias.text
            assert by_alias.content == by_id.content
            assert by_alias.headers.get("content-disposition") == by_id.headers.get("content-disposition")
    body = {"objective": {"kind": "recall", "target": 1}, "apply": True}
    applied = client.post("/models/spam-filter/operating-points", json=body)
    assert applied.status_code == 200, applied.text
    assert [len(client.get(f"/models/{model}/operating-points").json()["items"]) for model in (first, second)] == [0, 1]
    problem(client.delete("/models/spam-filter"), 409, "model-in-use")


def test_aliases_move_and_roll_back(client, database, tmp_path):
    a, b, c, d = (store_model(database, tmp_path) for _ in range(4))

    def put(model: str) -> None:
        response = client.put("/aliases/spam-filter", json={"model": model})
        assert response.status_code == 200, response.text
        assert response.json()["model_id"] == model

    def roll_back() -> str:
        response = client.post("/aliases/spam-filter/rollback")
        assert response.status_code == 200, response.text
        return response.json()["model_id"]

    problem(client.post("/aliases/spam-filter/rollback"), 404, "alias-not-found")
    put(a)
    problem(client.post("/aliases/spam-filter/rollback"), 409, "nothing-to-roll-back")
    put(b)
    put(c)
    put(c)
    assert roll_back() == b
    assert roll_back() == a
    problem(client.post("/aliases/spam-filter/rollback"), 409, "nothing-to-roll-back")
    put(d)
    assert roll_back() == a
    put(b)
    put(d)
    assert client.delete(f"/models/{b}").status_code == 204
    assert roll_back() == a
    assert counts(database, "alias_changes") == [11]
    assert client.get("/aliases").json()["items"][0]["model_id"] == a
    shown = client.get("/aliases/spam-filter").json()
    (listed,) = client.get("/aliases").json()["items"]
    assert shown == listed | {"history": shown["history"], "before": None}
    moves = [(move["model_id"], move["rollback"]) for move in shown["history"]]
    newest = [(a, True), (d, False), (b, False), (a, True), (d, False), (a, True), (b, True), (c, False), (c, False)]
    assert moves == [*newest, (b, False), (a, False)]
    assert client.get("/aliases/spam-filter?limit=2").json()["history"] == shown["history"][:2]
    for nobodys in ("other", "%00", "mdl_x"):
        problem(client.get(f"/aliases/{nobodys}"), 404, "alias-not-found")


def test_the_way_back_of_an_alias_takes_few_questions_however_often_it_was_moved(client, database, tmp_path):
    gone, model = (store_model(database, tmp_path) for _ in range(2))
    for each in (gone, model):
        assert client.put("/aliases/spam-filter", json={"model": each}).status_code == 200
    assert client.delete(f"/models/{gone}").status_code == 204
    with database.transaction() as session:  # a schedule that points it at the same model, and at one that is gone
        session.execute(
            text(
                "INSERT INTO alias_changes (project_id, name, model_id) SELECT project_id, name, model_id"
                " FROM (SELECT * FROM alias_changes ORDER BY id) AS moves, generate_series(1, 20)"
            )
        )
    asked: list[str] = []

    def note(*told) -> None:
        asked.append(told[2])

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        with database.transaction() as session:
            assert AliasRepository(session, DEFAULT_PROJECT).before_last_move("spam-filter") is None
    finally:
        event.remove(database.engine, "before_cursor_execute", note)
    assert sum("alias_changes" in each for each in asked) <= 2


def test_deleting_an_alias_frees_its_models_and_forgets_its_moves(client, database, tmp_path):
    first, second = (store_model(database, tmp_path) for _ in range(2))
    for model in (first, second):
        assert client.put("/aliases/spam-filter", json={"model": model}).status_code == 200
    assert client.put("/aliases/other", json={"model": first, "shadow": second}).status_code == 200
    problem(client.delete(f"/models/{second}"), 409, "model-in-use")
    for alias in ("spam-filter", "other"):
        assert client.post("/predict", json={"model": alias, "rows": ROWS}).status_code == 200
        assert client.delete(f"/aliases/{alias}").status_code == 204
        problem(client.post("/predict", json={"model": alias, "rows": ROWS}), 404, "model-not-found")
        problem(client.delete(f"/aliases/{alias}"), 404, "alias-not-found")
    problem(client.delete("/aliases/%00"), 404, "alias-not-found")
    assert client.delete(f"/models/{second}").status_code == 204
    # A name that is used again has no past.
    assert client.put("/aliases/spam-filter", json={"model": first}).status_code == 200
    problem(client.post("/aliases/spam-filter/rollback"), 409, "nothing-to-roll-back")
    assert len(client.get("/aliases/spam-filter").json()["history"]) == 1


def test_aliases_are_checked_and_listed_by_name(client, database, tmp_path):
    model = store_model(database, tmp_path)
    for name in ("z", "a-1", "m.2", "0", "x" * 63):
        assert client.put(f"/aliases/{name}", json={"model": model}).status_code == 200
    page = client.get("/aliases", params={"limit": 3}).json()
    rest = client.get("/aliases", params={"limit": 3, "cursor": page["next_cursor"]}).json()
    assert [alias["name"] for alias in page["items"] + rest["items"]] == ["0", "a-1", "m.2", "x" * 63, "z"]
    assert rest["next_cursor"] is None
    for bad in ("A", "-a", "x" * 64, "a%20b", "mdl_x", "a%0A", "%00", "%C3%A4"):
        problem(client.put(f"/aliases/{bad}", json={"model": model}), 422, "invalid-request")
    for bad in ("mdl_" + "0" * 32, "a-1", ""):
        problem(client.put("/aliases/ok", json={"model": bad}), 422, "invalid-request")
    for bad in ("%%%", "AA", "_w", "x" * 600):
        problem(client.get("/aliases", params={"cursor": bad}), 422, "invalid-request")
    problem(client.post("/aliases/%00/rollback"), 404, "alias-not-found")


def test_predict_by_id_and_by_alias(client, database, tmp_path):
    model = store_model(database, tmp_path)
    answer = client.post("/predict", json={"model": model, "rows": ROWS})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert (body["model"], body["threshold"], body["warnings"]) == (model, 0.25, [])
    PredictAnswer.model_validate(body)
    known = tiny_model()
    data, _ = known.parse_rows(ROWS)
    scores = known.predict(data).scores.tolist()
    assert [prediction["score"] for prediction in body["predictions"]] == scores
    assert [prediction["label"] for prediction in body["predictions"]] == ["ham", "spam"]
    assert all((p["score"] > 0.25) == (p["label"] == "spam") for p in body["predictions"])
    problem(client.post("/predict", json={"model": "now", "rows": ROWS}), 404, "model-not-found")
    client.put("/aliases/now", json={"model": model})
    assert client.post("/predict", json={"model": "now", "rows": ROWS}).json() == body
    other = store_model(database, tmp_path, tiny_model(threshold=100.0))
    client.put("/aliases/now", json={"model": other})
    moved = client.post("/predict", json={"model": "now", "rows": ROWS}).json()
    assert (moved["model"], {p["label"] for p in moved["predictions"]}) == (other, {"ham"})
    many = client.post("/predict", json={"model": "now", "rows": ROWS * 500}).json()
    assert many["predictions"] == moved["predictions"] * 500
    assert client.delete(f"/models/{model}").status_code == 204
    problem(client.post("/predict", json={"model": model, "rows": ROWS}), 404, "model-not-found")


def test_predict_matches_columns_by_name(client, database, tmp_path):
    model = store_model(database, tmp_path)

    def predict(*rows):
        return client.post("/predict", json={"model": model, "rows": list(rows)})

    missing = problem(predict({"age": 1}, {"job": "cook"}), 422, "rows-do-not-fit")
    assert missing["errors"][0]["field"] == "body.rows"
    assert "'age'" in missing["detail"]
    assert "'job'" in missing["detail"]
    extra = predict({"job": "cook", "age": None, "height": 3, "zip": "01234"})
    assert extra.status_code == 200, extra.text
    assert any("ignored" in warning and "height, zip" in warning for warning in extra.json()["warnings"])
    as_text, as_number = (predict({"job": "cook", "age": age}).json()["predictions"] for age in ("30", 30))
    assert as_text == as_number
    unseen = predict({"job": "pilot", "age": 30})
    assert unseen.status_code == 200
    assert unseen.json()["warnings"]
    for bad in (
        {"job": "cook", "age": "thirty"},
        {"job": "cook", "age": [1]},
        {"job": {}, "age": 1},
        {"job": [1], "age": 1},
    ):
        problem(predict(bad), 422, "rows-do-not-fit")
    huge = predict({"job": "cook", "age": 1e308}, {"job": "cook", "age": -1e308})
    assert huge.status_code == 422 or all(np.isfinite(p["score"]) for p in huge.json()["predictions"])


def test_a_score_beyond_float_is_the_rows_fault(client, database, tmp_path):
    made = tiny_model()
    steep = dataclasses.replace(made.decision, dual_coef=made.decision.dual_coef * 2.5e307)
    model = store_model(database, tmp_path, dataclasses.replace(made, decision=steep))
    response = client.post("/predict", json={"model": model, "rows": [{"age": 1e308, "job": "cook"}]})
    problem(response, 422, "rows-do-not-fit")


def test_predict_limits(settings, database, tmp_path):
    model = store_model(database, tmp_path)
    with api_client(settings, max_predict_rows=3, max_body_bytes=1000) as client:
        assert client.post("/predict", json={"model": model, "rows": ROWS}).status_code == 200
        problem(client.post("/predict", json={"model": model, "rows": ROWS * 2}), 422, "invalid-request")
        problem(client.post("/predict", json={"model": model, "rows": ROWS * 50}), 413, "content-too-large")
        pieces = (b" " * 100 for _ in range(20))
        headers = {"content-type": "application/json"}
        problem(client.post("/predict", content=pieces, headers=headers), 413, "content-too-large")


def test_a_damaged_model_never_decides(client, database, tmp_path):
    for damage in (
        "UPDATE model_chunks SET data = set_byte(data, 20, get_byte(data, 20) # 1) WHERE seq = 1",
        "DELETE FROM model_chunks WHERE seq = 1",
        "UPDATE models SET sha256 = repeat('0', 64)",
    ):
        model = store_model(database, tmp_path)
        with database.transaction() as session:
            session.execute(text(damage))
        problem(client.post("/predict", json={"model": model, "rows": ROWS}), 500, "damaged-model")
    model = store_model(database, tmp_path)
    with database.transaction() as session:
        session.execute(text("DELETE FROM model_chunks WHERE model_id = :id"), {"id": model})
    problem(client.post("/predict", json={"model": model, "rows": ROWS}), 500, "damaged-model")


def test_an_emptied_report_is_told_as_damage(client, database, tmp_path):
    model = store_model(database, tmp_path)
    with database.transaction() as session:
        session.execute(text("UPDATE models SET report = '{}' WHERE id = :id"), {"id": model})
    for path in (f"/models/{model}", f"/models/{model}/drift"):
        said = problem(client.get(path), 500, "damaged-model")
        assert model in said["detail"]
    assert client.get(f"/models/{model}/card").status_code == 500
    problem(client.get(f"/models/{model}/card", headers={"accept": "text/markdown"}), 500, "damaged-model")
    assert client.delete(f"/models/{model}").status_code == 204


@pytest.mark.parametrize("damage", ["'{}'", "'[]'", "'null'", "report - 'status'", """report || '{"threshold": []}'"""])
def test_a_damaged_report_does_not_hide_the_other_models(client, database, tmp_path, damage):
    models = [store_model(database, tmp_path) for _ in range(3)]
    whole = client.get("/models").json()["items"]
    assert [each["id"] for each in whole] == models[::-1]
    with database.transaction() as session:
        session.execute(text(f"UPDATE models SET report = {damage} WHERE id = :id"), {"id": models[1]})
    listed = client.get("/models").json()["items"]
    assert (listed[0], listed[2]) == (whole[0], whole[2])
    assert listed[1] == whole[1] | {"objective": {}, "status": "damaged", "threshold": None}


def test_cold_models_are_loaded_once_for_all_who_ask(settings, database, tmp_path):
    models = [store_model(database, tmp_path) for _ in range(4)]
    with api_client(settings) as client, ThreadPoolExecutor(16) as pool:
        wanted = models * 8
        answers = list(pool.map(lambda model: client.post("/predict", json={"model": model, "rows": ROWS}), wanted))
        assert [answer.json()["model"] for answer in answers] == wanted
