"""``/account/codes``: the tokens and recovery codes of whoever is signed in."""

from collections.abc import Awaitable, Callable, Sequence
from io import BytesIO
from urllib.parse import urlsplit

from greatseal.api.authorization import LoginRequired
from greatseal.api.factors import Factor
from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.identity import Login, SessionView
from greatseal.api.messages import Message, Text
from greatseal.api.moments import day_and_time
from greatseal.api.otp import Holder, Token
from greatseal.api.pages import AccountLine, AccountPart, Pages
from greatseal.api.problems import BadRequest, Conflict, Problem
from greatseal.host import Host
from greatseal.http.csrf import FORM
from greatseal_otp.arithmetic import spelt
from greatseal_otp.codes import Codes

PAGE = "/account/codes"
ADD, CONFIRM, DELETE, FORGET, RECOVERY = (f"{PAGE}/{name}" for name in ("add", "confirm", "delete", "forget", "recovery"))
_LIST, _NEW, _CODES = (f"greatseal_otp/{name}.html" for name in ("codes", "new", "recovery"))
WRONG = Message("The code is wrong, or it was used before. Wait for the next one.")
POOL = "otp-qr"

Action = Callable[[Call, SessionView, Parameters], Awaitable[Reply]]


class CodesPage:
    """A key and recovery codes are on the page that answers the form which made them, and on no other."""

    def __init__(self, host: Host, login: Login, pages: Pages, codes: Codes, factor: Factor) -> None:
        self._host = host
        self._login = login
        self._factor = factor
        self._pages = pages
        self._codes = codes
        self._prefix = urlsplit(host.issuer).path

    def routes(self) -> list[Route]:
        """Every route."""
        signed_in = Handler("who is not signed in is led to the sign-in page")
        shown = Route("GET", PAGE, self.show, style="page", auth=signed_in, summary="Your one-time codes.")
        actions: tuple[tuple[str, Action, str], ...] = (
            (ADD, self._add, "Make a token; the page shows its QR code this once."),
            (CONFIRM, self._confirm, "Give the first code of a token: it counts from now on."),
            (DELETE, self._delete, "Delete a token."),
            (FORGET, self._forget, "Have a device asked for a code again."),
            (RECOVERY, self._recover, "Make recovery codes; the page shows them this once."),
        )
        return [
            shown,
            *(
                Route("POST", path, self._carried_out(action), style="page", auth=signed_in, content_types=(FORM,), summary=summary)
                for path, action, summary in actions
            ),
        ]

    async def show(self, call: Call) -> Reply:
        session = await self._login.session(call)
        return self._pages.sign_in(PAGE) if session is None else await self._list(call, session)

    def _carried_out(self, action: Action) -> Callable[[Call], Awaitable[Reply]]:
        async def carry_out(call: Call) -> Reply:
            form = Parameters.parse(await call.raw())
            session = await self._login.session(call)
            if session is None:
                return self._pages.sign_in(PAGE)
            self._pages.check_form(call, form)
            if not await self._codes.is_proven(session):
                return self._pages.step_up(PAGE)
            try:
                return await action(call, session, form)
            except LoginRequired:
                return self._pages.sign_in(PAGE)
            except (BadRequest, Conflict) as problem:
                return await self._list(call, session, problem)

        return carry_out

    async def _add(self, call: Call, session: SessionView, form: Parameters) -> Reply:
        made = await self._codes.make(session, form.get("label", ""))
        picture = await self._host.blocking.run(POOL, qr_code, made.uri)
        return self._pages.page(
            call,
            _NEW,
            action=CONFIRM,
            page=PAGE,
            token=made.token,
            picture=picture,
            uri=made.uri,
            key=spelt(made.key),
            problem=None,
        )

    async def _confirm(self, call: Call, session: SessionView, form: Parameters) -> Reply:
        holder = await self._codes.holder(session.subject, call)
        token = next((one for one in await self._codes.tokens(holder) if one.token_id == form.get("token_id")), None)
        if token is None or token.confirmed:
            return self._pages.see_other(PAGE)
        if not await self._codes.confirm(holder, token.token_id, "".join(form.get("code", "").split())):
            # The key is not shown again: who did not scan it deletes the token and makes another one.
            return self._pages.page(
                call, _NEW, status=400, action=CONFIRM, page=PAGE, token=token, picture="", uri="", key="", problem=WRONG
            )
        headers = (await self._login.go_on(call, session, self._factor)).headers
        if self._codes.store(holder).recovery and await self._codes.recovery.state(session.subject) is None:
            return self._recovery_codes(call, await self._codes.recovery.make(session.subject), first=True).with_headers(*headers)
        return self._pages.see_other(PAGE).with_headers(*headers)

    async def _delete(self, call: Call, session: SessionView, form: Parameters) -> Reply:
        await self._codes.remove(session, form.get("token_id", ""), call)
        return self._pages.see_other(PAGE)

    async def _forget(self, _call: Call, session: SessionView, form: Parameters) -> Reply:
        await self._codes.devices.forget(session.subject, form.get("device_id", ""))
        return self._pages.see_other(PAGE)

    async def _recover(self, call: Call, session: SessionView, _form: Parameters) -> Reply:
        return self._recovery_codes(call, await self._codes.new_recovery_codes(session), first=False)

    def _recovery_codes(self, call: Call, codes: tuple[str, ...], *, first: bool) -> Reply:
        return self._pages.page(call, _CODES, codes=codes, first=first, done=self._prefix + PAGE)

    async def _list(self, call: Call, session: SessionView, problem: Problem | None = None) -> Reply:
        holder = await self._codes.holder(session.subject)
        store = self._codes.store(holder)
        tokens = await store.tokens(holder)
        unproven = not await self._codes.is_proven(session)
        return self._pages.page(
            call,
            _LIST,
            status=200 if problem is None else problem.status,
            problem=None if problem is None else problem.detail,
            page=PAGE,
            add=ADD,
            delete=DELETE,
            renew=RECOVERY,
            forget=FORGET,
            tokens=[(token, _said(token)) for token in tokens],
            devices=await self._codes.devices.of(holder, tokens),
            unproven=unproven,
            provable=unproven and await self._can_prove(session, holder),
            manages=store.manages,
            recovery=await self._codes.recovery.state(session.subject) if store.recovery else None,
            recovers=store.recovery,
            recent=self._codes.is_recent(session),
            undated=session.proven_at is None,
        )

    async def _can_prove(self, session: SessionView, holder: Holder) -> bool:
        """Whether the person has anything to prove besides what the session has: their apps may all be switched off in the directory."""
        factors = [one for one in self._host.components(Factor).values() if not set(one.amr) <= set(session.amr)]
        return any([await one.held(holder.subject, holder.user) for one in factors])


