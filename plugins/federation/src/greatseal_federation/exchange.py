"""From a code to somebody: the token endpoint, the ID token, and userinfo (RFC 6749 s4.1.3, OpenID Connect Core s3.1.3, s5.3)."""

from collections.abc import Mapping
from typing import Any

from greatseal.api.messages import Message
from greatseal.host import Host
from greatseal.jose.foreign import LONGEST_TEXT
from greatseal_federation.flow import Flow
from greatseal_federation.id_tokens import IdTokens, signed_in_at
from greatseal_federation.identity import Identity
from greatseal_federation.metadata import Metadata
from greatseal_federation.proof import Proofs
from greatseal_federation.refusals import StoppedThere, Untrusted
from greatseal_federation.upstreams import Upstream
from greatseal_federation.wire import Wire, object_of

NOT_ONE_OF_THEM = Message("your account there is not one of those that may sign in here; choose another one, or ask your administrator")


class Exchange:
    """Redeems codes."""

    def __init__(self, host: Host, wire: Wire, proofs: Proofs, tokens: IdTokens) -> None:
        self._host = host
        self._wire = wire
        self._proofs = proofs
        self._tokens = tokens

    async def redeem(self, upstream: Upstream, metadata: Metadata, flow: Flow, code: str) -> Identity:
        """Whom the code stands for. Raises Untrusted, StoppedThere and Unavailable."""
        proof = await self._proofs.of(upstream, metadata)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._host.issuer + upstream.callback_path,
            "code_verifier": flow.verifier,
            **proof.form,
        }
        answer = await self._wire.ask(upstream, metadata.token_endpoint, form=form, headers=proof.headers)
        tokens = object_of(answer, metadata.token_endpoint)
        access_token = tokens.get("access_token")
        if not isinstance(access_token, str) or str(tokens.get("token_type", "")).lower() != "bearer" or not access_token.isascii():
            raise Untrusted(f"{metadata.token_endpoint}: no access token of the type Bearer")
        if upstream.protocol == "oauth":
            found = await self._of_api(upstream, metadata, access_token)
        else:
            found = await self._of_token(upstream, metadata, flow, tokens.get("id_token"), access_token)
        for name, wanted in upstream.require.items():
            if found.claims.get(name) != wanted:
                raise StoppedThere(NOT_ONE_OF_THEM, cause=f"{name} is not what the configuration requires")
        return found

    async def _of_token(self, upstream: Upstream, metadata: Metadata, flow: Flow, text: object, access_token: str) -> Identity:
        if not isinstance(text, str):
            raise Untrusted(f"{metadata.token_endpoint}: no ID token; is the scope openid asked for?")
        claims = await self._tokens.verified(upstream, metadata, text, flow=flow, access_token=access_token)
        subject = _text(claims, "sub")
        more: Mapping[str, Any] = {}
        if metadata.userinfo_endpoint is not None and not wanted(upstream) <= claims.keys():
            more = await self._wire.object(upstream, metadata.userinfo_endpoint, headers=_bearer(access_token))
            if more.get("sub") != subject:  # OpenID Connect Core s5.3.2
                raise Untrusted(f"{metadata.userinfo_endpoint}: sub is not that of the ID token")
        session = claims.get("sid")
        return Identity(
            upstream=upstream,
            issuer=_text(claims, "iss") if claims["iss"] not in upstream.also_issuers else metadata.issuer,
            subject=subject,
            claims=joined(more, claims),
            session=session if isinstance(session, str) and 1 <= len(session) <= LONGEST_TEXT and session.isprintable() else None,
            id_token=text,
            proven_at=signed_in_at(claims, self._host.clock.now(), assumed=upstream.assume_auth_time),
        )

    async def _of_api(self, upstream: Upstream, metadata: Metadata, access_token: str) -> Identity:
        """An API that tells who somebody is stands in for an ID token: it was asked with the token that this very code gave."""
        if metadata.userinfo_endpoint is None:
            raise Untrusted("there is neither an ID token nor a userinfo_endpoint")
        claims = dict(await self._wire.object(upstream, metadata.userinfo_endpoint, headers=_bearer(access_token)))
        subject = claims.get(upstream.subject_claim)
        if isinstance(subject, int) and not isinstance(subject, bool):
            subject = str(subject)
        if metadata.emails_endpoint is not None:
            email = await self._email(upstream, metadata.emails_endpoint, access_token)
            claims |= {"email": email, "email_verified": email is not None}
        return Identity(
            upstream=upstream,
            issuer=metadata.issuer,
            subject=_text({"sub": subject}, "sub"),
            claims=claims,
            proven_at=self._host.clock.now() if upstream.assume_auth_time else None,
        )

    async def _email(self, upstream: Upstream, url: str, access_token: str) -> str | None:
        """The primary address where it is verified (GitHub, "List email addresses for the authenticated user")."""
        found = await self._wire.json(upstream, url, headers=_bearer(access_token))
        rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
        verified = (row.get("email") for row in rows if row.get("primary") is True and row.get("verified") is True)
        return next((email for email in verified if isinstance(email, str)), None)


def joined(more: Mapping[str, Any], claims: Mapping[str, Any]) -> dict[str, Any]:
    """Both together; the ID token counts. What is said of an e-mail address is said of that one: it comes from where the address does."""
    source = claims if "email" in claims else more
    found = {**more, **claims, "email_verified": source.get("email_verified")}
    return {name: value for name, value in found.items() if name != "email_verified" or name in source}


def wanted(upstream: Upstream) -> set[str]:
    """Claims for which userinfo is asked when the ID token has them not."""
    named = set(upstream.require)
    if upstream.subject_claim != "sub":
        named |= {upstream.subject_claim}
    if upstream.link_email_domains or upstream.realm is not None:
        named |= {"email"}
    if upstream.realm is not None:
        named |= {"name", upstream.username_claim}
        named |= {upstream.groups_claim} if upstream.groups else set()
    return named


def _bearer(access_token: str) -> Mapping[str, str]:
    if not access_token.isprintable() or " " in access_token:
        raise Untrusted("the access token has characters that no header may have")
    return {"Authorization": f"Bearer {access_token}"}


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_TEXT or not value.isprintable() or value != value.strip():
        raise Untrusted(f"{name} is missing, or no text in one line of at most {LONGEST_TEXT} characters")
    return value
