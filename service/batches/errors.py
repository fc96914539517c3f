"""What can go wrong with batches."""

from service.errors import NotFound, Problem


class BatchNotFound(NotFound, type="batch-not-found", title="No such batch", detail="no batch has this id"):
    """No batch has this id."""


class BatchNotFinished(Problem, type="batch-not-finished", title="The batch has no result", status=409):
    """There is no result yet, or there will be none."""


class BatchFinished(Problem, type="batch-finished", title="The batch has ended", status=409):
    """A batch that has ended cannot be cancelled any more."""


class ResultGone(Problem, type="result-gone", title="The result is gone", status=410):
    """The batch is on record, but the file of its result is not there any more."""
