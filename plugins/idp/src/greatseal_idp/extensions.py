"""The extensions of every plugin, in their phases (:mod:`greatseal.api.authorization`): each phase in one place."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec

from greatseal.api.authorization import Answer, Ask, Extension, Granting, ResponseMode, Shown, Terms, Wish
from greatseal.api.clients import Client, ProvenRequest, Registration
from greatseal.api.http import Parameters
from greatseal.api.problems import BadRequest, Unavailable
from greatseal.api.tokens import Granted
from greatseal.host import Host
from greatseal_idp.brought import IDP, of_extension, twice

MAX_KEPT = 32_768
"""Bytes of JSON that all extensions may keep of one request: it rests with the code and the family."""
RESPONSE_MODES: Mapping[str, ResponseMode] = {"query": "query", "fragment": "fragment", "form_post": "form_post"}
PROMPTS = ("none", "login", "consent", "select_account")

Found = Extension[Any]


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What all extensions make of a request. ``kept`` are their Structs, ``more`` the same as JSON, both by name."""

    kept: Mapping[str, msgspec.Struct] = {}
    more: Mapping[str, Any] = {}
    acr: tuple[tuple[str, ...], ...] = ()
    max_age: int | None = None
    scopeless: bool = False


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """What a person is shown beside the scopes. ``keys`` are remembered with them; ``always`` asks although all is remembered."""

    shown: tuple[Shown, ...] = ()
    keys: tuple[str, ...] = ()
    always: bool = False


NO_WISHES, NO_DETAILS = Wishes(), Details()


