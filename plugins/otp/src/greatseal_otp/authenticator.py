"""A password, proven by whoever knows it, and a code of a token of that person."""

import msgspec

from greatseal.api.identity import Attempted, Authenticated, Authenticator, Denied, LoginContext, Password, PasswordAndCode
from greatseal_otp.codes import Codes


class OneTimeCodes(Authenticator[PasswordAndCode]):
    """The password is checked within the same attempt, so a wrong code counts as much as a wrong password."""

    name = "otp"
    credential = PasswordAndCode

    def __init__(self, codes: Codes) -> None:
        self._codes = codes

    async def attempt(self, credential: PasswordAndCode, context: LoginContext) -> Attempted:
        first = await context.password(Password(username=credential.username, password=credential.password))
        if not isinstance(first, Authenticated):
            return first
        holder = await self._codes.holder(first.subject)
        if not await self._codes.use(holder, credential.password, credential.code):
            raise Denied("the code is wrong or was used")
        return msgspec.structs.replace(first, amr=tuple(dict.fromkeys((*first.amr, "otp", "mfa"))))
