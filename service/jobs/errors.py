"""What can go wrong with jobs."""

from service.errors import NotFound, Problem


class JobNotFound(NotFound):
    """No job has this id."""

    type = "job-not-found"
    title = "No such job"


class JobNotFinished(Problem):
    """A job that still waits or runs cannot be run again."""

    type = "job-not-finished"
    title = "The job has not ended"
    status = 409


class NothingToRepeat(Problem):
    """The training that made the model is not known any more."""

    type = "nothing-to-repeat"
    title = "Nothing to repeat"
    status = 409


class TooManyFollowers(Problem):
    """The process serves as many event streams as it may."""

    type = "too-many-followers"
    title = "Too many event streams"
    status = 503


class JobFinished(Problem):
    """A job that has ended cannot be cancelled any more."""

    type = "job-finished"
    title = "The job has ended"
    status = 409
