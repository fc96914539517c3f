"""What can go wrong with models and their names."""

from service.errors import InvalidRequest, NotFound, Problem

NO_MODEL = "no model has this id, and no alias this name"


class ModelNotFound(NotFound):
    """No model has this id, and no alias this name."""

    type = "model-not-found"
    title = "No such model"


class ModelInUse(Problem):
    """An alias points at the model."""

    type = "model-in-use"
    title = "The model is in use"
    status = 409


class NoCurve(NotFound):
    """The model was stored without an operating curve."""

    type = "no-curve"
    title = "No such curve"


class AliasNotFound(NotFound):
    """No alias has this name."""

    type = "alias-not-found"
    title = "No such alias"


class AliasInUse(Problem):
    """A training that waits or runs learns the feedback that was sent for it."""

    type = "alias-in-use"
    title = "The alias is in use"
    status = 409


class NoShadow(NotFound):
    """The alias has no shadow."""

    type = "no-shadow"
    title = "No such shadow"


class NothingToRollBack(Problem):
    """The alias pointed at no model before this one that still exists."""

    type = "nothing-to-roll-back"
    title = "Nothing to roll back to"
    status = 409


class DamagedModel(Problem):
    """The stored bytes of the model are not those that were written. Train again, or restore the database."""

    type = "damaged-model"
    title = "The stored model is damaged"
    status = 500


class NotExportable(InvalidRequest):
    """The model has no form in the format that was asked for."""

    type = "not-exportable"
    title = "Not exportable"
