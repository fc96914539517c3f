"""What can go wrong with batches."""

from service.errors import NotFound, Problem


class BatchNotFound(NotFound):
    """No batch has this id."""

    type = "batch-not-found"
    title = "No such batch"


class BatchNotFinished(Problem):
    """There is no result yet, or there will be none."""

    type = "batch-not-finished"
    title = "The batch has no result"
    status = 409


class BatchFinished(Problem):
    """A batch that has ended cannot be cancelled any more."""

    type = "batch-finished"
    title = "The batch has ended"
    status = 409


class ResultGone(Problem):
    """The batch is on record, but the file of its result is not there any more."""

    type = "result-gone"
    title = "The result is gone"
    status = 410
