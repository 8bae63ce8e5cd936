"""What a person does with a user code, on the page and in JSON alike: look it up, see what is asked for, decide."""

from typing import Literal

import msgspec

from greatseal.api.authorization import Authorizations, Proposal
from greatseal.api.http import Call
from greatseal.api.identity import SessionView
from greatseal.api.messages import Message
from greatseal.api.problems import NotFound
from greatseal_device_flow.limits import DeviceLimits
from greatseal_device_flow.requests import REQUESTS, DeviceRequests, Waiting

Decision = Literal["approve", "deny"]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A request that waits for a person. ``user_code`` is as the device shows it."""

    user_code: str
    waiting: Waiting
    proposal: Proposal


class Decisions:
    """Of people who are signed in."""

    def __init__(self, authorizations: Authorizations, requests: DeviceRequests, limits: DeviceLimits) -> None:
        self._authorizations = authorizations
        self._requests = requests
        self._limits = limits

    async def show(self, call: Call, session: SessionView, typed: str) -> Shown:
        """What the device of a code asks for.

        Raises NotFound for a code that is wrong, which counts, Conflict for one that was decided, RateLimited, and what
        :meth:`greatseal.api.authorization.Authorizations.propose` raises.
        """
        user_code, waiting = await self._find(call, session, typed)
        proposal = await self._authorizations.propose(waiting.asked, session, since=waiting.created_at, remote=call.remote)
        return Shown(user_code=user_code, waiting=waiting, proposal=proposal)

    async def decide(self, call: Call, session: SessionView, typed: str, decision: Decision) -> None:
        """Approve or deny it. Raises as :meth:`show`."""
        if decision == "approve":
            shown = await self.show(call, session, typed)
            await self._requests.approve(shown.waiting, shown.proposal, session)
        else:
            _, waiting = await self._find(call, session, typed)
            await self._requests.deny(waiting, session)

    async def _find(self, call: Call, session: SessionView, typed: str) -> tuple[str, Waiting]:
        await self._limits.attempt(session.id, call.remote)
        found = await self._requests.typed(typed)
        if found is None:
            raise NotFound(Message("no device waits with this code; compare it with what the device shows, or begin again there"))
        self._limits.right(session.id, call.remote)
        if found[1].status != "pending":
            raise REQUESTS.decided()
        return found
