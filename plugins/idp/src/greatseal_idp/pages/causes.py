"""What a page that refuses tells the person, and what nobody but the operator."""

from greatseal.api.messages import Text
from greatseal.api.pages import title_of
from greatseal.api.problems import Problem
from greatseal.host import Host


def log_cause(host: Host, problem: Problem) -> None:
    """Log why a page refuses: it says so itself, in words for everybody, and the kernel logs what a handler raises alone."""
    if problem.cause:
        host.log.info("refused on a page", problem=type(problem).__name__, detail=problem.detail, cause=problem.cause)


def said(problem: Problem) -> Text:
    """What the person is told."""
    return problem.message or title_of(problem.status)
