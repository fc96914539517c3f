"""What can go wrong with predictions."""

from service.errors import InvalidRequest


class RowsDoNotFit(InvalidRequest, type="rows-do-not-fit", title="The rows do not fit the model"):
    """The rows do not have the columns, or the kinds of values, that the model was trained on."""


class TensorsDoNotFit(InvalidRequest, type="tensors-do-not-fit", title="The tensors do not fit the model"):
    """The tensors contradict themselves, or are not what the model takes."""
