"""A passkey, from somebody who is signed in already: they sign in once more with it."""

from greatseal.api.directory import User
from greatseal.api.factors import Factor
from greatseal.api.messages import Message
from greatseal_passkey.page import PAGE
from greatseal_passkey.script import SIGN_IN
from greatseal_passkey.stores import Stores


class OwnPasskey(Factor):
    """Who has a passkey can use it; whether it verifies its user is seen then."""

    name = SIGN_IN.id
    amr = ("hwk", "user", "mfa")
    typed = False
    page = PAGE
    words = Message("Add a passkey")

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def held(self, subject: str, user: User | None) -> bool:  # noqa: ARG002  the stores look for themselves
        home = await self._stores.home(subject)
        return bool(await home.store.of(home.subject))
