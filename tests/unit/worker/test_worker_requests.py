"""The request of a training, as it is kept with the job, for the solver."""

import unicodedata

from worker.fit import training_request


def test_labels_of_older_requests_are_composed() -> None:
    cafe = unicodedata.normalize("NFD", "café")
    assert cafe != "café"
    body = {
        "algorithm": "svm",
        "params": {},
        "objective": {"kind": "f1"},
        "positive": cafe,
        "unlabeled": [cafe, "?"],
        "target": "label",
        "test_fraction": 0.2,
        "seed": 0,
    }
    request = training_request(body, {}, {}, {})
    assert (request.positive, request.unlabeled) == ("café", ["café", "?"])
    assert training_request(body | {"positive": None, "unlabeled": []}, {}, {}, {}).positive is None
