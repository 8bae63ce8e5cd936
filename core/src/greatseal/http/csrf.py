"""Whether a state-changing request with a cookie was meant by our own pages."""

from collections.abc import Collection

from greatseal.api.messages import Message
from greatseal.api.problems import Forbidden

FORM = "application/x-www-form-urlencoded"


class ForeignOrigin(Forbidden):
    """The request came from a page of somebody else."""

    error = "csrf"


def refuse_foreign(
    *,
    origin: str | None,
    fetch_site: str | None,
    own_origins: Collection[str],
    content_type: str | None = None,
    form_token_valid: bool = False,
) -> None:
    """Raises ForeignOrigin unless the call is of our own origin, or of no browser.

    ``origin`` and ``fetch_site`` are the headers Origin and Sec-Fetch-Site; ``content_type`` is the media type where there is a body,
    else None. A browser may send ``Origin: null`` for our own form because of the referrer policy: then Sec-Fetch-Site decides.
    """
    if content_type is not None and content_type != "application/json" and not (content_type == FORM and form_token_valid):
        raise ForeignOrigin(Message("a body must be application/json, or a form of this service"))
    if fetch_site is not None and fetch_site not in {"same-origin", "none"}:
        raise ForeignOrigin(Message("the request comes from another site"))
    if origin is None or origin in own_origins or (origin == "null" and fetch_site == "same-origin"):
        return
    raise ForeignOrigin(Message("the request comes from another origin"))
