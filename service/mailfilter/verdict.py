"""What is said of a mail, in the words of each protocol: a verdict, points as SpamAssassin counts them, headers."""

from __future__ import annotations

import importlib.metadata
import math
import re
from dataclasses import dataclass
from typing import Literal

from service.predictions.deciding import Decisions, ReadyModel

REQUIRED = 5.0
"""Points of the threshold."""
LOWEST, HIGHEST = -10.0, 15.0
STARS = 50
"""Of ``X-Spam-Level`` at most, as there."""
VERSION = importlib.metadata.version("prefsvm")

Kind = Literal["spam", "ham", "unsure", "unknown"]
Reason = Literal[
    "busy",
    "damaged_model",
    "database_away",
    "encoder_away",
    "encoder_changed",
    "error",
    "no_access",
    "no_mail",
    "no_model",
    "not_of_mails",
    "slow",
    "too_few_labels",
    "several_classes",
    "too_large",
    "too_many_requests",
    "too_many_values",
]
"""Why nothing is known of a mail."""


@dataclass(frozen=True)
class MailVerdict:
    """What is known of one mail; the same at each door.

    Attributes
    ----------
    kind : str
        ``unsure``: the model leaves rows undecided, and this is one. ``unknown``: nothing could be said.
    points : float
        0 if nothing is known. See `points_of`.
    reason : str or None
        Why nothing is known.
    """

    kind: Kind
    points: float = 0.0
    reason: Reason | None = None
    alias: str | None = None
    model: str | None = None
    label: str | None = None
    score: float | None = None
    threshold: float | None = None
    probability: float | None = None
    truncated: bool = False

    @property
    def is_spam(self) -> bool:
        """Whether the mail is called spam."""
        return self.kind == "spam"

    @property
    def may_be_tried_again(self) -> bool:
        """Whether nothing is known of the mail, and may be later: it is one, and not longer than any that is read."""
        return self.kind == "unknown" and self.reason not in ("no_mail", "too_large")

    @property
    def shown(self) -> float:
        """Points to one decimal, rounded but never across the threshold: `REQUIRED` and more is spam, nothing else."""
        if self.is_spam:
            return max(REQUIRED, round(self.points, 1))
        return min(REQUIRED - 0.1, round(self.points, 1))

    @property
    def symbol(self) -> str:
        """Name of the one test there is."""
        return f"PREFSVM_{self.kind.upper()}"


def verdict_of(made: Decisions, ready: ReadyModel, alias: str) -> MailVerdict:
    """Return what a model says of one mail; raises `SeveralClasses`. The class that it was trained to find is spam."""
    (said,) = made.predictions
    model = ready.of_two
    label, score, probability = said["label"], said["score"], said["probability"]
    kind: Kind = "unsure" if label is None else "spam" if label == str(model.classes[1]) else "ham"
    return MailVerdict(
        kind,
        points_of(float(score or 0.0), model.decision.threshold, ready.typical_distance),
        alias=alias,
        model=made.model,
        label=None if label is None else str(label),
        score=None if score is None else float(score),
        threshold=made.threshold,
        probability=None if probability is None else float(probability),
        truncated=bool(said.get("truncated", False)),
    )


def points_of(score: float, threshold: float, distance: float) -> float:
    """Return a score as points, where the threshold is `REQUIRED` and the order is kept.

    A mail that lies as far above the threshold as mails do as a rule has twice as many, one as far below it 0.
    """
    points = REQUIRED + REQUIRED * (score - threshold) / distance
    return min(HIGHEST, max(LOWEST, points)) if math.isfinite(points) else REQUIRED


def headers_of(verdict: MailVerdict) -> list[str]:
    """Return the header fields that tell a verdict; none if nothing is known. ASCII, lines of up to 78 characters.

    The last one says nothing that anybody acts on: a mail that begins with a blank continues it.
    """
    if verdict.kind == "unknown":
        return []
    flag = ["X-Spam-Flag: YES"] if verdict.is_spam else []
    told = "Yes" if verdict.is_spam else "No"
    level = "*" * min(STARS, max(0, int(verdict.shown)))
    return [
        *flag,
        f"X-Spam-Status: {told}, score={verdict.shown:.1f} required={REQUIRED:.1f} tests={verdict.symbol}",
        f"\tautolearn=no version={VERSION}",
        f"X-Spam-Score: {verdict.shown:.1f}",
        *([f"X-Spam-Level: {level}"] if level else []),
        f"X-Spam-Model: {verdict.alias}\n\t({verdict.model})",
    ]


def fields_of(verdict: MailVerdict) -> list[tuple[str, str]]:
    """Return the header fields that tell a verdict, name and value of each, unfolded; none if nothing is known."""
    lines = "\n".join(headers_of(verdict)).replace("\n\t", " ").split("\n")
    found = [line.partition(": ") for line in lines if line]
    return [(name, value) for name, _, value in found]


def report_of(verdict: MailVerdict) -> str:
    """Return a few lines for people, ASCII, about what was decided and by what."""
    if verdict.kind == "unknown":
        return f"Nothing can be said of this mail ({verdict.reason}); it is passed on as it came.\n"
    probability = "" if verdict.probability is None else f", probability {verdict.probability:.2f}"
    cut = "\nThe mail is longer than what is looked at." if verdict.truncated else ""
    return (
        f"Content analysis details:   ({verdict.shown:.1f} points, {REQUIRED:.1f} required)\n\n"
        " pts rule name              description\n"
        "---- ---------------------- --------------------------------------------------\n"
        f"{verdict.shown:4.1f} {verdict.symbol:22} {_ascii(verdict.label or 'undecided')}{probability}, "
        f"by {verdict.alias}{cut}\n"
    )


def _ascii(text: str) -> str:
    return re.sub(r"[^ -~]", "?", text)[:40]
