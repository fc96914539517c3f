"""What can go wrong with predictions."""

from service.errors import InvalidRequest


class RowsDoNotFit(InvalidRequest):
    """The rows do not have the columns, or the kinds of values, that the model was trained on."""

    type = "rows-do-not-fit"
    title = "The rows do not fit the model"
