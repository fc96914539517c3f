"""One parameter of an algorithm as plain data: what it may be, its default, what it does, over HTTP and in Python.

Nothing here imports a third-party module: forms, schemas and the command line read it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

AUTO: Final = "auto"


class ParamError(ValueError):
    """A parameter (or the algorithm itself, then `name` is `"algorithm"`) that cannot be used.

    Attributes
    ----------
    name : str
        Which parameter.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True)
class Domain:
    """The numbers for which a parameter has a meaning; the service allows a part of them.

    Attributes
    ----------
    low, high : float, optional
        None: any number however small, or large.
    closed : {"left", "right", "both", "neither"}
        Which ends belong to it.
    """

    low: float | None = None
    high: float | None = None
    closed: Literal["left", "right", "both", "neither"] = "neither"


ANY: Final = Domain()
POSITIVE: Final = Domain(0)
NOT_NEGATIVE: Final = Domain(0, closed="left")
BETWEEN_0_AND_1: Final = Domain(0, 1)


@dataclass(frozen=True)
class Parameter:
    """One parameter of an algorithm; `number`, `integer` and `choice` make one.

    Attributes
    ----------
    name : str
        As the estimator's constructor calls it.
    type : {"number", "integer", "choice"}
    default, python_default
        In force where the caller says nothing: over HTTP, and in the estimator's constructor. Null (None) is allowed
        where it is the default.
    help : str
        One sentence for the user.
    choices : tuple of str
        The texts that are allowed; a number may have some beside its range.
    minimum, maximum : float, optional
        Bounds of a number or integer over HTTP, inclusive.
    domain : Domain
        Bounds of a number or integer in Python.
    replaced : tuple of str
        Those of the choices that a training replaces by another one before the estimator sees it.
    """

    name: str
    type: Literal["number", "integer", "choice"]
    default: Any
    python_default: Any
    help: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    domain: Domain = ANY
    replaced: tuple[str, ...] = ()

    @property
    def nullable(self) -> bool:
        """Whether null (None) is allowed."""
        return self.default is None

    @property
    def expected(self) -> str:
        """What a value may be, in words."""
        kinds = []
        if self.type != "choice":
            kind = "a number" if self.type == "number" else "a whole number"
            kinds.append(f"{kind} from {self.minimum:g} to {self.maximum:g}")
        kinds += [repr(choice) for choice in self.choices]
        if self.nullable:
            kinds.append("null")
        return " or ".join(kinds)

    def check(self, value: Any) -> Any:
        """The value in its canonical form (whole floats become integers where those are asked for).

        Raises
        ------
        ParamError
        """
        if value is None and self.nullable:
            return None
        if isinstance(value, str) and value in self.choices:
            return value
        if self.type != "choice" and type(value) in (int, float) and abs(value) < math.inf:
            whole = self.type == "integer"
            low, high = self.minimum, self.maximum
            if (
                (low is None or value >= low)
                and (high is None or value <= high)
                and not (whole and value != int(value))
            ):
                return int(value) if whole else float(value)
        raise ParamError(self.name, f"{self.name} must be {self.expected}")


def number(
    name: str, default: Any, minimum: float, maximum: float, domain: Domain, help: str, *, beside: Any = None
) -> Parameter:
    """A parameter that is a number, or one of the texts of the `Literal` in `beside`."""
    return Parameter(name, "number", default, default, help, get_args(beside), minimum, maximum, domain)


def integer(name: str, default: Any, minimum: int, maximum: float, help: str, *, beside: Any = None) -> Parameter:
    """A parameter that is a whole number, in Python however large, or one of the texts of the `Literal` in `beside`."""
    domain = Domain(minimum, closed="left")
    return Parameter(name, "integer", default, default, help, get_args(beside), minimum, maximum, domain)


def choice(
    name: str, among: Any, default: Any, help: str, *, python_default: Any = ..., replaced: str | None = None
) -> Parameter:
    """A parameter that is one of the texts of the `Literal` in `among`; over HTTP also the one that is `replaced`."""
    in_python = default if python_default is ... else python_default
    only_http = () if replaced is None else (replaced,)
    return Parameter(name, "choice", default, in_python, help, (*only_http, *get_args(among)), replaced=only_http)
