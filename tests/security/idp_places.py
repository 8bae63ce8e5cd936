"""The places where a JWT is read, each with a good one to begin from."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from security.idp_desk import Desk

from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import b64url_encode
from greatseal.jose.jwk import jwk_of, public_key
from greatseal.testing.desk import Answer

P256 = ec.generate_private_key(ec.SECP256R1())
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
TOO_OFTEN = 429
"""What a client id that failed twenty times in a minute gets in place of 401: a refusal all the same."""

Sign = Callable[[bytes], bytes]


class Place(msgspec.Struct):
    """Where a JWT is read: what a good one looks like there, and whether one was taken."""

    name: str
    header: dict[str, Any]
    claims: Callable[[], dict[str, Any]]
    sign: Sign
    taken: Callable[[str], Awaitable[bool]]
    public: list[Any]
    """The public keys that a forger knows."""

    def token(self, header: Any = None, claims: Any = None, *, sign: Sign | None = None, **changes: Any) -> str:
        """The good token, with other members of the header (None leaves one out), other claims, or another signature.

        ``header`` and ``claims`` may be whole, as bytes.
        """
        head = header if isinstance(header, bytes) else without_none({**self.header, **changes, **(header or {})})
        body = claims if isinstance(claims, bytes) else without_none({**self.claims(), **(claims or {})})
        parts = (part if isinstance(part, bytes) else json.dumps(part).encode() for part in (head, body))
        message = ".".join(map(b64url_encode, parts))
        return f"{message}.{b64url_encode((sign or self.sign)(message.encode()))}"


def without_none(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


async def places_of(desk: Desk) -> dict[str, Place]:
    ann = await desk.cookie("ann")
    tokens, client_id = await desk.tokens(ann), desk.client["client_id"]
    signer = next(one for alg, one in desk.provider.signing._signers() if alg == "ES256")
    sign = partial(ALGORITHMS["ES256"].sign, signer._key)
    ours = [public_key(jwk) for jwk in (await desk.ask("GET", "/jwks")).json["keys"]]

    def issued(typ: str, token: str) -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
        claims = dict(desk.provider.signing.verify(token, typ=frozenset({typ.lower()})))
        return {"alg": "ES256", "kid": signer.info.kid, "typ": typ}, lambda: claims

    async def at_userinfo(token: str) -> bool:
        return (await desk.userinfo(token)).status == 200

    async def at_introspection(token: str) -> bool:
        return bool((await desk.introspect(token)).get("active"))

    async def as_hint(token: str) -> bool:
        answer = await desk.authorize(ann, client_id=client_id, prompt="none", id_token_hint=token)
        return "code=" in answer.headers.get("Location", "")

    async def at_logout(token: str) -> bool:
        return (await desk.ask("GET", f"/logout?id_token_hint={token}")).status == 200

    access, identity = issued("at+jwt", tokens["access_token"]), issued("JWT", tokens["id_token"])
    # Another session id: a good hint at /logout would end the session of the other places.
    leaving = (identity[0], lambda: {**identity[1](), "sid": "another"})
    return {
        "userinfo": Place("userinfo", *access, sign, at_userinfo, ours),
        "introspect": Place("introspect", *access, sign, at_introspection, ours),
        "hint": Place("hint", *identity, sign, as_hint, ours),
        "logout": Place("logout", *leaving, sign, at_logout, ours),
        "assertion": await assertion_of(desk, "ES256", P256),
    }


async def assertion_of(desk: Desk, alg: str, key: Any, **fields: Any) -> Place:
    """The assertions of a new client, taken at the token endpoint."""
    client = await desk.registered(
        token_endpoint_auth_method="private_key_jwt",
        jwks={"keys": [jwk_of(key.public_key()) | {"kid": "k1"}]},
        grant_types=["client_credentials"],
        redirect_uris=[],
        scopes=["groups"],
        **fields,
    )
    made = iter(range(10_000))

    def claims() -> dict[str, Any]:
        now = desk.clock.now() // 1_000_000
        me = client["client_id"]
        return {"iss": me, "sub": me, "aud": desk.url, "iat": now, "exp": now + 60, "jti": f"j{next(made)}"}

    async def taken(token: str) -> bool:
        answer = await present(desk, token)
        assert answer.status in {200, 401, 413, TOO_OFTEN}, answer.text
        return answer.status == 200

    return Place(
        "assertion", {"alg": alg, "kid": "k1"}, claims, lambda message: ALGORITHMS[alg].sign(key, message), taken, [key.public_key()]
    )


async def present(desk: Desk, assertion: str, path: str = "/token", **form: str) -> Answer:
    proof = {"client_assertion": assertion, "client_assertion_type": ASSERTION}
    return await desk.ask("POST", path, data={"grant_type": "client_credentials", **proof, **form})
