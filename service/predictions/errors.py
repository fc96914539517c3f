"""What can go wrong with predictions."""

from service.errors import InvalidRequest, Problem


class RowsDoNotFit(InvalidRequest, type="rows-do-not-fit", title="The rows do not fit the model"):
    """The rows do not have the columns, or the kinds of values, that the model was trained on."""


class TensorsDoNotFit(InvalidRequest, type="tensors-do-not-fit", title="The tensors do not fit the model"):
    """The tensors contradict themselves, or are not what the model takes."""


class Busy(Problem, type="busy", title="Too much at once", status=503, retry_after=1):
    """The bodies of the requests that are being served take all the memory there is for them."""
