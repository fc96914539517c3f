"""What can go wrong with audits."""

from service.errors import InvalidRequest, NotFound, Problem


class AuditNotFound(NotFound, type="audit-not-found", title="No such audit", detail="no audit has this id"):
    """No audit has this id."""


class AuditNotReady(Problem, type="audit-not-ready", title="The audit has no rows", status=409):
    """Its rows are not drawn yet, or could not be."""


class AuditSealed(Problem, type="audit-sealed", title="The audit is sealed", status=409):
    """Nothing changes any more."""


class AnswersDoNotFit(InvalidRequest, type="answers-do-not-fit", title="The answers do not fit the audit"):
    """The rows or labels are not those of the audit."""
