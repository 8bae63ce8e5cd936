"""What people and administrators do about tokens by the API."""

import msgspec

from greatseal.api.authorization import LoginRequired
from greatseal.api.directory import Directories
from greatseal.api.factors import Factor
from greatseal.api.http import Call, Permission, Reply, Route, Session
from greatseal.api.identity import Login, SessionCaller, SessionView
from greatseal.api.messages import Message
from greatseal.api.moments import seconds
from greatseal.api.otp import Holder
from greatseal.api.problems import BadRequest, Conflict, NotFound
from greatseal_otp.codes import Codes, shown

MINE = "/api/me/otp-tokens"
RECOVERY = "/api/me/recovery-codes"
DEVICES = "/api/me/otp-devices"
ADMIN = "/api/admin/users/{username}/otp-tokens"
LOCK = "/api/admin/users/{username}/otp-lock"
NONE = Message("there is no token of this id")


class Label(msgspec.Struct, frozen=True):
    """The body that makes a token."""

    label: str


class Code(msgspec.Struct, frozen=True):
    """The body that confirms a token."""

    otp_code: str


class MyCodes:
    """``/api/me``: of the person of the session alone."""

    def __init__(self, codes: Codes, login: Login, factor: Factor) -> None:
        self._codes = codes
        self._login = login
        self._factor = factor

    def routes(self) -> list[Route]:
        """Every route."""
        session = Session()
        return [
            Route("GET", DEVICES, self.devices, auth=session, summary="The devices on which you are not asked for a code."),
            Route("DELETE", f"{DEVICES}/{{device_id}}", self.forget, auth=session, summary="Have a device asked for a code again."),
            Route("GET", MINE, self.listed, auth=session, summary="The one-time code tokens of whoever is signed in."),
            Route("POST", MINE, self.create, auth=session, summary="Make a token; its URI is given this once."),
            Route(
                "POST",
                f"{MINE}/{{token_id}}/confirm",
                self.confirm,
                auth=session,
                summary="Have a token count, in a session with a new cookie.",
            ),
            Route("DELETE", f"{MINE}/{{token_id}}", self.delete, auth=session, summary="Delete a token."),
            Route("GET", RECOVERY, self.recovery, auth=session, summary="How many recovery codes are left."),
            Route("POST", RECOVERY, self.renew, auth=session, summary="Make recovery codes; those before are worthless."),
        ]

    async def listed(self, call: Call) -> Reply:
        holder = await self._codes.holder(call.caller.subject)
        source = self._codes.store(holder).name
        return Reply.json([shown(token, source) for token in await self._codes.tokens(holder)])

    async def create(self, call: Call) -> Reply:
        session, given = await self._proven(call), await call.body(Label)
        made = await self._codes.make(session, given.label)
        return Reply.json({"token_id": made.token.token_id, "otpauth_uri": made.uri}, status=201)

    async def confirm(self, call: Call) -> Reply:
        session, token_id, given = await self._proven(call), call.path["token_id"], await call.body(Code)
        holder = await self._codes.holder(session.subject, call)
        token = next((one for one in await self._codes.tokens(holder) if one.token_id == token_id), None)
        if token is None:
            raise NotFound(NONE)
        if token.confirmed or not await self._codes.confirm(holder, token_id, "".join(given.otp_code.split())):
            raise BadRequest("otp_code: expected the code that the app shows now, which was not used yet")
        return Reply.empty().with_headers(*(await self._login.go_on(call, session, self._factor)).headers)

    async def delete(self, call: Call) -> Reply:
        if not await self._codes.remove(await self._proven(call), call.path["token_id"], call):
            raise NotFound(NONE)
        return Reply.empty()

    async def recovery(self, call: Call) -> Reply:
        state = await self._codes.recovery.state(call.caller.subject)
        if state is None:
            return Reply.json({"remaining": 0, "created_at": None})
        return Reply.json({"remaining": state.remaining, "created_at": seconds(state.created_at)})

    async def renew(self, call: Call) -> Reply:
        codes = await self._codes.new_recovery_codes(await self._proven(call))
        return Reply.json({"codes": codes}, status=201)

    async def devices(self, call: Call) -> Reply:
        holder = await self._codes.holder(call.caller.subject)
        found = await self._codes.devices.of(holder, await self._codes.tokens(holder))
        moments = ("created_at", "last_used_at", "expires_at")
        shown = [{**msgspec.structs.asdict(one), **{name: seconds(getattr(one, name)) for name in moments}} for one in found]
        return Reply.json(shown)

    async def forget(self, call: Call) -> Reply:
        if not await self._codes.devices.forget(call.caller.subject, call.path["device_id"]):
            raise NotFound(Message("there is no device of this id"))
        return Reply.empty()

    async def _proven(self, call: Call) -> SessionView:
        """The session of the call. Raises LoginRequired where the person has a second factor and did not prove it."""
        session = call.caller_as(SessionCaller).session
        if not await self._codes.is_proven(session):
            raise LoginRequired(Message("this takes a sign-in with your second factor"))
        return session


class CodesAdmin:
    """``/api/admin``: of anybody, for who lost their phone."""

    def __init__(self, codes: Codes, directories: Directories) -> None:
        self._codes = codes
        self._directories = directories

    def routes(self) -> list[Route]:
        """Every route."""
        read, write = Permission("users:read"), Permission("users:write")
        return [
            Route("GET", ADMIN, self.listed, auth=read, summary="The one-time code tokens of a person."),
            Route("DELETE", ADMIN, self.delete_all, auth=write, summary="Delete the tokens and recovery codes of a person."),
            Route("DELETE", LOCK, self.unlock, auth=write, summary="Take codes of a person again after too many wrong ones."),
            Route("DELETE", f"{ADMIN}/{{token_id}}", self.delete, auth=write, summary="Delete a token of a person."),
        ]

    async def listed(self, call: Call) -> Reply:
        holder = await self._holder(call)
        source = self._codes.store(holder).name
        return Reply.json([shown(token, source) for token in await self._codes.tokens(holder)])

    async def delete_all(self, call: Call) -> Reply:
        holder = self._managed(await self._holder(call))
        return Reply.json({"deleted": await self._codes.remove_all(holder, by=call.caller.subject)})

    async def unlock(self, call: Call) -> Reply:
        holder = await self._holder(call)
        if not await self._codes.wrong.clear(holder.subject):
            raise NotFound("no wrong codes of this person are counted")
        return Reply.empty()

    async def delete(self, call: Call) -> Reply:
        holder = self._managed(await self._holder(call))
        if not await self._codes.store(holder).remove(holder, call.path["token_id"], by=call.caller.subject):
            raise NotFound(NONE)
        return Reply.empty()

    def _managed(self, holder: Holder) -> Holder:
        store = self._codes.store(holder)
        if not store.manages:
            raise Conflict(f"the tokens of this person are kept by {store.name}: delete them there")
        return holder

    async def _holder(self, call: Call) -> Holder:
        """The person of a name; of one that is gone, the name with its realm finds what is left."""
        name = call.path["username"]
        user = await self._directories.user(name)
        if user is None and "@" not in name:
            raise NotFound("there is no user of this name; of one that is gone, write name@REALM")
        return Holder(subject=name if user is None else user.subject, user=user)
