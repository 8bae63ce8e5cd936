"""``/login/enrol/codes``: who must have a second factor and has none gets an app here, before there is a session."""

from http import HTTPStatus

import msgspec

from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.identity import AccessDenied, Authenticated, Denied, Enrolling, LoggedIn, Login
from greatseal.api.messages import Text
from greatseal.api.otp import Holder, Token
from greatseal.api.pages import Pages
from greatseal.api.problems import BadRequest, Conflict, Problem
from greatseal.host import Host
from greatseal.http.csrf import FORM
from greatseal_otp.arithmetic import spelt
from greatseal_otp.codes import Codes
from greatseal_otp.page import POOL, WRONG, qr_code

PAGE = "/login/enrol/codes"
ADD, CONFIRM = f"{PAGE}/add", f"{PAGE}/confirm"
_ENROL, _NEW, _CODES = (f"greatseal_otp/{name}.html" for name in ("enrol", "new", "recovery"))


class EnrolPage:
    """For the person of a ticket, who has proven the password and has no token: one with a token signs in with its code."""

    def __init__(self, host: Host, login: Login, pages: Pages, codes: Codes) -> None:
        self._host = host
        self._login = login
        self._pages = pages
        self._codes = codes

    def routes(self) -> list[Route]:
        """Every route."""
        ticket = Handler("the ticket of a sign-in with the password says who")
        forms = (
            (ADD, self.add, "Make the first app of a person; the page shows its QR code this once."),
            (CONFIRM, self.confirm, "Give the first code of the app, and be signed in."),
        )
        return [
            Route("GET", PAGE, self.show, style="page", auth=ticket, summary="The page for who must have a second factor and has none."),
            *(
                Route("POST", path, handler, style="page", auth=ticket, content_types=(FORM,), summary=summary)
                for path, handler, summary in forms
            ),
        ]

    async def show(self, call: Call) -> Reply:
        ticket = await self._login.enrolling(call)
        return self._again() if ticket is None or await self._holder(ticket, call) is None else self._begin(call)

    async def add(self, call: Call) -> Reply:
        form = Parameters.parse(await call.raw())
        ticket = await self._login.enrolling(call)
        holder = None if ticket is None else await self._holder(ticket, call)
        if ticket is None or holder is None:
            return self._again()
        self._pages.check_form(call, form)
        try:
            made = await self._codes.make_for(holder, form.get("label", ""), username=ticket.authenticated.username)
        except (BadRequest, Conflict) as problem:
            return self._begin(call, problem)
        picture = await self._host.blocking.run(POOL, qr_code, made.uri)
        return self._new(call, made.token, picture=picture, uri=made.uri, key=spelt(made.key))

    async def confirm(self, call: Call) -> Reply:
        form = Parameters.parse(await call.raw())
        ticket = await self._login.enrolling(call)
        holder = None if ticket is None else await self._holder(ticket, call)
        if ticket is None or holder is None:
            return self._again()
        self._pages.check_form(call, form)
        token = next((one for one in await self._codes.tokens(holder) if one.token_id == form.get("token_id")), None)
        if token is None:
            return self._begin(call)
        if not await self._codes.confirm(holder, token.token_id, "".join(form.get("code", "").split())):
            return self._new(call, token, problem=WRONG)
        return await self._signed_in(call, ticket, holder)

    async def _signed_in(self, call: Call, ticket: Enrolling, holder: Holder) -> Reply:
        proven = ticket.authenticated
        whole: Authenticated = msgspec.structs.replace(proven, amr=tuple(dict.fromkeys((*proven.amr, "otp", "mfa"))))
        try:
            completed = await self._login.complete(call, whole, ticket.return_to)
        except (AccessDenied, Denied):
            return self._again()
        if not isinstance(completed, LoggedIn):
            return self._again()
        if not self._codes.store(holder).recovery:
            return Reply(status=303, headers=(("Location", completed.return_to), *completed.headers))
        codes = await self._codes.recovery.make(holder.subject)
        return self._pages.page(call, _CODES, headers=completed.headers, codes=codes, first=True, done=completed.return_to)

    async def _holder(self, ticket: Enrolling, call: Call) -> Holder | None:
        """The person of a ticket, None when they have a token by now."""
        holder = await self._codes.holder(ticket.authenticated.subject, call)
        return None if await self._codes.has_token(holder) else holder

    def _again(self) -> Reply:
        return self._pages.sign_in("/account")

    def _begin(self, call: Call, problem: Problem | None = None) -> Reply:
        status = HTTPStatus.OK if problem is None else problem.status
        return self._pages.page(call, _ENROL, status=status, add=ADD, problem=None if problem is None else problem.detail)

    def _new(self, call: Call, token: Token, *, picture: str = "", uri: str = "", key: str = "", problem: Text | None = None) -> Reply:
        status = HTTPStatus.OK if problem is None else HTTPStatus.BAD_REQUEST
        return self._pages.page(
            call, _NEW, status=status, action=CONFIRM, page=PAGE, token=token, picture=picture, uri=uri, key=key, problem=problem
        )
