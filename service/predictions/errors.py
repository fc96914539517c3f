"""What can go wrong with predictions."""

from service.errors import InvalidRequest, Problem


class RowsDoNotFit(InvalidRequest):
    """The rows do not have the columns, or the kinds of values, that the model was trained on."""

    type = "rows-do-not-fit"
    title = "The rows do not fit the model"


class TensorsDoNotFit(InvalidRequest):
    """The tensors contradict themselves, or are not what the model takes."""

    type = "tensors-do-not-fit"
    title = "The tensors do not fit the model"


class Busy(Problem):
    """The bodies of the requests that are being served take all the memory there is for them."""

    type = "busy"
    title = "Too much at once"
    status = 503
