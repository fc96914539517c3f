"""Good requests with parts replaced by something nasty: never a 5xx, and each refusal fits the OpenAPI document."""

from __future__ import annotations

import json
import random
from typing import Any
from urllib.parse import quote

import jsonschema
import orjson
import pytest
from api_support import api_client, store_dataset, store_model, train_body

NASTY: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, -(2**63), 2**64, 10**30, 0.0, -0.0, 1e308, 5e-324, 1e-9),
    *(
        "",
        " ",
        "a" * 300,
        "a" * 70_000,
        "\0",
        "\x1f",
        "\u202e",
        "\ufeff",
        "\U0001f600",
        "ä" * 99,
        "../../etc/passwd",
        "%00",
    ),
    *("NaN", "Infinity", "null", "'; DROP TABLE jobs; --", "{{7*7}}", "${jndi:x}", "<script>", "mdl_" + "0" * 32),
    *([], {}, [[]], [None], {"": None}, {"a": {"a": {"a": []}}}, [0] * 2000, {str(i): i for i in range(2000)}),
]


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where every part of a JSON value is."""
    found = [here]
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found += paths(item, (*here, key))
    return found


def mutated(value: Any, draw: random.Random) -> Any:
    """Return a copy with one part replaced, removed, doubled, or given a new neighbour."""
    copy = json.loads(json.dumps(value))
    where = draw.choice(paths(copy))
    if not where:
        return draw.choice(NASTY)
    parent = copy
    for key in where[:-1]:
        parent = parent[key]
    match draw.randrange(4):
        case 0 | 1:
            parent[where[-1]] = draw.choice(NASTY)
        case 2:
            del parent[where[-1]]
        case 3 if isinstance(parent, dict):
            parent[str(draw.choice(NASTY))[:50]] = draw.choice(NASTY)
        case _:
            parent.append(draw.choice(NASTY))
    return copy


@pytest.mark.parametrize("cases", [200, pytest.param(10_000, marks=pytest.mark.fuzz)])
def test_mutated_requests(settings, database, tmp_path, cases):
    seed = 4 if cases < 1000 else random.SystemRandom().randrange(2**32)
    draw = random.Random(seed)  # noqa: S311 (a test)
    model = store_model(database, tmp_path)
    with api_client(settings) as client:
        document = client.get("/openapi.json").json()
        problem = jsonschema.Draft202012Validator(
            {"$ref": "#/components/schemas/Problem", "components": document["components"]}
        )
        train = train_body(store_dataset(database)) | {
            "unlabeled": ["?"],
            "features": {"include": ["age", "job"], "exclude": ["job"]},
            "objective": {"kind": "precision", "target": 0.9, "confidence": 0.95},
            "alias": "now",
        }
        bodies: list[tuple[str, str, Any]] = [
            ("POST", "/train", train),
            (
                "POST",
                "/train?dry_run=true",
                train | {"objective": {"kind": "cost", "false_negative": 5, "false_positive": 1}},
            ),
            ("POST", "/predict", {"model": model, "rows": [{"age": 30, "job": "cook"}, {"age": None, "job": "clerk"}]}),
            ("PUT", "/aliases/now", {"model": model}),
            ("POST", f"/jobs/job_{'0' * 32}/cancel", {"keep_best": True}),
            *(
                ("POST", f"/models/{model}/operating-points", {"objective": objective, "apply": True})
                for objective in (
                    {"kind": "recall", "target": 0.9, "confidence": 0.95},
                    {"kind": "cost", "false_negative": 5, "false_positive": 1},
                )
            ),
        ]
        queries = ["/jobs?limit={}", "/jobs?cursor={}", "/jobs?status={}", "/models?cursor={}", "/aliases?cursor={}"]
        queries += [
            f"/models/{model}/{query}={{}}"
            for query in ("export?format", "operating-points?cursor", "curves/cost?false_negative")
        ]
        places = ["/jobs/{}", "/jobs/{}/events", "/models/{}", "/models/{}/curves/pr", "/datasets/{}"]
        statuses: dict[int, int] = {}
        for _ in range(cases):
            if draw.random() < 0.8:
                method, path, body = draw.choice(bodies)
                sent = mutated(body, draw)
                if draw.random() < 0.3:
                    sent = mutated(sent, draw)
                try:
                    content = orjson.dumps(sent)
                except TypeError:  # beyond 64 bits
                    content = json.dumps(sent).encode()
                headers = {"content-type": "application/json"}
                response = client.request(method, path, content=content, headers=headers)
            else:
                value = quote(str(draw.choice(NASTY))[:3000], safe="")
                content = draw.choice(queries + places).format(value).encode()
                response = client.get(content.decode())
            case = f"seed {seed}: {content[:300]!r} → {response.status_code} {response.text[:300]}"
            statuses[response.status_code] = statuses.get(response.status_code, 0) + 1
            assert response.status_code < 500, case
            if response.status_code >= 400:
                problem.validate(response.json())
                assert len(response.content) < 10_000, case
        # Both doors are passed: mutations that are all refused early would test little.
        assert statuses.keys() >= {200, 404, 422}
        assert client.get("/healthz").status_code == 200
