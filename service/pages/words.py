"""Sentences of the pages: what was asked of a model, what it promises, and what became of a job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from service.errors import Problem
from service.jobs.schemas import Job, JobEvent, JobStatus
from service.pages.showing import number, percent

PHASES: Mapping[str, str] = {
    "preparing": "Getting ready",
    "reading": "Reading the data",
    "encoding": "Encoding texts",
    "waiting_for_encoder": "Waits for the encoder, which does not answer",
    "features": "Making features",
    "training": "Training",
    "evaluating": "Measuring",
    "refitting": "Learning the test rows, too",
    "storing": "Storing the model",
}
"""In the order in which a training goes through them."""
LEVELS: Mapping[str | None, str] = {
    "proven": "Proven",
    "likely": "Likely",
    "open": "Not sure enough",
    "missed": "Not reached",
    None: "No target",
}


def objective_words(objective: Mapping[str, Any], positive: str | None = None) -> str:
    """Say what was asked for."""
    rows = "rows that it looks for" if positive is None else f"“{positive}” rows"
    confidence = objective.get("confidence")
    sure = "" if confidence is None else f", with a confidence of {percent(confidence)}"
    undecided = "" if objective.get("abstain") is None else "; rows that it is not sure enough of get no label"
    return _of_kind(objective, rows, sure) + undecided


def _of_kind(objective: Mapping[str, Any], rows: str, sure: str) -> str:
    match objective:
        case {"kind": "precision", "target": target}:
            return f"Of what it flags, at least {percent(target)} is right{sure}"
        case {"kind": "recall", "target": target}:
            return f"It finds at least {percent(target)} of the {rows}{sure}"
        case {"kind": "precision_recall", "precision": precision, "recall": recall}:
            return (
                f"Of what it flags, at least {percent(precision)} is right, and it finds at least "
                f"{percent(recall)} of the {rows}{sure}"
            )
        case {"kind": "false_positive_rate" | "ham_loss", "at_most": at_most}:
            others = "good mails" if objective["kind"] == "ham_loss" else "other rows"
            return f"Of the {others}, it flags at most {number(100 * at_most)} %{sure}"
        case {"kind": "cost", "false_negative": missed, "false_positive": alarm}:
            return f"A miss costs {number(missed)}, a false alarm {number(alarm)}: as little cost as possible"
        case {"kind": "f1"}:
            return "The best balance of precision and recall (F1)"
        case {"kind": "f_beta", "beta": beta}:
            return f"The best balance of precision and recall, with recall counted {number(beta)} times (F-beta)"
    return "Not known"


def promise_level(level: str | None) -> str:
    """Say how far a target can be relied on, in a word or two."""
    return LEVELS.get(level, "Not known")


def job_words(job: Job) -> str:
    """Say where a job is."""
    match job.status:
        case JobStatus.QUEUED:
            full = "Waits for room on the disk" if job.phase == "waiting_for_disk" else "Waits for a worker"
            return f"{full}, {job.attempt + 1}. try" if job.attempt else full
        case JobStatus.RUNNING if job.cancel_requested_at is not None:
            return "Is stopping"
        case JobStatus.RUNNING:
            return PHASES.get(job.phase or "", "Running")
        case JobStatus.SUCCEEDED:
            return "Done"
        case JobStatus.FAILED:
            return "Failed"
        case JobStatus.CANCELLED:
            return "Cancelled"


def event_words(event: JobEvent) -> str:
    """Say what happened."""
    data = event.data
    match event.kind:
        case "queued":
            return "Put into the queue"
        case "started":
            return f"A worker began, try {event.attempt}" if event.attempt > 1 else "A worker began"
        case "progress" | "round":
            phase = PHASES.get(str(data.get("phase")), str(data.get("phase", "Progress")))
            told, done = data.get("round"), data.get("progress")
            if "message" in data:
                return f"{phase}: {data['message']}"
            of_all = f", {100 * done:.0f} % of all is done" if isinstance(done, float) else ""
            return (f"{phase}: round {told}" if isinstance(told, int | str) else phase) + of_all
        case "parts":
            return "Parts of the work were offered to other workers"
        case "warning":
            return str(data.get("message", "Warning"))
        case "requeued":
            return f"Goes back into the queue: {_said(data.get('reason'))}"
        case "cancelling":
            return "Was asked to stop"
        case "finished":
            alias = data.get("alias")
            moved = f"; {alias.get('sentence', '')}" if isinstance(alias, Mapping) else ""
            return f"Ended: {data.get('status', '')}{moved}"
    return event.kind


def told(problem: Problem) -> str:
    """Say what is wrong with what somebody gave, without the places of a body that nobody wrote."""
    return re.sub(r"^(body|form|query)\.((rows|texts|messages|numbers|labels)(\.0)?: )?", "", problem.detail)


def _said(reason: Any) -> str:
    return str(reason.get("message", "")) if isinstance(reason, Mapping) else str(reason or "")
