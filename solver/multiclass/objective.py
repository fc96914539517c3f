"""What a decision between several classes is to reach."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

import numpy as np

from solver.choices import MOST_CLASSES as MOST_CLASSES
from solver.typing import FloatArray

ClassObjectiveKind = Literal["macro_f1", "accuracy", "cost"]
KINDS: Final[tuple[ClassObjectiveKind, ...]] = ("macro_f1", "accuracy", "cost")
FLOORS: Final = ("precision", "recall")
_LARGEST_COST: Final = 1e9


class ClassObjectiveError(ValueError):
    """An objective that says nothing that can be done; the message says what was expected."""


@dataclass(frozen=True)
class ClassObjective:
    """What is to be best, and what each class must reach.

    Attributes
    ----------
    kind : {"macro_f1", "accuracy", "cost"}
    costs : dict of dict
        Of `cost`: for a true class and the class that is said the cost of a row; what is not named costs 1 where the
        two differ, and 0 where they do not.
    floors : dict of dict
        By class: `precision` or `recall` with the value that it must reach. Rows of which no class is sure enough are
        left undecided.
    confidence : float or None
        How sure it must be that floors hold on new rows, all together.
    """

    kind: ClassObjectiveKind = "macro_f1"
    costs: Mapping[Any, Mapping[Any, float]] = field(default_factory=dict)
    floors: Mapping[Any, Mapping[str, float]] = field(default_factory=dict)
    confidence: float | None = None

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read an objective: a kind, a mapping with a kind, or one of these.

        Raises
        ------
        ClassObjectiveError
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, Mapping):
            raise ClassObjectiveError(f"the objective must be an object with a kind, one of {', '.join(KINDS)}")
        unknown = sorted(str(name) for name in value if name not in ("kind", "costs", "floors", "confidence"))
        if unknown:
            raise ClassObjectiveError(
                f"an objective of several classes knows no {unknown[0]!r}: expected kind, costs, floors or confidence"
            )
        kind = value.get("kind", "macro_f1")
        if kind not in KINDS:
            raise ClassObjectiveError(
                f"the objective of several classes must be {', '.join(KINDS[:-1])} or {KINDS[-1]}, not {kind!r}; "
                "others speak of one class: name it in `positive`"
            )
        costs, floors = value.get("costs") or {}, value.get("floors") or {}
        if bool(costs) != (kind == "cost"):
            raise ClassObjectiveError("`costs` belong to the objective `cost`, which needs them, and to no other")
        _check_costs(costs)
        _check_floors(floors, kind)
        confidence = value.get("confidence")
        if confidence is not None and not (_is_number(confidence) and 0.5 <= confidence < 1 and floors):
            raise ClassObjectiveError("`confidence` must be a number from 0.5 to below 1, beside `floors`")
        return cls(kind, costs, floors, confidence)

    def check_classes(self, classes: list[Any]) -> None:
        """Check that it names no other classes, and that its costs tell them apart.

        Raises
        ------
        ClassObjectiveError
        """
        named = [*self.floors, *self.costs, *(said for each in self.costs.values() for said in each)]
        unknown = [label for label in named if label not in classes]
        if unknown:
            raise ClassObjectiveError(f"the objective names {unknown[0]!r}, which is none of the classes")
        if self.kind == "cost" and not np.ptp(self.cost_matrix(classes), axis=1).any():
            raise ClassObjectiveError("the costs of a row are the same whatever is said of it: nothing is to be chosen")

    def cost_matrix(self, classes: list[Any]) -> FloatArray:
        """Cost of a row by true class and class that is said."""
        costs = 1.0 - np.eye(len(classes))
        for true, each in self.costs.items():
            for said, cost in each.items():
                costs[classes.index(true), classes.index(said)] = cost
        return costs

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "kind": self.kind,
            **({"costs": {true: dict(each) for true, each in self.costs.items()}} if self.costs else {}),
            **({"floors": {label: dict(each) for label, each in self.floors.items()}} if self.floors else {}),
            **({} if self.confidence is None else {"confidence": self.confidence}),
        }


def with_classes_called(objective: Mapping[str, Any], called: Callable[[str], str]) -> dict[str, Any]:
    """Return the JSON form of an objective with its classes as the labels are spelt.

    Parameters
    ----------
    objective : mapping
    called : callable
        What spells a class.

    Raises
    ------
    ClassObjectiveError
        If two names are one class, of which one value would be lost.
    """

    def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for label, value in values.items():
            spelt = called(label)
            if spelt in made:
                raise ClassObjectiveError(f"the objective names the class {spelt!r} twice, as {label!r} is the same")
            made[spelt] = value
        return made

    made = dict(objective)
    if made.get("floors"):
        made["floors"] = renamed(made["floors"])
    if made.get("costs"):
        made["costs"] = {true: renamed(each) for true, each in renamed(made["costs"]).items()}
    return made


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check_costs(costs: object) -> None:
    if not isinstance(costs, Mapping) or not all(isinstance(each, Mapping) for each in costs.values()):
        raise ClassObjectiveError("`costs` must map each true class to the costs of the classes that may be said")
    for true, each in costs.items():
        for said, cost in each.items():
            if not (_is_number(cost) and 0 <= cost <= _LARGEST_COST):
                raise ClassObjectiveError(
                    f"the cost of saying {said!r} of {true!r} must be a number from 0 to {_LARGEST_COST:.0e}"
                )


def _check_floors(floors: object, kind: str) -> None:
    if not isinstance(floors, Mapping) or not all(isinstance(each, Mapping) for each in floors.values()):
        raise ClassObjectiveError("`floors` must map classes to a precision or recall each")
    for label, each in floors.items():
        if len(each) != 1 or next(iter(each)) not in FLOORS:
            raise ClassObjectiveError(f"the floor of {label!r} must be one of {' or '.join(FLOORS)}")
        name, target = next(iter(each.items()))
        if not (_is_number(target) and 0 < target < 1):
            raise ClassObjectiveError(f"the {name} of {label!r} must be a number between 0 and 1")
        if name == "recall" and kind == "cost":
            raise ClassObjectiveError("a floor of recall does not go with the objective cost: raise that class's costs")
