"""What can go wrong with jobs."""

from service.errors import NotFound, Problem


class JobNotFound(NotFound, type="job-not-found", title="No such job", detail="no job has this id"):
    """No job has this id."""


class JobNotFinished(Problem, type="job-not-finished", title="The job has not ended", status=409):
    """A job that still waits or runs cannot be run again."""


class NothingToRepeat(Problem, type="nothing-to-repeat", title="Nothing to repeat", status=409):
    """The training that made the model is not known any more."""


class TooManyFollowers(Problem, type="too-many-followers", title="Too many event streams", status=503, retry_after=5):
    """The process serves as many event streams as it may."""


class JobFinished(Problem, type="job-finished", title="The job has ended", status=409):
    """A job that has ended cannot be cancelled any more."""
