"""What can go wrong with queues."""

from service.errors import Problem


class NoQueue(Problem, type="no-queue", title="The model has no queue", status=409):
    """Its training left no list of rows to label next, or the data set that has them is gone."""
