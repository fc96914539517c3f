"""What can go wrong with feedback."""

from service.errors import InvalidRequest, NotFound, Problem


class FeedbackNotFound(NotFound):
    """No feedback has this id."""

    type = "feedback-not-found"
    title = "No such feedback"


class FeedbackDoesNotFit(InvalidRequest):
    """The rows or labels are not what the model of the alias takes."""

    type = "feedback-does-not-fit"
    title = "The feedback does not fit the model"


class FeedbackInUse(Problem):
    """A training that waits or runs uses it: each attempt at it, and whoever helps with it, must see the same rows."""

    type = "feedback-in-use"
    title = "The feedback is in use"
    status = 409


class TooMuchFeedback(Problem):
    """An alias may have only so many corrected rows."""

    type = "too-much-feedback"
    title = "Too much feedback"
    status = 409
