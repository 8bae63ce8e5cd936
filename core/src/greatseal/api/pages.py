"""What pages for people share: their look and forms, how they say a refusal, and the start page ``/`` that every plugin may add to."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

import msgspec

from greatseal.api.components import Component
from greatseal.api.http import Call, Parameters, Reply
from greatseal.api.identity import Headers, SessionView
from greatseal.api.messages import Message, Text
from greatseal.api.problems import Problem

if TYPE_CHECKING:
    from greatseal.api.authorization import Wanted


class StartLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the start page: ``words`` alone, leading to ``link``, or before ``value``, which is shown as one copies it.

    ``link`` is a URL, or a path of this service under its base URL, beginning with one slash.
    """

    words: Text
    link: str | None = None
    value: str | None = None


class StartPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the start page. Anybody may read it: what is not for strangers is not in it.

    ``lines`` is called for every request, when all lifespans are open; a part without lines is left out.
    """

    title: Text
    lines: Callable[[], Sequence[StartLine]]


class AccountLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a part of the account page: what it is, and what is to be said of it."""

    title: Text
    detail: Text = ""


class AccountPart(Component):
    """A part of the account page; whoever enables the plugin sees it. ``name`` is the key, and the parts are in its order."""

    title: ClassVar[Text]
    link: ClassVar[str]
    """The path of the page where the person changes it."""
    words: ClassVar[Text]
    """Of the link there."""
    empty: ClassVar[Text]
    """What is said where there are no lines."""

    async def concerns(self, session: SessionView) -> bool:
        """Whether the person has this part at all. What it raises leaves the part out."""
        return True

    @abstractmethod
    async def lines(self, session: SessionView) -> Sequence[AccountLine]:
        """Of the person of a session. What it raises is logged, and the page says that it cannot be told now."""


class Pages(Protocol):
    """Pages in the look of the service, with the headers that guard them (service PAGES)."""

    def page(
        self,
        call: Call,
        template: str,
        *,
        status: int = 200,
        headers: Headers = (),
        form_targets: Iterable[str] = (),
        frame_sources: Iterable[str] = (),
        wanted: "Wanted | None" = None,
        script: str | None = None,
        scripts: Iterable[str] = (),
        languages: Iterable[str] = (),
        **values: object,
    ) -> Reply:
        """A page from a Jinja template with ``values``, everything escaped.

        ``template`` is ``<package>/<file>`` of the folder ``templates`` in the package of a plugin. It extends ``base.html`` with its
        blocks ``title``, ``main`` and ``footer``, and has ``prefix``, the path of the issuer, to begin the paths of its links and forms
        with. A form carries ``<input type="hidden" name="form_token" value="{{ form_token }}">``, and what it is sent to asks
        :meth:`check_form`. A page that asks a person has ``wanted`` and includes ``wanted.html``, which shows it, and in its form
        ``decision.html``, the two buttons that send ``decision`` as ``approve`` or ``deny``.

        Its own words stand between ``{% trans %}`` and ``{% endtrans %}``. Of ``values`` each Message is said in the language of the page:
        the first of ``languages`` that is offered, such as those of an authorization request, else the one of the browser.

        Forms lead to this origin and to ``form_targets`` (CSP sources) alone, frames show ``frame_sources`` alone, and
        pictures are the logos of the service and of ``wanted`` alone. ``script`` is JavaScript that runs at the end of the page,
        ``scripts`` are paths of scripts that the issuer serves. No other runs, and they may ask this origin alone. Raises what Jinja
        raises: TemplateNotFound, which is a LookupError, and UndefinedError for a value that is missing.
        """

    def see_other(self, path: str, *, status: int = 303, headers: Headers = ()) -> Reply:
        """A redirect to a path of the issuer's."""

    def sign_in(self, return_to: str) -> Reply:
        """A redirect to the page where people sign in, and from there to ``return_to``, a path of the issuer's with its query."""

    def step_up(self, return_to: str) -> Reply:
        """A redirect to the page where who is signed in proves one thing more, and from there to ``return_to``."""

    def form_token(self, call: Call) -> tuple[str, Headers]:
        """The token of forms in the browser of the call, for a form that is no template, and the headers that make it good there."""

    def check_form(self, call: Call, form: Parameters) -> None:
        """Raises :class:`greatseal.http.csrf.ForeignOrigin`, a Forbidden, for a form of no page of ours, or of one that is too old."""

    def refusal(self, problem: Problem, headers: Mapping[str, str]) -> Reply:
        """How a route of style ``page`` says a problem to who sent these headers: a page for people, JSON for programs, by ``Accept``.

        The kernel asks it: a handler of such a route raises, like every other.
        """


TITLES = {
    400: Message("This request cannot be carried out"),
    401: Message("You are not signed in"),
    403: Message("You may not do this"),
    404: Message("This is not here"),
    405: Message("This page does not take that request"),
    408: Message("The request took too long"),
    409: Message("This has changed in the meantime"),
    413: Message("That was too much"),
    415: Message("This kind of content is not accepted"),
    429: Message("Too many attempts"),
    503: Message("Part of the service cannot be reached"),
}
_FAULT = Message("Something went wrong")


def title_of(status: int) -> Message:
    """The title of a page that says a refusal."""
    return TITLES.get(status, TITLES[400] if status < 500 else _FAULT)
