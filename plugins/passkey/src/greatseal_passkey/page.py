"""``/account/passkeys``: where people keep their passkeys, and the part of the account page that leads there."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from greatseal.api.authorization import LoginRequired
from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.identity import Login, SessionView
from greatseal.api.messages import Message, Text
from greatseal.api.moments import day_and_time
from greatseal.api.notices import seen
from greatseal.api.pages import AccountLine, AccountPart, Pages
from greatseal.api.problems import BadRequest, NotFound
from greatseal.host import Host
from greatseal.http.csrf import FORM
from greatseal_passkey.holdings import Held, Keeper
from greatseal_passkey.registration import MAX_LABEL, Stale, is_fresh
from greatseal_passkey.script import SCRIPT_PATH

PAGE = "/account/passkeys"
AGAIN = f"{PAGE}/again"
WORDS: Mapping[str, Text] = MappingProxyType(
    {
        "cancelled": Message("No passkey was made. Try again when you are ready."),
        "known": Message("This device has a passkey of yours already."),
        "unsuited": Message("This browser cannot make a passkey here."),
        "failed": Message("That did not work. Try again."),
        "reauthentication_required": Message("You signed in too long ago for this. Sign in again."),
    }
)
"""What the script may have to say."""


class _Shown(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    label: str
    life: Text
    suspected: Text | None
    known: bool
    """Whether it was made or used here, and so has a name that can be changed."""


class PasskeyPage:
    """What people see."""

    def __init__(self, host: Host, login: Login, pages: Pages, keeper: Keeper) -> None:
        self._host = host
        self._login = login
        self._pages = pages
        self._keeper = keeper

    def routes(self) -> list[Route]:
        signed_in = Handler("who is not signed in is led to the sign-in page")
        return [
            Route("GET", PAGE, self.show, style="page", auth=signed_in, summary="Your passkeys, for people."),
            Route("GET", AGAIN, self.again, style="page", summary="Leads to the sign-in page, and back to the passkeys."),
            Route("POST", PAGE, self.change, style="page", auth=signed_in, content_types=(FORM,), summary="Name or delete a passkey."),
        ]

    async def show(self, call: Call) -> Reply:
        session = await self._login.session(call)
        if session is None:
            return self._pages.sign_in(PAGE)
        return self._pages.step_up(PAGE) if await self._login.lacks(session) else await self._page(call, session)

    async def again(self, _call: Call) -> Reply:
        return self._pages.sign_in(PAGE)

    async def change(self, call: Call) -> Reply:
        """A form with ``label`` gives another name, one without deletes."""
        session = await self._login.session(call)
        if session is None:
            return self._pages.sign_in(PAGE)
        form = Parameters.parse(await call.raw())
        self._pages.check_form(call, form)
        try:
            if "label" in form:
                await self._keeper.rename(session, form.get("id", ""), form["label"])
            else:
                await self._keeper.delete(session, form.get("id", ""), seen(call).languages)
        except LoginRequired:
            return self._pages.step_up(PAGE)
        except (BadRequest, NotFound, Stale) as problem:
            return await self._page(call, session, problem.message, status=problem.status)
        return self._pages.see_other(PAGE)

    async def _page(self, call: Call, session: SessionView, problem: Text | None = None, *, status: int = 200) -> Reply:
        holdings = await self._keeper.of(session.subject)
        return self._pages.page(
            call,
            "greatseal_passkey/passkeys.html",
            status=status,
            scripts=(SCRIPT_PATH,),
            page=PAGE,
            again=AGAIN,
            problem=problem,
            passkeys=[_shown(held) for held in holdings.passkeys],
            read_only=holdings.read_only,
            fresh=is_fresh(self._host.clock, session),
            undated=session.proven_at is None,
            words=WORDS,
            longest=MAX_LABEL,
        )


class PasskeyPart(AccountPart):
    """The part of the account page."""

    name = "passkeys"
    title = Message("Passkeys")
    link = PAGE
    words = Message("Add, rename or delete passkeys")
    empty = Message("None yet. A passkey signs you in with your device, without a password.")

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    async def lines(self, session: SessionView) -> Sequence[AccountLine]:
        return [AccountLine(title=held.label, detail=life_of(held)) for held in (await self._keeper.of(session.subject)).passkeys]


def life_of(held: Held) -> Text:
    """When a passkey was made and used."""
    record = held.record
    if record is None:
        return Message("Not used here yet")
    added = day_and_time(record.created_at)
    if record.last_used_at is None:
        return Message("Added %(added)s, never used", {"added": added})
    return Message("Added %(added)s, last used %(used)s", {"added": added, "used": day_and_time(record.last_used_at)})


def _shown(held: Held) -> _Shown:
    suspected = held.record.suspected_at if held.record is not None else None
    told = None if suspected is None else day_and_time(suspected)
    return _Shown(id=held.id, label=held.label, life=life_of(held), suspected=told, known=held.record is not None)
