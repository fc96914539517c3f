"""What can go wrong with feedback."""

from service.errors import InvalidRequest, NotFound, Problem


class FeedbackNotFound(NotFound, type="feedback-not-found", title="No such feedback", detail="no feedback has this id"):
    """No feedback has this id."""


class FeedbackDoesNotFit(InvalidRequest, type="feedback-does-not-fit", title="The feedback does not fit the model"):
    """The rows or labels are not what the model of the alias takes."""


class FeedbackInUse(Problem, type="feedback-in-use", title="The feedback is in use", status=409):
    """A training that waits or runs uses it: each attempt at it, and whoever helps with it, must see the same rows."""


class TooMuchFeedback(Problem, type="too-much-feedback", title="Too much feedback", status=409):
    """An alias may have only so many corrected rows."""
