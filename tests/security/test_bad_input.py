"""Every refusal of RFC 8555 that a client can provoke here, with its exact type and status, in one table."""

from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from rig.acme import JOSE, AcmeClient, Answer, Site, acme_site, b64url, compact, csr_for

TERMS = "https://ca.example/terms"
UNKNOWN = "00000000-0000-8000-8000-000000000000"


class Scene:
    """A registered client with an order in every state, a second client, and one without account."""

    def __init__(self, site: Site) -> None:
        self.site = site

    async def prepare(self) -> "Scene":
        self.client = await self._registered()
        self.other = await self._registered()
        self.stranger = await self.site.client(register=False)
        self.gone = await self._registered()
        await self.gone.post(self.gone.kid or "", {"status": "deactivated"})
        self.orders = self.client.directory["newOrder"]
        self.accounts = self.client.directory["newAccount"]
        self.pending = await self.client.order("pending.localhost")
        self.ready = await self.client.ready(self.site.responder, "ready.localhost")
        done = await self.client.ready(self.site.responder, "valid.localhost")
        self.valid = await self.client.finalize(done.json, csr_for("valid.localhost"))
        self.failed = await self.client.order("failed.localhost")
        challenge = await self.client.challenge(self.failed.json["authorizations"][0])
        await self.client.post(challenge["url"], {})
        await self.client.until(self.failed.json["authorizations"][0], "pending")
        return self

    async def _registered(self) -> AcmeClient:
        client = await self.site.client(register=False)
        answer = await client.register(termsOfServiceAgreed=True)
        assert answer.status == 201, answer.body
        return client

    def finalize(self, csr: bytes | str) -> Awaitable[Answer]:
        return self.client.post(self.ready.json["finalize"], {"csr": csr if isinstance(csr, str) else b64url(csr)})

    def envelope(self, **changes: object) -> Callable[[], Awaitable[Answer]]:
        async def send() -> Answer:
            whole = {**self.client.signed(await self.client.header(self.orders), {}), **changes}
            return await self.client.send(self.orders, compact({name: value for name, value in whole.items() if value is not None}))

        return send


def named(*names: object, **members: object) -> Callable[[Scene], Awaitable[Answer]]:
    return lambda scene: scene.client.order(*names, **members)  # type: ignore[arg-type]


def header(**changes: object) -> Callable[[Scene], Awaitable[Answer]]:
    return lambda scene: scene.client.post(scene.orders, {}, **changes)


def registered(**members: object) -> Callable[[Scene], Awaitable[Answer]]:
    return lambda scene: scene.stranger.post(
        scene.accounts, {"termsOfServiceAgreed": True, **members}, jwk=scene.stranger.key.jwk, kid=None
    )


def changed(payload: object) -> Callable[[Scene], Awaitable[Answer]]:
    return lambda scene: scene.client.post(scene.client.kid or "", payload)


def body(raw: bytes, headers: dict[str, str] = JOSE) -> Callable[[Scene], Awaitable[Answer]]:
    return lambda scene: scene.client.send(scene.orders, raw, headers)


async def forged(scene: Scene) -> Answer:
    return await scene.envelope(signature=b64url(b"\1" * 64))()


async def replayed(scene: Scene) -> Answer:
    nonce = await scene.client.nonce()
    await scene.client.post(scene.client.kid or "", None, nonce=nonce)
    return await scene.client.post(scene.client.kid or "", None, nonce=nonce)


async def without_nonce(scene: Scene) -> Answer:
    whole = await scene.client.header(scene.orders)
    del whole["nonce"]
    return await scene.client.send(scene.orders, compact(scene.client.signed(whole, {})))


def weak_rsa() -> dict[str, str]:
    numbers = rsa.generate_private_key(65537, 1024).public_key().public_numbers()
    return {"kty": "RSA", "n": b64url(numbers.n.to_bytes(128)), "e": "AQAB"}


