"""What the pages may ask: the same services that the calls of the API ask, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from service.access.service import KeyService, ProjectService
from service.access.sessions import Sessions
from service.audits.service import AuditService
from service.datasets.looking import LookingService
from service.datasets.service import DatasetService
from service.feedback.service import FeedbackService
from service.jobs.service import JobService
from service.labelling.service import QueueService
from service.models.service import AliasService, ModelService
from service.predictions.service import PredictionService
from service.webhooks.service import WebhookService


@dataclass(frozen=True)
class Services:
    """One of each; `sessions` is None where no keys are required.

    `encoder` is the name of the one that this installation has; None: texts are their words.
    """

    datasets: DatasetService
    looking: LookingService
    jobs: JobService
    models: ModelService
    aliases: AliasService
    audits: AuditService
    predictions: PredictionService
    queue: QueueService
    feedback: FeedbackService
    keys: KeyService
    projects: ProjectService
    webhooks: WebhookService
    sessions: Sessions | None
    encoder: str | None
