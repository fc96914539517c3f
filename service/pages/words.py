"""Sentences of the pages: what becomes of a job, and what is wrong with what somebody gave."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from service.errors import Problem
from service.jobs.schemas import Job, JobEvent, JobStatus
from service.shown_text import percent

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


ENDS: Mapping[str, str] = {
    JobStatus.SUCCEEDED: "Done",
    JobStatus.FAILED: "Failed",
    JobStatus.CANCELLED: "Cancelled",
}


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
        case _:
            return ENDS[job.status]


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
            of_all = (
                f", {percent(math.floor(100 * done + 1e-9) / 100)} of all is done" if isinstance(done, float) else ""
            )
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
            return f"{ENDS.get(str(data.get('status')), 'Ended')}{moved}"
    return event.kind


def told(problem: Problem) -> str:
    """Say what is wrong with what somebody gave, without the places of a body that nobody wrote."""
    return re.sub(r"^(body|form|query)\.((rows|texts|messages|numbers|labels)(\.0)?: )?", "", problem.detail)


def _said(reason: Any) -> str:
    return str(reason.get("message", "")) if isinstance(reason, Mapping) else str(reason or "")
