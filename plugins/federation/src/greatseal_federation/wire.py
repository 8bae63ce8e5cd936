"""What is asked of a provider: guarded, bounded in time and size, without redirects, and decoded strictly."""

from collections.abc import Mapping
from typing import Any

from greatseal.api.messages import Message
from greatseal.api.problems import Outbound, Unavailable
from greatseal.api.services import RESOLVER
from greatseal.host import Host
from greatseal.jose.strict import decode_json
from greatseal.net import AddressPolicy, Fetched, NameResolver, SystemResolver, excerpt, fetch
from greatseal_federation.refusals import Untrusted
from greatseal_federation.upstreams import Upstream

SECONDS = 5.0
LARGEST = 256 * 1024
SILENT = Message("the other provider cannot be reached now; try again soon")
JSON_TYPES: Mapping[str, str] = {"Accept": "application/json"}


class Wire:
    """Requests to providers."""

    def __init__(self, host: Host) -> None:
        found = host.optional_service(RESOLVER)
        self.resolver: NameResolver = SystemResolver() if found is None else found

    async def ask(
        self, upstream: Upstream, url: str, *, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        """GET, or POST of a ``form``. Raises Unavailable when no answer came, or one that says that the provider is not well."""
        try:
            answer = await fetch(
                url,
                resolver=self.resolver,
                policy=AddressPolicy(allow_private=upstream.allow_private_hosts),
                redirects=0,
                seconds=SECONDS,
                max_body=LARGEST,
                headers={**JSON_TYPES, **(headers or {})},
                form=form,
            )
        except Outbound as problem:
            raise Unavailable(SILENT, cause=f"{type(problem).__name__}: {problem.detail}") from None
        if answer.status >= 500 or answer.status == 429:
            raise Unavailable(SILENT, cause=f"{url}: status {answer.status}")
        return answer

    async def json(self, upstream: Upstream, url: str, *, headers: Mapping[str, str] | None = None) -> object:
        """The JSON of a URL. Raises Unavailable, and Untrusted for another status and for what is no JSON."""
        answer = await self.ask(upstream, url, headers=headers)
        if answer.status != 200:
            raise Untrusted(f"{url}: status {answer.status}")
        try:
            return decode_json(answer.body)
        except ValueError as error:
            raise Untrusted(f"{url}: {error}") from None

    async def object(self, upstream: Upstream, url: str, *, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """As :meth:`json`, and it is an object."""
        found = await self.json(upstream, url, headers=headers)
        if not isinstance(found, dict):
            raise Untrusted(f"{url}: no JSON object")
        return found


def object_of(answer: Fetched, what: str) -> dict[str, Any]:
    """The JSON object of an answer of an OAuth endpoint. Raises Untrusted for a refusal, with its code, and for anything else."""
    try:
        found = decode_json(answer.body)
    except ValueError as error:
        raise Untrusted(f"{what}: status {answer.status}, and a body that is {error}") from None
    if not isinstance(found, dict):
        raise Untrusted(f"{what}: status {answer.status}, and no JSON object")
    if answer.status not in {200, 201} or "error" in found:
        told = [excerpt(str(found[name])) for name in ("error", "error_description") if name in found]
        raise Untrusted(f"{what}: status {answer.status}{': ' if told else ''}{', '.join(told)}")
    return found
