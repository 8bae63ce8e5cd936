"""The grant ``urn:openid:params:grant-type:ciba`` (CIBA Core s10.1, s11): polled until the person has decided."""

from functools import partial

import msgspec

from greatseal import faults
from greatseal.api.authorization import Authorizations
from greatseal.api.clients import ProvenRequest
from greatseal.api.problems import BadRequest
from greatseal.api.store import Refuse, Refused, Tx
from greatseal.api.tokens import (
    AuthorizationDenied,
    AuthorizationPending,
    ExpiredToken,
    Grant,
    Granted,
    InvalidGrant,
    SlowDown,
)
from greatseal.host import Host
from greatseal_ciba.registration import GRANT_TYPE
from greatseal_ciba.requests import KIND, CibaRequests, Waiting, find, note_poll, use_up

SLOWER = 5
"""Seconds by which the interval of a client grows that polls too fast (s11)."""
UNKNOWN = "the auth_req_id is unknown, used or another client's"


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """A question of a client. ``granted`` is there when the person has approved."""

    digest: bytes
    granted: Granted | None = None


class CibaGrant(Grant[Poll]):
    """Every poll is a write; the one that finds the approval uses the request up."""

    grant_type = GRANT_TYPE
    handle = ("auth_req_id", KIND)

    def __init__(self, host: Host, requests: CibaRequests, authorizations: Authorizations) -> None:
        self._host = host
        self._requests = requests
        self._authorizations = authorizations

    async def prepare(self, request: ProvenRequest) -> Poll:
        handle = request.form.get("auth_req_id")
        if handle is None:
            raise BadRequest("auth_req_id is required (CIBA Core s10.1)")
        waiting = await self._requests.find(handle) if self._host.handles.node_of(handle, KIND) else None
        if waiting is None or waiting.client_id != request.client.client_id:
            raise InvalidGrant(UNKNOWN)
        poll = Poll(digest=waiting.digest)
        if waiting.status != "approved" or waiting.is_expired(self._host.clock.now()):
            return poll
        return msgspec.structs.replace(poll, granted=await self._authorizations.allowed(request, waiting.digest))

    def redeem(self, tx: Tx, prepared: Poll) -> Granted | Refused:
        waiting = find(tx, prepared.digest)
        if waiting is None or waiting.status == "used":
            raise Refuse(InvalidGrant(UNKNOWN))
        if waiting.is_expired(tx.now):
            raise Refuse(ExpiredToken("the auth_req_id has expired; ask the person again (CIBA Core s11)"))
        if waiting.is_too_fast(tx.now):
            note_poll(tx, waiting, slower=SLOWER)
            return Refused(SlowDown(f"wait {waiting.interval + SLOWER} seconds between two polls from now on (CIBA Core s11)"))
        if waiting.status == "approved" and prepared.granted is not None:
            return self._redeemed(tx, waiting, prepared.granted)
        note_poll(tx, waiting)
        if waiting.status == "denied":
            return Refused(AuthorizationDenied("the person did not allow it (CIBA Core s11)"))
        return Refused(AuthorizationPending("the person has not decided yet (CIBA Core s11)"))

    def _redeemed(self, tx: Tx, waiting: Waiting, granted: Granted) -> Granted:
        if not use_up(tx, waiting):
            raise Refuse(InvalidGrant(UNKNOWN))
        self._authorizations.redeem(tx, granted)
        tx.after_commit(partial(faults.point, "ciba.redeemed"))
        return granted
