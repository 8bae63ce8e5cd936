"""The grant ``urn:ietf:params:oauth:grant-type:device_code`` (RFC 8628 s3.4, s3.5): polled until a person has decided."""

from functools import partial

import msgspec

from greatseal import faults
from greatseal.api.authorization import Authorizations
from greatseal.api.clients import ProvenRequest
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.store import Refuse, Tx
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
from greatseal_device_flow.pace import Pace
from greatseal_device_flow.requests import KIND, DeviceRequests, Waiting, use_up

GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"
UNKNOWN = "the device code is unknown, used or another client's"


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """A poll that finds an approval, with what it gives."""

    digest: bytes
    granted: Granted


class DeviceCode(Grant[Poll]):
    """A poll changes nothing until a person has approved; the one that finds the approval uses the code up."""

    grant_type = GRANT_TYPE
    handle = ("device_code", KIND)

    def __init__(self, host: Host, requests: DeviceRequests, authorizations: Authorizations, pace: Pace) -> None:
        self._host = host
        self._requests = requests
        self._authorizations = authorizations
        self._pace = pace

    async def prepare(self, request: ProvenRequest) -> Poll:
        code = request.form.get("device_code")
        if code is None:
            raise BadRequest("device_code is required (RFC 8628 s3.4)")
        waiting = await self._requests.find(code) if self._host.handles.node_of(code, KIND) else None
        if waiting is None or waiting.client_id != request.client.client_id or waiting.status == "used":
            raise InvalidGrant(UNKNOWN)
        if waiting.is_expired(self._host.clock.now()):
            raise ExpiredToken("the device code has expired; ask for another one (RFC 8628 s3.5)")
        if waiting.status == "pending":
            raise self._pending(waiting)
        self._pace.forget(waiting.digest)
        if waiting.status == "denied":
            raise AuthorizationDenied("the person did not allow it (RFC 8628 s3.5)")
        return Poll(digest=waiting.digest, granted=await self._authorizations.allowed(request, waiting.digest))

    def redeem(self, tx: Tx, prepared: Poll) -> Granted:
        if not use_up(tx, prepared.digest):
            raise Refuse(InvalidGrant(UNKNOWN))
        self._authorizations.redeem(tx, prepared.granted)
        tx.after_commit(partial(faults.point, "device.redeemed"))
        return prepared.granted

    def _pending(self, waiting: Waiting) -> Problem:
        """``slow_down`` is a variant of it: who has an answer waiting gets it, however fast."""
        interval = self._pace.poll(waiting.digest)
        if interval is not None:
            return SlowDown(f"wait {interval} seconds between two polls from now on (RFC 8628 s3.5)")
        return AuthorizationPending("the person has not decided yet (RFC 8628 s3.5)")
