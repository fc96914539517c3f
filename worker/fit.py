"""The real work of a child: read the data, train, write the model file. The only module of the worker that computes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from service.blobs.store import BlobNotFoundError, BlobStore
from service.ingest.columnar import Layout, read_columnar, read_kinds, read_labels
from service.ingest.errors import IngestError
from solver import lowrank, smo
from solver.model_file import write_model
from solver.training import ALGORITHMS, Progress, TrainingError, TrainingRequest, train
from worker.protocol import MODEL_FILE, Job, JobError, Reporter, Result

READING_DONE = 0.05
TRAINING_DONE = 0.97
"""Shares of a job that are done when its rows are read, and when its model is trained."""


def warm_up() -> None:
    """Load every algorithm and the compiled solvers."""
    for spec in ALGORITHMS.values():
        spec.load()
    smo.warm_up()
    lowrank.warm_up()


def run(job: Job, reporter: Reporter) -> Result:
    """Train the model that the job asks for.

    Raises
    ------
    JobError
        For what the user can mend.
    """
    layout = cast("Layout", job.layout)
    reporter.progress("reading", 0.0)
    started = time.monotonic()
    try:
        with BlobStore(job.blob_location).local_path(job.columnar_key) as path:
            data = read_columnar(path, layout)
            labels = read_labels(path, layout, job.request["target"])
            kinds = read_kinds(path, layout)
    except IngestError as error:
        raise JobError(error.code, error.message) from error
    except BlobNotFoundError as error:
        raise JobError("dataset_deleted", "the data set was deleted before the job could read it") from error
    request = training_request(job.request, kinds)
    reading = time.monotonic() - started

    def progress(news: Progress) -> bool:
        fraction = READING_DONE + (TRAINING_DONE - READING_DONE) * news.fraction
        return reporter.progress(news.phase, fraction, news.details)

    try:
        trained = train(data, labels, request, progress=progress)
    except TrainingError as error:
        raise JobError(error.code, error.message) from error
    reporter.progress("storing", TRAINING_DONE)
    started = time.monotonic()
    write_model(Path(job.scratch, MODEL_FILE), trained.model)
    timings = {"reading": reading, **trained.report["timings"], "storing": time.monotonic() - started}
    return Result(trained.model.algorithm, trained.model.manifest, {**trained.report, "timings": timings})


def training_request(body: dict[str, Any], known_kinds: Mapping[str, str]) -> TrainingRequest:
    """Return the solver's request for the body of a ``POST /train``, as it is kept with the job.

    Parameters
    ----------
    body : dict
    known_kinds : mapping of str to str
        What columns are by the data set; the body may say otherwise.
    """
    features = body.get("features") or {}
    return TrainingRequest(
        algorithm=body["algorithm"],
        params=body["params"],
        objective=body["objective"],
        positive=body.get("positive"),
        unlabeled=body["unlabeled"],
        include=features.get("include"),
        exclude=features.get("exclude") or (),
        kinds={**known_kinds, **(features.get("kinds") or {})},
        missing=features.get("missing", "indicate"),
        text=features.get("text") or {},
        target=body["target"],
        test_fraction=body["test_fraction"],
        seed=body["seed"],
    )
