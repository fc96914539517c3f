"""What ``POST /train`` and ``/jobs`` take and give."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, field_validator, model_validator
from pydantic.config import JsonDict

from service.encoders.names import AUTO_ENCODER
from service.models.objectives import ObjectiveBody
from service.schemas import AliasName, Answer, Body, Label
from solver.choices import AliasPolicy, Scheme


class JobStatus(StrEnum):
    """Where a job is."""

    QUEUED = "queued"
    """Waits for a worker: for the first time, or again after its worker was lost."""
    RUNNING = "running"
    """A worker holds the lease."""
    SUCCEEDED = "succeeded"
    """It made a model. An objective that could not be reached also ends here; the report says so."""
    FAILED = "failed"
    """It made no model; `error` says why."""
    CANCELLED = "cancelled"
    """Somebody asked for it to stop."""


Name = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class TextFeatures(Body):
    """How free text becomes features: TF-IDF weights of words and runs of characters, and an encoder's vector."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"encoder": "auto", "words": 1, "characters": 4}]})

    encoder: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        default=AUTO_ENCODER,
        description="`auto`: the encoder of this installation, if it has one, and words; its name, as "
        "`PREFSVM_ENCODER_MODEL` has it: this one, or the job fails; `words` (or `none`): no encoder. Texts are then "
        "sent there, also when predicting.",
    )
    words: Annotated[int, Field(ge=0, le=3)] = Field(
        default=1,
        description="Longest run of words that is a term; 0 for none, where an encoder or `characters` are enough.",
    )
    characters: Literal[0, 3, 4, 5, 6] = Field(
        default=4,
        description="Longest run of characters within a word that is a term too; 0 for none, also where it is not "
        "said and `words` is 0.",
    )
    max_terms: Annotated[int, Field(ge=1, le=500_000)] = Field(
        default=50_000, description="Most terms kept of a column, the most frequent ones."
    )
    min_rows: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=2,
        description="Terms in fewer rows are left out, where there are at least ten times as many rows; not those of "
        "labelled rows.",
    )

    @model_validator(mode="after")
    def _without_words(self) -> Self:
        """Whoever wants no words means no parts of words either."""
        if self.words == 0 and "characters" not in self.model_fields_set:
            self.characters = 0
        return self


class Features(Body):
    """Which columns are features, and how. All but the target, unless something is said here; of mails, not `date`.

    `file` and `thread` of mails are never features.
    """

    include: list[Name] | None = Field(default=None, min_length=1, max_length=10_000)
    exclude: list[Name] = Field(default=[], max_length=10_000)
    kinds: dict[Name, Literal["number", "category", "date", "text"]] = Field(
        default={}, max_length=10_000, description="What columns are, where the guess is not wanted."
    )
    missing: Literal["indicate", "impute", "drop", "error"] = Field(
        default="indicate",
        description="Missing values: `indicate` fills in the median and adds a feature that says where; `impute` only "
        "fills in; `drop` leaves such rows out of the training; `error` refuses them, when predicting too.",
    )
    text: TextFeatures = TextFeatures()
    keep_words: bool = Field(
        default=True,
        description="Whether the report and explanations may name words of the texts. With false they speak of columns "
        "only; the model itself has to hold the words that it decides by, and so does its file.",
    )


