"""What a person does with requests to them, on the page and in JSON alike: see them, see what one asks for, decide."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from greatseal.api.authorization import Authorizations, Proposal
from greatseal.api.clients import Clients
from greatseal.api.http import Call
from greatseal.api.identity import SessionView
from greatseal.api.messages import Message
from greatseal.api.problems import NotFound
from greatseal_ciba.requests import REQUESTS, CibaRequests, Waiting

Decision = Literal["approve", "deny"]


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A request in the list of a person."""

    waiting: Waiting
    client_name: str


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A request as its person sees it."""

    waiting: Waiting
    proposal: Proposal


class Decisions:
    """Of people who are signed in, each about what was asked of them."""

    def __init__(self, authorizations: Authorizations, clients: Clients, requests: CibaRequests) -> None:
        self._authorizations = authorizations
        self._clients = clients
        self._requests = requests

    async def all(self, session: SessionView) -> Sequence[Listed]:
        """What waits for the person of a session, the latest first; not of clients that are gone."""
        found = []
        for waiting in await self._requests.of_person(session.subject):
            client = await self._clients.get(waiting.client_id)
            if client is not None:
                found.append(Listed(waiting=waiting, client_name=client.client_name or client.client_id))
        return found

    async def show(self, call: Call, session: SessionView, id: str) -> Shown:
        """What a client asks for.

        Raises NotFound for a request that is unknown, expired or somebody else's, Conflict for one that was decided, and what
        :meth:`greatseal.api.authorization.Authorizations.propose` raises.
        """
        waiting = await self._find(session, id)
        proposal = await self._authorizations.propose(waiting.asked, session, since=waiting.created_at, remote=call.remote)
        return Shown(waiting=waiting, proposal=proposal)

    async def decide(self, call: Call, session: SessionView, id: str, decision: Decision) -> None:
        """Approve or deny it. Raises as :meth:`show`."""
        if decision == "approve":
            shown = await self.show(call, session, id)
            await self._requests.approve(shown.waiting, shown.proposal, session)
        else:
            await self._requests.deny(await self._find(session, id), session)

    async def _find(self, session: SessionView, id: str) -> Waiting:
        waiting = await self._requests.to_person(id, session.subject)
        if waiting is None:
            raise NotFound(Message("no such request waits for you; it may have expired"))
        if waiting.status != "pending":
            raise REQUESTS.decided()
        return waiting
