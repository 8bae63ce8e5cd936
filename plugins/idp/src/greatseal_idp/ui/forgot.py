"""The pages of a forgotten password: one that asks for a name, and one behind the link in the mail. Neither needs a script."""

from greatseal.api.declarations import Secret
from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.identity import AccountRefused, ChangeRefused
from greatseal.api.messages import Message, Text
from greatseal.api.problems import BadRequest, NotFound, Problem, RateLimited
from greatseal.host import Host
from greatseal.http.csrf import FORM, ForeignOrigin
from greatseal_idp.clients.authentication import read_form
from greatseal_idp.owners import owner_of_handle
from greatseal_idp.pages.causes import said
from greatseal_idp.pages.render import Pages
from greatseal_idp.pages.return_to import FORGOT, RESET
from greatseal_idp.sessions.resets import KIND, Resets
from greatseal_idp.ui.login import STALE


class ForgotPassword:
    """``/login/forgot`` and ``/login/reset``."""

    def __init__(self, host: Host, *, resets: Resets, pages: Pages) -> None:
        self._host = host
        self._resets = resets
        self._pages = pages

    def routes(self) -> list[Route]:
        anybody = Handler("who forgot a password cannot sign in")
        owner = owner_of_handle(self._host, ("link", KIND))
        types = (FORM,)
        return [
            Route("GET", FORGOT, self.show, style="page", auth=anybody, summary="The page for a forgotten password."),
            Route("POST", FORGOT, self.ask, style="page", auth=anybody, content_types=types, summary="Send a link by mail."),
            Route("GET", RESET, self.choose, style="page", auth=anybody, summary="The page behind that link.", owner=owner),
            Route("POST", RESET, self.set, style="page", auth=anybody, content_types=types, summary="Set a new password.", owner=owner),
        ]

    async def show(self, call: Call) -> Reply:
        self._require_offered()
        return self._asking(call)

    async def ask(self, call: Call) -> Reply:
        self._require_offered()
        form = await read_form(call)
        try:
            self._pages.check_form(call, form)
            await self._resets.ask(call, form.get("username", ""))
        except ForeignOrigin as problem:
            return self._asking(call, STALE, problem)
        except (BadRequest, RateLimited) as problem:
            return self._asking(call, said(problem), problem)
        return self._asking(call, sent=True)

    async def choose(self, call: Call) -> Reply:
        """The link is not used up by looking at it: programs that scan mails follow links too."""
        self._require_offered()
        return await self._choosing(call, call.query.get("link", ""))

    async def set(self, call: Call) -> Reply:
        self._require_offered()
        form = await read_form(call)
        link = form.get("link", "")
        try:
            self._pages.check_form(call, form)
            done = await self._resets.set(call, link, _typed(form))
        except ForeignOrigin as problem:
            return await self._choosing(call, link, (STALE,), problem)
        except (BadRequest, RateLimited, AccountRefused) as problem:
            return await self._choosing(call, link, (said(problem),), problem)
        if isinstance(done, ChangeRefused):
            return await self._choosing(call, link, done.messages or (Message("the new password was refused"),), BadRequest())
        return self._page(call, "done") if done else self._page(call, "over", status=403)

    def _require_offered(self) -> None:
        if not self._resets.offered:
            raise NotFound(Message("nobody chooses a new password by mail here"))

    def _asking(self, call: Call, problem: Text | None = None, cause: Problem | None = None, *, sent: bool = False) -> Reply:
        status, headers = (200, ()) if cause is None else (cause.status, tuple(cause.headers.items()))
        return self._pages.page(call, "forgot.html", status=status, headers=headers, action=FORGOT, problem=problem, sent=sent)

    async def _choosing(self, call: Call, link: str, problems: tuple[Text, ...] = (), cause: Problem | None = None) -> Reply:
        row = await self._resets.read(link)
        if row is None:
            return self._page(call, "over", status=403)
        return self._page(call, "form", link=link, username=row.username, problems=problems, cause=cause)

    def _page(
        self,
        call: Call,
        state: str,
        *,
        status: int = 200,
        link: str = "",
        username: str = "",
        problems: tuple[Text, ...] = (),
        cause: Problem | None = None,
    ) -> Reply:
        headers = () if cause is None else tuple(cause.headers.items())
        return self._pages.page(
            call,
            "reset.html",
            status=status if cause is None else cause.status,
            headers=headers,
            action=RESET,
            forgot=FORGOT,
            state=state,
            link=link,
            username=username,
            problems=problems,
        )


def _typed(form: Parameters) -> Secret:
    new = form.get("new_password")
    if not new:
        raise BadRequest(Message("enter a new password"))
    if form.get("new_password_again") != new:
        raise BadRequest(Message("the new password and its repetition differ"))
    return Secret(new)