class Labels(Body):
    """Where the labels are, and what becomes of them before anything is learned."""

    dataset: str | None = Field(
        default=None,
        max_length=100,
        description="Id of another data set, which has the labels in its column `target`: each row gets the label of "
        "its `key` there, and without one is unlabelled. Default: the rows themselves have the labels.",
    )
    key: Name | None = Field(
        default=None, description="The column of `dataset` with the keys. Default: called like the `key` of the rows."
    )
    fold: bool = Field(
        default=False,
        description="Labels that differ in capitals or blanks only (`Yes`, `yes `, `YES`), or in how they write a "
        "number (`10%`, `10 %`; `1,000`, `1000`), are one: as the request writes it, else in the most frequent "
        "spelling.",
    )
    keep: Annotated[int, Field(ge=4)] | None = Field(
        default=None,
        description="For experiments: so many labels are kept, the others blanked, as if nobody had known them. Drawn "
        "by class in the proportion of the labels, at least two of each.",
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = Field(
        default=None, description="Seed of that draw. Default: `seed` of the request."
    )


EXAMPLE_TRAIN: JsonDict = {
    "dataset": "ds_0192f0c1d5a67b3e8f0a1b2c3d4e5f60",
    "target": "label",
    "positive": "spam",
    "unlabeled": ["", "?"],
    "features": {"include": None, "exclude": ["id"]},
    "objective": {"kind": "precision", "target": 0.9, "confidence": 0.95},
    "algorithm": "psvm",
    "params": {"C": 10, "gamma": "scale"},
    "test_fraction": 0.1,
    "seed": 0,
    "alias": "spam-filter",
    "max_seconds": 3600,
}


class TrainRequest(Body):
    """What to learn, from what, and what it must reach."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_TRAIN]})

    dataset: str = Field(description="Id of the data set.", max_length=100)
    target: Name = Field(description="Column that holds the labels: of the data set, or of `labels.dataset`.")
    positive: Label | None = Field(
        default=None,
        description="The class that precision, recall and costs speak of. Required unless the labels are 0/1 or -1/+1, "
        "or are three or more and the objective is one of several classes (`macro_f1`, `accuracy`, `cost` with "
        "`costs`): these are told apart.",
    )
    scheme: Scheme | None = Field(
        default=None,
        description="Of several classes: a problem of two for each pair (`one_vs_one`, the default, measured to be "
        "better) or for each class against the rest (`one_vs_rest`: fewer problems, and ONNX has a form for it). The "
        "unlabelled rows have a part in each.",
    )
    unlabeled: list[Label] = Field(
        default=[], max_length=100, description="Labels that mean 'not known'. A missing cell always does."
    )
    negative: list[Label] = Field(
        default=[],
        max_length=100,
        description="All labels of the negative class (of several classes, of all); any other one is then refused. "
        "Needed where a label is a word for a missing value (`NA`, `unknown`, …), or -1 beside 0 and 1, and a class.",
    )
    labels: Labels = Labels()
    key: Name | None = Field(
        default=None,
        description="Column that names the rows: never a feature, it comes back in predictions and in the results of "
        "batches. Texts as they are; numbers must be whole, and are spelt without a point.",
    )
    features: Features = Features()
    objective: ObjectiveBody
    operating_point: ObjectiveBody | None = Field(
        default=None,
        description="What the threshold of the new model is chosen for, as `POST /models/{id}/operating-points` with "
        "`apply` does; null: for `objective`. A retraining says here what was applied to the model before.",
    )
    algorithm: str = Field(default="auto", max_length=100, description="`auto`, or the name of an algorithm.")
    params: dict[str, Any] = Field(default={}, max_length=100, description="Parameters of the algorithm.")
    test_fraction: Annotated[float, Field(ge=0, le=0.9)] = Field(
        default=0.2, description="Share of the labelled rows that is held out to test on."
    )
    refit: bool = Field(
        default=True,
        description="Once they have measured a model, learn from the test rows too: the model that is kept has all "
        "labels, the figures of the test are of the one before.",
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    alias: AliasName | None = Field(
        default=None,
        description="Points at the new model once the job has succeeded, if `alias_policy` lets it, and unless a later "
        "request has moved it.",
    )
    alias_policy: AliasPolicy = Field(
        default="if_not_worse",
        description="When `alias` leaves the model that it points at: `if_not_worse`, unless the new one promises less "
        "or is worse by more than chance explains on rows that neither had learned (a new name, another objective or "
        "another positive class is always followed); `if_met`, if the status is `met`; `always`. The job succeeds "
        "either way; `succession` in the report says what was decided, and why.",
    )
    feedback: bool = Field(default=True, description="Learn from what was sent with `POST /feedback` for `alias`, too.")
    max_seconds: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="Longest time an attempt may take; the best model so far is then kept."
    )

    @field_validator("positive")
    @classmethod
    def _not_empty(cls, value: str | None) -> str | None:
        if value == "":
            raise ValueError("an empty cell is an unlabelled row and cannot be the positive class")
        return value


class Retrain(Body):
    """How to train once more."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"alias_policy": "always"}]})

    alias_policy: AliasPolicy | None = Field(
        default=None, description="As in POST /train. Default: as the model before was trained."
    )


class Cancel(Body):
    """How to cancel."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"keep_best": True}]})

    keep_best: bool = Field(default=False, description="Keep the best model so far; the job then succeeds.")


class JobError(Answer):
    """Why a job failed."""

    model_config = ConfigDict(extra="allow")

    code: str = Field(description="Stable: programs may compare it.", examples=["too_few_labels"])
    message: str


class TrainingEstimate(Answer):
    """What a training is thought to need, from rows × features × kernel."""

    bytes: int = Field(description="Peak memory. Kernel values are kept as far as there is room.")
    seconds: float = Field(description="Right to an order of magnitude at best; hard problems take longer.")
    how: str = Field(description="Where the numbers come from.")


EXAMPLE_ESTIMATE: JsonDict = {
    "bytes": 576716800,
    "seconds": 1.4,
    "how": "480 MiB + 4 × 4,000 rows × 20 features (1 MiB) + 61 MiB of kernel values; seconds from 4,000² row pairs × "
    "features, right to an order of magnitude at best",
}
EXAMPLE_JOB: JsonDict = {
    "id": "job_0192f0c1d5a67b3e8f0a1b2c3d4e5f61",
    "status": "running",
    "phase": "training",
    "progress": 0.4,
    "attempt": 1,
    "created_at": "2026-11-01T12:00:00Z",
    "started_at": "2026-11-01T12:00:00.2Z",
    "finished_at": None,
    "cancel_requested_at": None,
    "error": None,
    "model_id": None,
    "retry_of": None,
    "estimate": EXAMPLE_ESTIMATE,
    "warnings": [],
    "request": EXAMPLE_TRAIN,
}


class Job(Answer):
    """A training and what became of it."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_JOB]})

    id: str
    status: JobStatus
    phase: str | None = Field(
        description="`preparing` (a process is made ready, which compiles the solver the first time on a machine), "
        "`reading`, `features`, `encoding` (texts are sent to the encoder), `waiting_for_encoder` (which "
        "does not answer; the events say since when, and how long that is waited for), `training`, `evaluating`, "
        "`refitting` (see `refit`), `storing`; null in a queue, or `waiting_for_disk` where there is no room: the job "
        "is tried again each minute, which costs no attempt."
    )
    progress: float = Field(ge=0, le=1, description="Share of the running attempt that is done.")
    attempt: int = Field(description="How often a worker has started on it.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    cancel_requested_at: datetime | None
    error: JobError | None
    model_id: str | None
    retry_of: str | None = Field(description="The job whose request this one repeats.")
    estimate: TrainingEstimate | None
    warnings: list[str] = Field(
        description="What may be meant otherwise, as far as the request and the profile of the data set tell: a third "
        "label, which counts as negative; that the labels are too few for the target. What the training found is in "
        "the report of the model."
    )
    request: dict[str, Any] = Field(
        description="The body of POST /train with every default filled in; in a list without `features`, which may "
        "name thousands of columns."
    )


class DryRun(Answer):
    """A request that POST /train would have taken."""

    valid: Literal[True] = True
    request: dict[str, Any] = Field(description="The body with every default filled in.")
    estimate: TrainingEstimate
    warnings: list[str] = Field(description="As the job would have them.")


class JobEvent(Answer):
    """Something that happened to a job."""

    id: int = Field(description="Grows with time; send the last one as `after` to get what came since.")
    attempt: int
    kind: str = Field(
        description="`queued`, `started`, `progress`, `round`, `parts`, `warning`, `requeued`, `cancelling` or "
        "`finished`."
    )
    data: dict[str, Any]
    created_at: datetime


class JobEvents(Answer):
    """Events of a job, oldest first."""

    items: list[JobEvent]
    next_after: int = Field(description="Send it as `after` to go on. The page is the last one if it has no items.")