class Extensions:
    """Asks every extension. With none enabled, nothing is asked and nothing costs."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @cached_property
    def found(self) -> tuple[Found, ...]:
        """In the order of every phase; complete from the lifespans on."""
        return tuple(sorted(self._host.components(Extension).values(), key=lambda one: (one.order, one.name)))

    @cached_property
    def asking(self) -> tuple[Found, ...]:
        """Those with a word about requests."""
        return self._with("ask")

    @cached_property
    def sealing(self) -> tuple[Found, ...]:
        """Those with a word about what is signed."""
        return self._with("seal")

    @cached_property
    def _of_tokens(self) -> tuple[Found, ...]:
        return self._with("grant")

    @cached_property
    def repeatable(self) -> frozenset[str]:
        """Parameters that may be given more than once."""
        return frozenset().union(*(one.repeatable for one in self.found))

    @cached_property
    def prompts(self) -> Mapping[str, str]:
        """The pages that sign in, by value of ``prompt``."""
        return {prompt: path for one in self.found for prompt, path in one.prompts.items()}

    @cached_property
    def modes(self) -> Mapping[str, ResponseMode]:
        """How an answer is carried, by ``response_mode``."""
        return {**RESPONSE_MODES, **{mode: carried for one in self.found for mode, carried in one.response_modes.items()}}

    @cached_property
    def claims(self) -> frozenset[str]:
        """Claims that extensions put into access tokens."""
        return frozenset().union(*(one.claims for one in self.found))

    @cached_property
    def _by_name(self) -> Mapping[str, Found]:
        return {one.name: one for one in self.found}

    @cached_property
    def openers(self) -> Mapping[str, Found]:
        """The extensions that open a parameter, by its name."""
        return {one.opens: one for one in self.found if one.opens is not None}

    @cached_property
    def _answering(self) -> Mapping[str, Found]:
        return {mode: one for one in self.found for mode in one.response_modes}

    def check(self, registration: Registration) -> None:
        """Raises InvalidClientMetadata."""
        for one in self.found:
            one.check(registration)

    def complete(self, client: Client) -> Client:
        """The client with what a profile of it means."""
        for one in self.found:
            client = one.complete(client)
        return client

    async def open(self, ask: Ask) -> Parameters:
        """The parameters in force: those inside of the one that can be opened, where one was sent."""
        sent = [name for name in self.openers if name in ask.sent]
        if not sent:
            return ask.sent
        if len(sent) > 1:
            raise BadRequest(f"{' and '.join(sorted(sent))}: a request has one of them")
        return await self.openers[sent[0]].open(ask)

    async def ask(self, ask: Ask) -> Wishes:
        """What each makes of the request. Raises what one of them refuses, and BadRequest when they keep too much."""
        concerned = [one for one in self.asking if one.concerns(ask)]
        wishes = {one.name: _own(self._name, one, wish) for one in concerned if (wish := await one.ask(ask)) is not None}
        if not wishes:
            return NO_WISHES
        kept = {name: wish.kept for name, wish in wishes.items() if wish.kept is not None}
        encoded = msgspec.json.encode(kept)
        if len(encoded) > MAX_KEPT:
            raise BadRequest("the request is too long to be kept; ask for less at once")
        return Wishes(
            kept=kept,
            more=msgspec.json.decode(encoded),
            acr=tuple(wish.acr for wish in wishes.values() if wish.acr),
            max_age=min((wish.max_age for wish in wishes.values() if wish.max_age is not None), default=None),
            scopeless=any(wish.scopeless for wish in wishes.values()),
        )

    async def shown(self, more: Mapping[str, Any], subject: str) -> Details:
        """What the person is shown of what was kept."""
        if not more:
            return NO_DETAILS
        found = [
            (one.name, part)
            for one in self._concerned(more)
            if (kept := _kept(one, more)) is not None
            for part in await one.shown(kept, subject)
        ]
        return Details(
            shown=tuple(part for _, part in found),
            keys=tuple(f"{name} {part.remember}" for name, part in found if part.remember is not None),
            always=any(part.remember is None for _, part in found),
        )

    def grant(self, granted: Granted, request: ProvenRequest, asked: Wishes) -> Granted:
        """What the tokens of this one request say. Raises what an extension refuses, Unavailable when one is gone."""
        more = granted.more or {}
        if not self._of_tokens and not more:
            return granted
        given = Terms(
            scopes=granted.scopes, audiences=granted.audiences, claims=granted.claims, members=granted.members, not_after=granted.not_after
        )
        granting, terms = _granting(granted, request), given
        for one in self._concerned(more):
            said = one.grant(_kept(one, more), asked.kept.get(one.name), terms, granting)
            terms = terms if said is terms else _checked(self._name, one, terms, said)
        if terms is given:
            return granted
        return msgspec.structs.replace(
            granted,
            scopes=terms.scopes,
            audiences=terms.audiences,
            claims=terms.claims,
            members=terms.members,
            not_after=terms.not_after,
        )

    async def answer(self, client: Client, mode: str, members: Mapping[str, str]) -> Mapping[str, str]:
        """The members of an authorization response as its mode sends them. Raises a Problem that is shown here."""
        if mode in RESPONSE_MODES:
            return members
        one = self._answering.get(mode)
        if one is None:
            raise Unavailable(
                "the answer cannot be made in the way that the application asked for", cause=f"response_mode {mode!r} is gone"
            )
        said = await one.answer(Answer(client=client, response_mode=mode, members=members))
        if "response" not in said:
            return said
        return {**said, "response": await self.seal("authorization", client, said["response"])}

    async def seal(self, kind: Literal["authorization", "id_token", "userinfo", "introspection"], client: Client, token: str) -> str:
        """A signed JWT as it goes out."""
        for one in self.sealing:
            token = await one.seal(kind, client, token)
        return token

    def _concerned(self, more: Mapping[str, Any]) -> tuple[Found, ...]:
        """Whom a token concerns. Raises Unavailable for what nobody reads any more: a token without it would say too much."""
        if not more:
            return self._of_tokens
        if gone := more.keys() - self._by_name.keys():
            raise Unavailable("a part of this service that the authorization needs is not there now", cause=f"no extension {min(gone)!r}")
        return self.found

    def _name(self, one: Found) -> str:
        return str(of_extension(self._host, one.name))

    def _with(self, phase: str) -> tuple[Found, ...]:
        return tuple(one for one in self.found if getattr(type(one), phase) is not getattr(Extension, phase))


def _kept(one: Found, more: Mapping[str, Any]) -> Any:
    if one.name not in more:
        return None
    if one.kept_as is None:
        raise TypeError(f"the extension {one.name} kept something and has no kept_as")
    try:
        return msgspec.convert(more[one.name], one.kept_as)
    except msgspec.ValidationError as error:
        raise Unavailable("what was authorized cannot be read now", cause=f"extension {one.name!r}: {error}") from error


def _own(who: Callable[[Found], str], one: Found, wish: Wish[Any]) -> Wish[Any]:
    if wish.kept is not None and not (one.kept_as is not None and isinstance(wish.kept, one.kept_as)):
        raise TypeError(f"{who(one)}: ask keeps a {type(wish.kept).__name__}; its kept_as is {one.kept_as}")
    return wish


def _granting(granted: Granted, request: ProvenRequest) -> Granting:
    return Granting(
        grant_type=request.form["grant_type"],
        client=request.client,
        subject=granted.subject,
        cnf=request.cnf,
        proven=request.proven,
        basis="exchange" if granted.exchanged is not None else "client" if granted.more is None else "authorization",
        exchanged=granted.exchanged or {},
    )


def _checked(who: Callable[[Found], str], one: Found, before: Terms, terms: object) -> Terms:
    """Terms that stay within what an extension may do; whatever else is a fault of it, and no token is issued."""
    if not isinstance(terms, Terms):
        raise TypeError(f"{who(one)}: grant returned {terms!r}; it returns Terms")
    if more := set(terms.scopes) - set(before.scopes):
        raise TypeError(f"{who(one)}: grant adds the scope {min(more)!r}; scopes may only shrink")
    if more := {name for name in terms.claims if name not in one.claims and terms.claims[name] != before.claims.get(name)}:
        raise TypeError(f"{who(one)}: grant sets the claim {min(more)!r}, which is not among its claims; declare it there")
    ends = [moment for moment in (before.not_after, terms.not_after) if moment is not None]
    return msgspec.structs.replace(terms, not_after=min(ends, default=None))


def problems(host: Host, found: Sequence[Found], reserved: frozenset[str]) -> list[str]:
    """What is wrong with extensions together, one line each. ``reserved`` are claims of tokens that are this service's own."""
    owned = dict.fromkeys([*(f"prompt {prompt!r}" for prompt in PROMPTS), *(f"response mode {mode!r}" for mode in RESPONSE_MODES)], IDP)
    owned |= dict.fromkeys((f"claim {name!r} of access tokens" for name in reserved), IDP)
    wrong = []
    for one in found:
        me = of_extension(host, one.name)
        brought = [f"prompt {prompt!r}" for prompt in one.prompts] + [f"response mode {mode!r}" for mode in one.response_modes]
        brought += [f"claim {name!r} of access tokens" for name in sorted(one.claims & reserved)]
        brought += [f"parameter {one.opens!r}"] if one.opens is not None else []
        wrong += [f"{me} declares {what} and has no {phase} of its own; write it" for what, phase in _unkept(one)]
        wrong += [twice(f"the {what}", owned[what], me) for what in brought if owned.setdefault(what, me) != me]
    return wrong


def _unkept(one: Found) -> list[tuple[str, str]]:
    """What an extension declares without the phase that does it, with the phase."""
    declared = [("opens", "open", one.opens is not None), ("response_modes", "answer", bool(one.response_modes))]
    return [(what, phase) for what, phase, there in declared if there and getattr(type(one), phase) is getattr(Extension, phase)]