TABLE: dict[str, tuple[int, str, Callable[[Scene], Awaitable[Answer]]]] = {
    # RFC 8555 s6.1, s6.2: the envelope and its header
    "GET of an order": (405, "malformed", lambda s: s.client.get(s.pending.location)),
    "DELETE of an account": (405, "malformed", lambda s: s.client.get(s.client.kid or "", "DELETE")),
    "an unknown resource": (404, "malformed", lambda s: s.client.get(f"{s.site.url}/acme/nothing")),
    "another content type": (415, "malformed", body(b"{}", {"Content-Type": "application/json"})),
    "no JSON": (400, "malformed", body(b"{")),
    "a body over the limit": (413, "malformed", body(b" " * 70_000)),
    "a compact JWS": (400, "malformed", body(b"a.b.c")),
    "an unprotected header": (400, "malformed", lambda s: s.envelope(header={"kid": "x"})()),
    "several signatures": (400, "malformed", lambda s: s.envelope(signatures=[])()),
    "no signature": (400, "malformed", lambda s: s.envelope(signature=None)()),
    "no payload": (400, "malformed", lambda s: s.envelope(payload=None)()),
    "padding": (400, "malformed", lambda s: s.envelope(payload="e30=")()),
    "a wrong signature": (400, "malformed", forged),
    "alg none": (400, "badSignatureAlgorithm", header(alg="none")),
    "alg HS256": (400, "badSignatureAlgorithm", header(alg="HS256")),
    "an alg for another key": (400, "badPublicKey", header(alg="RS256")),
    "crit": (400, "malformed", header(crit=["x"])),
    "jwk and kid": (400, "malformed", lambda s: s.client.post(s.orders, {}, jwk=s.client.key.jwk)),
    "neither jwk nor kid": (400, "malformed", header(kid=None)),
    "jwk where kid belongs": (400, "malformed", lambda s: s.client.post(s.orders, {}, kid=None, jwk=s.client.key.jwk)),
    "kid where jwk belongs": (400, "malformed", lambda s: s.client.post(s.accounts, {})),
    "kid of another server": (400, "malformed", header(kid="https://other.example/acme/account/1")),
    "kid without account": (400, "accountDoesNotExist", lambda s: s.client.post(s.orders, {}, kid=f"{s.site.url}/acme/account/{UNKNOWN}")),
    "kid of another account": (400, "malformed", lambda s: s.client.post(s.orders, {}, kid=s.other.kid)),
    "url of another resource": (401, "unauthorized", lambda s: s.client.post(s.orders, {}, url=s.accounts)),
    # s6.5: nonces
    "no nonce": (400, "badNonce", without_nonce),
    "a nonce of nobody": (400, "badNonce", header(nonce="A" * 40)),
    "a nonce used twice": (400, "badNonce", replayed),
    # s6.3: POST-as-GET
    "a payload where none belongs": (400, "malformed", lambda s: s.client.post(s.pending.location, {})),
    # s7.3: accounts
    "an EC key of another curve": (
        400, "badPublicKey", lambda s: s.stranger.post(s.accounts, {}, jwk={"kty": "EC", "crv": "P-224", "x": "AA", "y": "AA"}),
    ),
    "a point off the curve": (
        400, "badPublicKey", lambda s: s.stranger.post(s.accounts, {}, jwk={**s.stranger.key.jwk, "x": s.stranger.key.jwk["y"]}),
    ),
    "a private key": (400, "badPublicKey", lambda s: s.stranger.post(s.accounts, {}, jwk={**s.stranger.key.jwk, "d": "AA"})),
    "an RSA key of 1024 bits": (400, "badPublicKey", lambda s: s.stranger.post(s.accounts, {}, jwk=weak_rsa(), alg="RS256")),
    "no agreement": (403, "userActionRequired", registered(termsOfServiceAgreed=False)),
    "an account that does not exist": (400, "accountDoesNotExist", registered(onlyReturnExisting=True)),
    "a telephone": (400, "unsupportedContact", registered(contact=["tel:+1"])),
    "mail header fields": (400, "invalidContact", registered(contact=["mailto:a@b.example?subject=x"])),
    "two addresses": (400, "invalidContact", registered(contact=["mailto:a@b.example,c@d.example"])),
    "a contact that is no text": (400, "malformed", registered(contact=[7])),
    "an update with a bad contact": (400, "invalidContact", changed({"contact": ["mailto:x"]})),
    "an update to a status": (400, "malformed", changed({"status": "revoked"})),
    "an update that is no object": (400, "malformed", changed([])),
    "another's account": (401, "unauthorized", lambda s: s.client.post(s.other.kid or "")),
    "a deactivated account": (401, "unauthorized", lambda s: s.gone.post(s.orders, {})),
    "the key of a deactivated account": (401, "unauthorized", lambda s: s.gone.post(s.accounts, {}, kid=None, jwk=s.gone.key.jwk)),
    # s7.4: orders
    "no identifiers": (400, "malformed", named()),
    "identifiers of no kind": (400, "malformed", named({"value": "a.localhost"})),
    "an unknown kind": (400, "unsupportedIdentifier", named({"type": "tel", "value": "+1"})),
    "a name that is none": (400, "rejectedIdentifier", named("a_b.localhost")),
    "a wildcard that nobody can prove": (400, "rejectedIdentifier", named("*.a.localhost")),
    "an address as a name": (400, "rejectedIdentifier", named("127.0.0.1")),
    "several wrong names": (400, "compound", named("a_b.localhost", {"type": "tel", "value": "+1"})),
    "two wrong in one way": (400, "rejectedIdentifier", named("a_b.localhost", "c d.localhost")),
    "a time that is none": (400, "malformed", named("a.localhost", notBefore="yesterday")),
    "an end before the beginning": (400, "malformed", named("a.localhost", notAfter="2001-01-01T00:00:00Z")),
    "another's order": (401, "unauthorized", lambda s: s.other.post(s.pending.location)),
    "an order that does not exist": (401, "unauthorized", lambda s: s.client.post(f"{s.site.url}/acme/order/{UNKNOWN}")),
    # s7.4: finalize
    "finalize while pending": (403, "orderNotReady", lambda s: s.client.finalize(s.pending.json, csr_for("pending.localhost"))),
    "finalize twice": (403, "orderNotReady", lambda s: s.client.finalize(s.valid.json, csr_for("valid.localhost"))),
    "finalize after a failure": (403, "orderNotReady", lambda s: s.client.finalize(s.failed.json, csr_for("failed.localhost"))),
    "finalize without csr": (400, "malformed", lambda s: s.client.post(s.ready.json["finalize"], {})),
    "a csr that is no base64url": (400, "badCSR", lambda s: s.finalize("+/==")),
    "a csr that is no request": (400, "badCSR", lambda s: s.finalize(b"0\x00")),
    "a csr with other names": (400, "badCSR", lambda s: s.finalize(csr_for("other.localhost"))),
    "a csr with more names": (400, "badCSR", lambda s: s.finalize(csr_for("ready.localhost", "other.localhost"))),
    "a csr with the account's key": (400, "badCSR", lambda s: s.finalize(csr_for("ready.localhost", key=s.client.key.private))),
    # s7.4.2, s7.5: certificates, authorizations, challenges
    "another's certificate": (401, "unauthorized", lambda s: s.other.post(s.valid.json["certificate"])),
    "another's authorization": (401, "unauthorized", lambda s: s.other.post(s.pending.json["authorizations"][0])),
    "an authorization set to valid": (400, "malformed", lambda s: s.client.post(s.pending.json["authorizations"][0], {"status": "valid"})),
    "a challenge type that is not offered": (
        401, "unauthorized", lambda s: s.client.post(f"{s.pending.json['authorizations'][0].replace('authz', 'chall')}/dns-99", {}),
    ),
    "a challenge answer that is no object": (
        400, "malformed", lambda s: s.client.post(f"{s.pending.json['authorizations'][0].replace('authz', 'chall')}/http-01", []),
    ),
}  # fmt: skip


