"""What the first step of a sign-in proved, carried through the page of the second step by the browser."""

import hmac

import msgspec

from greatseal.api.declarations import Secret
from greatseal.api.http import Parameters
from greatseal.api.identity import Password
from greatseal.host import Host
from greatseal.jose.compact import b64url_decode, b64url_encode
from greatseal_idp.pages.forms import FIELD
from greatseal_idp.sealing import Envelopes

STEP = "step"
"""The hidden input."""
SECONDS = 300
KIND = "st"
"""The kind of the handles in it."""


class _Sealed(msgspec.Struct, frozen=True, kw_only=True):
    until: int
    form_token: str
    username: str
    password: str


class Steps:
    """Sealed: only this service can read it, and it counts in the browser that typed it and nowhere else."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._envelopes = Envelopes(host, "first step of a sign-in")

    async def keep(self, typed: Password, form_token: str) -> str:
        """The value of the input on a page with that form token."""
        until = self._host.clock.now() + SECONDS * 1_000_000
        sealed = _Sealed(until=until, form_token=form_token, username=typed.username, password=typed.password.value)
        envelope = await self._envelopes.seal(msgspec.json.encode(sealed))
        return f"{KIND}_{self._host.node_id}_{b64url_encode(envelope)}"

    async def of(self, form: Parameters) -> Password | None:
        """What the form carries; None when it is too old, of another browser, or not ours."""
        value = form.get(STEP, "")
        node = self._host.handles.node_of(value, KIND)
        if node is None:
            return None
        try:
            content = await self._envelopes.open(b64url_decode(value[len(KIND) + len(node) + 2 :]), node=node)
        except ValueError:
            return None
        if content is None:
            return None
        sealed = msgspec.json.decode(content, type=_Sealed)
        here = hmac.compare_digest(sealed.form_token.encode(), form.get(FIELD, "").encode())
        live = 0 < sealed.until - self._host.clock.now() <= SECONDS * 1_000_000
        return Password(username=sealed.username, password=Secret(sealed.password)) if here and live else None
