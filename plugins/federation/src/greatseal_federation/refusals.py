"""Why nobody was signed in: what the person is told on a page, and what the log says to an administrator."""

from greatseal.api.messages import Message
from greatseal.api.problems import Forbidden, Problem

__all__ = ["NotLinked", "StoppedThere", "TooLate", "Untrusted"]


NO_MOMENT = Message(
    "the application asks for a recent sign-in, and this provider cannot tell when you signed in there; sign in in another way"
)


class Untrusted(Problem):
    """The provider gave an answer that is not accepted. ``cause`` says what was wrong with it, for the log alone."""

    status, error = 502, "bad_upstream"

    def __init__(self, cause: str) -> None:
        super().__init__(Message("the other provider gave an answer that this service does not accept"), cause=cause)


class StoppedThere(Forbidden):
    """The provider says that the person did not sign in there."""

    error = "access_denied"


class NotLinked(Forbidden):
    """The provider proved somebody who is nobody here."""

    error = "not_linked"


class TooLate(Problem):
    """The sign-in began too long ago, in another browser, or it came to its end before."""

    status, error = 400, "stale_sign_in"
