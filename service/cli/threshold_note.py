"""Why a row is called positive whose probability is below a half, or negative with one above: the threshold says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.cli.names import model_path
from service.cli.words import objective_words

if TYPE_CHECKING:
    from service.cli.client import Connection

HALF = 0.5


class ThresholdNote:
    """Counts such rows in the answers of ``POST /predict``."""

    def __init__(self) -> None:
        self._rows = self._odd = 0
        self._answer: dict[str, Any] = {}

    def count(self, answer: dict[str, Any]) -> None:
        """Look at one more answer of the same model."""
        threshold = answer.get("threshold_probability")
        self._answer = answer
        self._rows += len(answer["predictions"])
        if threshold is not None:
            # what a model that abstains says is surer than its threshold
            told = (each["probability"] for each in answer["predictions"] if answer.get("abstain") is None)
            self._odd += sum((part > HALF) != (part > threshold) for part in told)

    def said(self, client: Connection) -> list[str]:
        """Return the note, if there were any."""
        if not self._odd:
            return []
        model = client.get(model_path(client, self._answer["model"]))
        threshold, classes = self._answer["threshold_probability"], model["report"]["classes"]
        positive = classes["positive"]
        who = "the row is" if self._rows == 1 else f"{self._odd} of {self._rows} rows are"
        label, side = (classes["negative"], "above") if threshold > HALF else (positive, "below")
        how = f"{who} called {label!r} although the probability of {positive!r} is {side} 0.5"
        asked = objective_words(model["objective"])
        return [f"{how}: {positive!r} is said from {threshold:.2g} on, as {asked} was asked"]
