"""A password, proven by whoever knows it, and a code of a token of that person."""

import msgspec

from greatseal.api.identity import Attempted, Authenticated, Authenticator, Denied, LoginContext, NotMine, Password, PasswordAndCode
from greatseal.api.messages import Message
from greatseal_otp import recovery
from greatseal_otp.codes import Codes


class OneTimeCodes(Authenticator[PasswordAndCode]):
    """The password is checked within the same attempt, so a wrong code counts as much as a wrong password.

    Of people whose home checks both as one, an authenticator of that home takes them.
    """

    name = "otp"
    credential = PasswordAndCode
    hashes = True

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self.remembers = codes.devices.days

    async def attempt(self, credential: PasswordAndCode, context: LoginContext) -> Attempted:
        if await self._codes.are_taken_with_the_password(credential.username):
            return NotMine()
        first = await context.password(Password(username=credential.username, password=credential.password))
        if not isinstance(first, Authenticated):
            return first
        holder = await self._codes.holder(first.subject, context.call)
        if not await self._codes.use(holder, credential.password, credential.code):
            raise Denied(Message("the code is wrong, or it was used before"))
        headers = first.headers
        if credential.remember and recovery.read(credential.code.value) is None:  # who uses a recovery code has lost something
            headers += await self._codes.devices.remember(context.call, holder, await self._codes.tokens(holder))
        return msgspec.structs.replace(first, amr=tuple(dict.fromkeys((*first.amr, "otp", "mfa"))), headers=headers)