class CodesPart(AccountPart):
    """The apps on the account page."""

    name = "one-time-codes"
    title = Message("One-time codes")
    link = PAGE
    words = Message("Apps and recovery codes")
    empty = Message("You have no authenticator app. With one, your password alone signs nobody in.")

    def __init__(self, codes: Codes) -> None:
        self._codes = codes

    async def lines(self, session: SessionView) -> Sequence[AccountLine]:
        holder = await self._codes.holder(session.subject)
        return [
            AccountLine(title=token.label or Message("Without a name"), detail=_said(token)) for token in await self._codes.tokens(holder)
        ]


class DevicesPart(AccountPart):
    """The remembered devices on the account page."""

    name = "remembered-devices"
    title = Message("Devices without a code")
    link = PAGE
    words = Message("Devices on which you are not asked for a code")
    empty = Message("None. You are asked for a code wherever you sign in.")

    def __init__(self, codes: Codes) -> None:
        self._codes = codes

    async def lines(self, session: SessionView) -> Sequence[AccountLine]:
        holder = await self._codes.holder(session.subject)
        devices = await self._codes.devices.of(holder, await self._codes.tokens(holder))
        return [
            AccountLine(title=one.words, detail=Message("Last used %(when)s", {"when": day_and_time(one.last_used_at)})) for one in devices
        ]


def _said(token: Token) -> Text:
    if not token.confirmed:
        return Message("Not in use: no code of it was given yet")
    if not token.enabled:
        return Message("Switched off")
    return Message("In use") if token.last_used_at is None else Message("Last used %(when)s", {"when": day_and_time(token.last_used_at)})


def qr_code(text: str) -> str:
    """The text as an SVG to stand in a page, dark on light whatever the theme."""
    import segno

    drawn = BytesIO()
    code = segno.make(text, error="m", micro=False)
    code.save(drawn, kind="svg", xmldecl=False, svgns=False, border=4, light="#fff", dark="#000", omitsize=True)
    return drawn.getvalue().decode()