@pytest.fixture
async def scene(start_service):
    async with acme_site(start_service, server={"terms_of_service_url": TERMS}) as site:
        yield await Scene(site).prepare()


async def test_bad_input_every_refusal_has_its_type_and_status(scene):
    wrong = {}
    for name, (status, error, ask) in TABLE.items():
        answer = await ask(scene)
        if (answer.status, answer.error) != (status, error):
            wrong[name] = (answer.status, answer.error, answer.body)
        elif answer.headers["Content-Type"] != "application/problem+json" or not answer.json["detail"].isprintable():
            wrong[name] = answer.body
    assert wrong == {}

    # Nothing was used up by any of it.
    assert (await scene.client.post(scene.pending.location)).json == scene.pending.json
    assert (await scene.client.finalize(scene.ready.json, csr_for("ready.localhost"))).status == 200


async def test_bad_input_a_refusal_says_what_to_do(scene):
    refused = await registered(termsOfServiceAgreed=False)(scene)
    assert refused.json["instance"] == TERMS
    assert refused.links["terms-of-service"] == TERMS
    compound = await named("a_b.localhost", {"type": "tel", "value": "+1"})(scene)
    kinds = {one["type"].rpartition(":")[2]: one["identifier"] for one in compound.json["subproblems"]}
    assert kinds == {
        "rejectedIdentifier": {"type": "dns", "value": "a_b.localhost"},
        "unsupportedIdentifier": {"type": "tel", "value": "+1"},
    }
    async with aiohttp.ClientSession() as session, session.delete(scene.pending.location) as answer:
        assert answer.headers["Allow"] == "OPTIONS, POST"
