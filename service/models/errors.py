"""What can go wrong with models and their names."""

from service.errors import InvalidRequest, NotFound, Problem


class ModelNotFound(
    NotFound, type="model-not-found", title="No such model", detail="no model has this id, and no alias this name"
):
    """No model has this id, and no alias this name."""


class ModelInUse(Problem, type="model-in-use", title="The model is in use", status=409):
    """An alias points at the model, or an audit of it is not sealed."""


class NoCurve(NotFound, type="no-curve", title="No such curve"):
    """The model was stored without an operating curve."""


class AliasNotFound(NotFound, type="alias-not-found", title="No such alias", detail="no alias has this name"):
    """No alias has this name."""


class AliasInUse(Problem, type="alias-in-use", title="The alias is in use", status=409):
    """A training that waits or runs learns the feedback that was sent for it."""


class SeveralClasses(InvalidRequest, type="several-classes", title="The model tells several classes apart"):
    """What was asked for is there for models of two classes only."""

    @classmethod
    def lacking(cls, what: str) -> "SeveralClasses":
        """Return the problem that a model of several classes has no such thing."""
        return cls(f"this model tells several classes apart and has no {what}: {CURE}")


CURE = "train one of two classes, with the class that matters as `positive`"


class NoShadow(NotFound, type="no-shadow", title="No such shadow", detail="this alias has no shadow"):
    """The alias has no shadow."""


class NothingToRollBack(Problem, type="nothing-to-roll-back", title="Nothing to roll back to", status=409):
    """The alias pointed at no model before this one that still exists."""


class DamagedModel(Problem, type="damaged-model", title="The stored model is damaged", status=500):
    """The stored bytes of the model are not those that were written. Train again, or restore the database."""


class NotExportable(InvalidRequest, type="not-exportable", title="Not exportable"):
    """The model has no form in the format that was asked for."""
