"""What can go wrong with predictions."""

from service.errors import InvalidRequest, Problem


class RowsDoNotFit(InvalidRequest):
    """The rows do not have the columns, or the kinds of values, that the model was trained on."""

    type = "rows-do-not-fit"
    title = "The rows do not fit the model"


class DamagedModel(Problem):
    """The stored bytes of the model are not those that were written. Train again, or restore the database."""

    type = "damaged-model"
    title = "The stored model is damaged"
    status = 500
