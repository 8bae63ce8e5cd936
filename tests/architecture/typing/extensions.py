"""Extensions of the authorization request: resource indicators, rich authorization requests, request objects, signed answers, a profile.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from greatseal.api.authorization import Answer, Ask, Extension, Granting, ResponseMode, Shown, Terms, Wish
from greatseal.api.clients import Client
from greatseal.api.details import DetailType, InvalidAuthorizationDetails
from greatseal.api.http import Parameters
from greatseal.api.problems import BadRequest
from greatseal.api.tokens import InvalidGrant, InvalidTarget


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    uris: tuple[str, ...]


class ResourceIndicators(Extension[Resources]):
    """RFC 8707. What was authorized bounds what a token request may name."""

    name = "resource-indicators"
    kept_as = Resources
    repeatable = frozenset({"resource"})

    async def ask(self, ask: Ask) -> Wish[Resources]:
        named = tuple(dict.fromkeys(ask.given.all("resource")))
        if not set(named) <= set(ask.client.more.get("resources", ())):
            raise InvalidTarget("a resource is not registered for this client")
        return Wish(kept=Resources(uris=named))

    def grant(self, kept: Resources | None, asked: Resources | None, terms: Terms, granting: Granting) -> Terms:
        authorized = kept.uris if kept else ()
        named = asked.uris if asked else ()
        if granting.basis == "authorization" and not set(named) <= set(authorized):
            raise InvalidTarget("a resource was not authorized")
        return msgspec.structs.replace(terms, audiences=(*terms.audiences, *(named or authorized)))


class Details(msgspec.Struct, frozen=True, kw_only=True):
    details: tuple[Mapping[str, Any], ...]


class Payments(DetailType):
    """A type of a bank: one payment, which nothing but itself narrows."""

    name = "payment"

    def check(self, detail: Mapping[str, Any], client: Client) -> None:
        if detail.keys() != {"type", "amount"} or not isinstance(detail["amount"], int):
            raise InvalidAuthorizationDetails("a payment has an amount in cents")

    async def shown(self, detail: Mapping[str, Any], subject: str) -> Shown:
        return Shown(title=f"Pay {detail['amount']} cents")


class RichAuthorization(Extension[Details]):
    """RFC 9396, after the resources."""

    name = "rich-authorization"
    kept_as = Details
    order = 10
    claims = frozenset({"authorization_details"})

    async def ask(self, ask: Ask) -> Wish[Details] | None:
        if "authorization_details" not in ask.given:
            return None
        try:
            details = msgspec.json.decode(ask.given["authorization_details"], type=tuple[dict[str, Any], ...])
        except msgspec.DecodeError:
            raise InvalidAuthorizationDetails("authorization_details: expected an array of objects") from None
        return Wish(kept=Details(details=details), scopeless=True)

    async def shown(self, kept: Details, subject: str) -> Sequence[Shown]:
        return [Shown(title=str(one["type"]), lines=tuple(one.get("actions", ()))) for one in kept.details]

    def grant(self, kept: Details | None, asked: Details | None, terms: Terms, granting: Granting) -> Terms:
        authorized = granting.exchanged.get("authorization_details", ()) if granting.basis == "exchange" else kept.details if kept else ()
        details = asked.details if asked else authorized
        if not all(one in authorized for one in details):
            raise InvalidAuthorizationDetails("more was asked for than was authorized")
        said = {"authorization_details": details} if details else {}
        return msgspec.structs.replace(terms, claims={**terms.claims, **said}, members={**terms.members, **said})


class RequestObjectFields(msgspec.Struct, frozen=True, kw_only=True):
    request_object_signing_alg: str | None = None
    require_signed_request_object: bool = False


class RequestObjects(Extension[msgspec.Struct]):
    """RFC 9101 by value; ``verified`` reads the object with the keys of the client."""

    name = "request-objects"
    fields = RequestObjectFields
    opens = "request"

    def __init__(self, verified: Callable[[Client, str], Awaitable[Mapping[str, Any]]]) -> None:
        self.verified = verified

    async def open(self, ask: Ask) -> Parameters:
        claims = await self.verified(ask.client, ask.sent["request"])
        texts = {name: value if isinstance(value, str) else msgspec.json.encode(value).decode() for name, value in claims.items()}
        return Parameters(texts.items())

    async def ask(self, ask: Ask) -> None:
        if ask.at != "token" and ask.client.more.get("require_signed_request_object") and "request" not in ask.sent:
            raise BadRequest("this client must sign its requests")


class SignedAnswers(Extension[msgspec.Struct]):
    """JARM. ``sign`` makes a JWT for a client."""

    name = "signed-answers"
    response_modes: ClassVar[Mapping[str, ResponseMode]] = {
        "jwt": "query",
        "query.jwt": "query",
        "fragment.jwt": "fragment",
        "form_post.jwt": "form_post",
    }

    def __init__(self, sign: Callable[[Mapping[str, Any]], Awaitable[str]]) -> None:
        self.sign = sign

    async def answer(self, answer: Answer) -> Mapping[str, str]:
        return {"response": await self.sign({**answer.members, "aud": answer.client.client_id})}


class BoundTo(msgspec.Struct, frozen=True, kw_only=True):
    jkt: str


class BoundCodes(Extension[BoundTo]):
    """RFC 9449 s10: the code is bound to the key that /par saw or ``dpop_jkt`` names."""

    name = "dpop-codes"
    kept_as = BoundTo

    async def ask(self, ask: Ask) -> Wish[BoundTo] | None:
        if ask.at == "token":
            return None
        named = {ask.given.get("dpop_jkt"), ask.proven.get("jkt")} - {None}
        if len(named) > 1:
            raise BadRequest("dpop_jkt is not the key of the proof")
        return next((Wish(kept=BoundTo(jkt=jkt)) for jkt in named if jkt), None)

    def grant(self, kept: BoundTo | None, asked: BoundTo | None, terms: Terms, granting: Granting) -> Terms:
        if kept is not None and granting.grant_type == "authorization_code" and granting.proven.get("jkt") != kept.jkt:
            raise InvalidGrant("the code is bound to another key")
        return terms


class StepUp(Extension[msgspec.Struct]):
    """A scope that needs a fresh sign-in of a certain strength."""

    name = "step-up"

    async def ask(self, ask: Ask) -> Wish[msgspec.Struct] | None:
        return Wish(acr=("urn:example:two-factors",), max_age=300) if "payments" in ask.given.get("scope", "").split() else None


class SignUp(Extension[msgspec.Struct]):
    """prompt=create."""

    name = "sign-up"
    prompts: ClassVar[Mapping[str, str]] = {"create": "/ui/auth/sign-up"}
