"""From a data set and a request to a model and an honest report; several classes: `solver.training.several_classes`."""

from __future__ import annotations

from solver.corrections import Corrections
from solver.training.request import Progress, TrainingError, TrainingRequest
from solver.training.result import TestedRows, TrainedClasses, TrainedModel
from solver.training.two_classes import train

__all__ = [
    "Corrections",
    "Progress",
    "TestedRows",
    "TrainedClasses",
    "TrainedModel",
    "TrainingError",
    "TrainingRequest",
    "train",
]
