"""The grant ``urn:ietf:params:oauth:grant-type:device_code`` (RFC 8628 s3.4, s3.5): polled until a person has decided."""

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
from greatseal_device_flow.requests import KIND, DeviceRequests, Waiting, find, note_poll, use_up

GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"
SLOWER = 5
"""Seconds by which the interval of a device grows that polls too fast (s3.5)."""
UNKNOWN = "the device code is unknown, used or another client's"


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """A question of a device. ``granted`` is there when the person has approved."""

    digest: bytes
    granted: Granted | None = None


class DeviceCode(Grant[Poll]):
    """Every poll is a write; the one that finds the approval uses the code up."""

    grant_type = GRANT_TYPE
    handle = ("device_code", KIND)

    def __init__(self, host: Host, requests: DeviceRequests, authorizations: Authorizations) -> None:
        self._host = host
        self._requests = requests
        self._authorizations = authorizations

    async def prepare(self, request: ProvenRequest) -> Poll:
        code = request.form.get("device_code")
        if code is None:
            raise BadRequest("device_code is required (RFC 8628 s3.4)")
        waiting = await self._requests.find(code) if self._host.handles.node_of(code, KIND) else None
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
            raise Refuse(ExpiredToken("the device code has expired; ask for another one (RFC 8628 s3.5)"))
        if waiting.is_too_fast(tx.now):
            note_poll(tx, waiting, slower=SLOWER)
            return Refused(SlowDown(f"wait {waiting.interval + SLOWER} seconds between two polls from now on (RFC 8628 s3.5)"))
        if waiting.status == "approved" and prepared.granted is not None:
            return self._redeemed(tx, waiting, prepared.granted)
        note_poll(tx, waiting)
        if waiting.status == "denied":
            return Refused(AuthorizationDenied("the person did not allow it (RFC 8628 s3.5)"))
        return Refused(AuthorizationPending("the person has not decided yet (RFC 8628 s3.5)"))

    def _redeemed(self, tx: Tx, waiting: Waiting, granted: Granted) -> Granted:
        if not use_up(tx, waiting):
            raise Refuse(InvalidGrant(UNKNOWN))
        self._authorizations.redeem(tx, granted)
        tx.after_commit(partial(faults.point, "device.redeemed"))
        return granted
