"""What a person is told when a sign-in through a provider came to nothing, and what the log says of it to an administrator."""

from collections.abc import Awaitable
from urllib.parse import urlencode
from uuid import uuid4

from greatseal.api.directory import DirectoryUnavailable
from greatseal.api.http import Call, Reply
from greatseal.api.identity import AccessDenied, Denied, Login
from greatseal.api.pages import Pages
from greatseal.api.problems import Conflict, Problem, RateLimited, Unavailable
from greatseal.host import Host
from greatseal_federation.refusals import NotLinked, StoppedThere, TooLate, Untrusted
from greatseal_federation.upstreams import Upstream

EXPECTED = (AccessDenied, Conflict, Denied, NotLinked, RateLimited, StoppedThere, TooLate, Unavailable, Untrusted)
TEMPLATE = "greatseal_federation/refused.html"


class Refusals:
    """Pages of refusals."""

    def __init__(self, host: Host, login: Login, pages: Pages) -> None:
        self._host = host
        self._login = login
        self._pages = pages

    async def around(
        self, call: Call, upstream: Upstream, return_to: str | None, answer: Awaitable[Reply], *, linking: bool = False
    ) -> Reply:
        """``answer``, or the page that says why there is none; a program gets the problem itself.

        ``linking``: nobody was to be signed in, an account was to be linked.
        """
        try:
            return await answer
        except EXPECTED as problem:
            reference = await self._noted(call, upstream, problem)
            if "text/html" not in call.headers.get("Accept", "").lower():
                raise
            return self._page(call, upstream, return_to, problem, reference, linking=linking)

    async def _noted(self, call: Call, upstream: Upstream, problem: Problem) -> str | None:
        """A line of the log under a reference that the page has too; the audit log has those that LOGIN did not write itself."""
        if isinstance(problem, RateLimited | AccessDenied | Denied):
            return None
        reference = str(uuid4())[:8]
        cause = problem.cause or problem.detail
        self._host.log.warning("nobody was signed in through a provider", upstream=upstream.id, reference=reference, cause=cause)
        if not isinstance(problem, Unavailable | Conflict):
            await self._login.failed(call, f"upstream {upstream.id}: {cause}")
        return None if isinstance(problem, TooLate | DirectoryUnavailable) else reference

    def _page(
        self, call: Call, upstream: Upstream, return_to: str | None, problem: Problem, reference: str | None, *, linking: bool
    ) -> Reply:
        query = "" if return_to is None else f"?{urlencode({'return_to': return_to})}"
        return self._pages.page(
            call,
            TEMPLATE,
            status=problem.status,
            headers=tuple(problem.headers.items()),
            provider=upstream.display_name,
            problem=problem,
            reference=reference,
            linking=linking,
            again="/account/connections" if linking else f"/auth/external/{upstream.id}{query}",
            query=query,
        )
