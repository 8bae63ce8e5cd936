"""What the first step of a sign-in proved, carried through the page of the second step by the browser."""

import hmac

import msgspec

from greatseal.api.declarations import Secret
from greatseal.api.http import Parameters
from greatseal.api.identity import Password
from greatseal.host import Host
from greatseal_idp.pages.forms import FIELD

STEP = "step"
"""The hidden input."""
SECONDS = 300
KIND = "st"
"""The kind of the handles in it."""


class _Sealed(msgspec.Struct, frozen=True, kw_only=True):
    form_token: str
    username: str
    password: str


class Steps:
    """Sealed: only this service can read it, and it counts in the browser that typed it and nowhere else."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def keep(self, typed: Password, form_token: str) -> str:
        """The value of the input on a page with that form token."""
        sealed = _Sealed(form_token=form_token, username=typed.username, password=typed.password.value)
        return await self._host.envelopes.seal(KIND, sealed, seconds=SECONDS)

    async def of(self, form: Parameters) -> Password | None:
        """What the form carries; None when it is too old, of another browser, or not ours."""
        sealed = await self._host.envelopes.open(KIND, form.get(STEP, ""), _Sealed)
        if sealed is None or not hmac.compare_digest(sealed.form_token.encode(), form.get(FIELD, "").encode()):
            return None
        return Password(username=sealed.username, password=Secret(sealed.password))
