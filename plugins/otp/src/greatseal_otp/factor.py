"""A code alone, from somebody who is signed in already."""

from greatseal.api.declarations import Secret
from greatseal.api.directory import User
from greatseal.api.factors import Factor
from greatseal.api.messages import Message
from greatseal.api.otp import Holder
from greatseal_otp.codes import Codes
from greatseal_otp.page import PAGE


class OwnCode(Factor):
    """Who has a token in use can give a code of it, or a recovery code."""

    name = "otp"
    amr = ("otp", "mfa")
    page = PAGE
    words = Message("Add an authenticator app")

    def __init__(self, codes: Codes) -> None:
        self._codes = codes

    async def held(self, subject: str, user: User | None) -> bool:
        holder = Holder(subject=subject, user=user)
        # A store that only says yes or no wants the password with the code, which nobody types here.
        return await self._codes.has_token(holder) and bool(await self._codes.store(holder).keys(holder))

    async def prove(self, subject: str, user: User | None, code: Secret) -> bool:
        return await self._codes.use(Holder(subject=subject, user=user), None, code)
