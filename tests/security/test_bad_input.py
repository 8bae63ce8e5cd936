"""Every refusal of RFC 8555 that a client can provoke here, with its exact type and status, in one table.

The rules have tables of their own where they live: names and nonces in plugins/acme, keys and JWS in core, requests in plugins/ca.
"""

from collections.abc import Awaitable, Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from rig.acme import JOSE, Answer, Key, Site, acme_site, b64url, compact, csr_for

TERMS = "https://ca.example/terms"
UNKNOWN = "00000000-0000-8000-8000-000000000000"


class RsaKey(Key):
    alg = "RS256"

    def __init__(self, bits: int) -> None:
        self.private = rsa.generate_private_key(65537, bits)
        numbers = self.private.public_key().public_numbers()
        self.jwk = {"kty": "RSA", "n": b64url(numbers.n.to_bytes(bits // 8)), "e": b64url(numbers.e.to_bytes(3))}

    def sign(self, message: bytes) -> bytes:
        return self.private.sign(message, padding.PKCS1v15(), SHA256())


class Scene:
    """A registered client with an order in every state, a second one, and two without account, one of them with a weak key."""

    def __init__(self, site: Site) -> None:
        self.site = site

    async def prepare(self) -> "Scene":
        self.client = await self.site.client()
        self.other = await self.site.client()
        await self.site.client(RsaKey(2048))
        self.stranger = await self.site.client(register=False)
        self.weak = await self.site.client(RsaKey(1024), register=False)
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

    def finalize(self, csr: bytes | str) -> Awaitable[Answer]:
        return self.client.post(self.ready.json["finalize"], {"csr": csr if isinstance(csr, str) else b64url(csr)})


Ask = Callable[[Scene], Awaitable[Answer]]


def envelope(headers: dict[str, str] = JOSE, **changes: object) -> Ask:
    async def send(scene: Scene) -> Answer:
        whole = {**scene.client.signed(await scene.client.header(scene.orders), {}), **changes}
        return await scene.client.send(scene.orders, compact({name: value for name, value in whole.items() if value is not None}), headers)

    return send


def named(*names: object, **members: object) -> Ask:
    return lambda scene: scene.client.order(*names, **members)  # type: ignore[arg-type]


def header(**changes: object) -> Ask:
    return lambda scene: scene.client.post(scene.orders, {}, **changes)


def signed_for(change: Callable[[str], str]) -> Ask:
    return lambda scene: scene.client.post(scene.orders, {}, url=change(scene.orders))


def with_kid(change: Callable[[str], str]) -> Ask:
    return lambda scene: scene.client.post(scene.orders, {}, kid=change(scene.client.kid or ""))


def registered(**members: object) -> Ask:
    return lambda scene: scene.stranger.register(**members)


def with_jwk(change: Callable[[dict[str, str]], object]) -> Ask:
    return lambda scene: scene.stranger.post(scene.accounts, {}, jwk=change(scene.stranger.key.jwk))


def changed(payload: object) -> Ask:
    return lambda scene: scene.client.post(scene.client.kid or "", payload)


def body(raw: bytes) -> Ask:
    return lambda scene: scene.client.send(scene.orders, raw)


def of_nobody(url: str) -> str:
    return f"{url.rpartition('/')[0]}/{UNKNOWN}"


async def replayed(scene: Scene) -> Answer:
    nonce = await scene.client.nonce()
    await scene.client.post(scene.client.kid or "", None, nonce=nonce)
    return await scene.client.post(scene.client.kid or "", None, nonce=nonce)


async def at_another_host(scene: Scene) -> Answer:
    whole = await scene.client.header(scene.orders, url=scene.orders.replace("localhost", "evil.example"))
    return await scene.client.send(scene.orders, compact(scene.client.signed(whole, {})), {**JOSE, "Host": "evil.example"})


TABLE: dict[str, tuple[int, str, Ask]] = {
    # RFC 8555 s6.1, s6.2: the envelope and its header
    "GET of an order": (405, "malformed", lambda s: s.client.get(s.pending.location)),
    "GET of an account": (405, "malformed", lambda s: s.client.get(s.client.kid or "")),
    "GET of new orders": (405, "malformed", lambda s: s.client.get(s.orders)),
    "GET of new accounts": (405, "malformed", lambda s: s.client.get(s.accounts)),
    "GET of a finalization": (405, "malformed", lambda s: s.client.get(s.pending.json["finalize"])),
    "GET of an authorization": (405, "malformed", lambda s: s.client.get(s.pending.json["authorizations"][0])),
    "DELETE of an account": (405, "malformed", lambda s: s.client.get(s.client.kid or "", "DELETE")),
    "an unknown resource": (404, "malformed", lambda s: s.client.get(f"{s.site.url}/acme/nothing")),
    "another content type": (415, "malformed", envelope({"Content-Type": "application/json"})),
    "a content type with a parameter": (400, "malformed", envelope({"Content-Type": "application/jose+json; charset=utf-8"})),
    "a nonce of the server's": (400, "malformed", envelope({**JOSE, "Replay-Nonce": "x"})),
    "no JSON": (400, "malformed", body(b"{")),
    "JSON that is not strict": (400, "malformed", body(b'{"payload": "", "payload": ""}')),
    "a payload that is not strict": (400, "malformed", lambda s: s.client.post(s.orders, b'{"identifiers": NaN}')),
    "a body over the limit": (413, "malformed", body(b" " * 70_000)),
    "a compact JWS": (400, "malformed", body(b"a.b.c")),
    "an unprotected header": (400, "malformed", envelope(header={"kid": "x"})),
    "an empty unprotected header": (400, "malformed", envelope(header={})),
    "several signatures": (400, "malformed", envelope(signatures=[])),
    "no signature": (400, "malformed", envelope(signature=None)),
    "an empty signature": (400, "malformed", envelope(signature="")),
    "a number as signature": (400, "malformed", envelope(signature=5)),
    "no payload": (400, "malformed", envelope(payload=None)),
    "padding": (400, "malformed", envelope(payload="e30=")),
    "a wrong signature": (400, "malformed", envelope(signature=b64url(b"\1" * 64))),
    **{
        f"alg {alg!r}": (400, "badSignatureAlgorithm", header(alg=alg))
        for alg in ("none", "None", "HS256", "RS1", "ES256K", "", "es256")
    },
    "an alg for another key": (400, "badPublicKey", header(alg="RS256")),
    "an alg for another curve": (400, "badPublicKey", header(alg="ES384")),
    "crit": (400, "malformed", header(crit=["x"])),
    "b64": (400, "malformed", header(b64=False)),
    "jwk and kid": (400, "malformed", lambda s: s.client.post(s.orders, {}, jwk=s.client.key.jwk)),
    "neither jwk nor kid": (400, "malformed", header(kid=None)),
    "jwk where kid belongs": (400, "malformed", lambda s: s.client.post(s.orders, {}, kid=None, jwk=s.client.key.jwk)),
    "kid where jwk belongs": (400, "malformed", lambda s: s.client.post(s.accounts, {})),
    "a number as kid": (400, "malformed", header(kid=7)),
    "kid of another server": (400, "malformed", with_kid(lambda kid: kid.replace("localhost", "other.example"))),
    "kid with a slash": (400, "malformed", with_kid(lambda kid: f"{kid}/")),
    "kid in another case": (400, "malformed", with_kid(lambda kid: kid.replace("localhost", "LOCALHOST"))),
    "kid without account": (400, "accountDoesNotExist", with_kid(of_nobody)),
    "kid of no account's form": (400, "accountDoesNotExist", with_kid(lambda kid: f"{kid.rpartition('/')[0]}/7")),
    "kid of another account": (400, "malformed", lambda s: s.client.post(s.orders, {}, kid=s.other.kid)),
    "url of another resource": (401, "unauthorized", lambda s: s.client.post(s.orders, {}, url=s.accounts)),
    "url at another host": (401, "unauthorized", signed_for(lambda url: url.replace("localhost", "127.0.0.1"))),
    "url of another scheme": (401, "unauthorized", signed_for(lambda url: url.replace("http:", "https:"))),
    "url with a query": (401, "unauthorized", signed_for(lambda url: f"{url}?a=b")),
    "url with a slash": (401, "unauthorized", signed_for(lambda url: f"{url}/")),
    "url in capitals": (401, "unauthorized", signed_for(str.upper)),
    "no url": (401, "unauthorized", header(url=None)),
    "url at the host that the request names": (401, "unauthorized", at_another_host),
    # s6.5: nonces
    "no nonce": (400, "badNonce", header(nonce=None)),
    "a number as nonce": (400, "badNonce", header(nonce=7)),
    "a nonce of nobody": (400, "badNonce", header(nonce="A" * 40)),
    "a nonce used twice": (400, "badNonce", replayed),
    # s6.3: POST-as-GET
    "a payload for an order": (400, "malformed", lambda s: s.client.post(s.pending.location, {})),
    "a payload for an authorization": (400, "malformed", lambda s: s.client.post(s.ready.json["authorizations"][0], {})),
    "a payload for a certificate": (400, "malformed", lambda s: s.client.post(s.valid.json["certificate"], {})),
    # s7.3: accounts
    "an EC key of another curve": (400, "badPublicKey", with_jwk(lambda _: {"kty": "EC", "crv": "P-224", "x": "AA", "y": "AA"})),
    "a point off the curve": (400, "badPublicKey", with_jwk(lambda jwk: {**jwk, "x": jwk["y"]})),
    "a private key": (400, "badPublicKey", with_jwk(lambda jwk: {**jwk, "d": "AA"})),
    "a secret as key": (400, "badPublicKey", with_jwk(lambda _: {"kty": "oct", "k": "AA"})),
    "no key": (400, "badPublicKey", with_jwk(lambda _: {})),
    "an RSA key of 1024 bits": (400, "badPublicKey", lambda s: s.weak.register()),
    "the key of another": (
        400, "malformed", lambda s: s.stranger.post(s.accounts, {"onlyReturnExisting": True}, jwk=s.client.key.jwk)
    ),
    "no agreement": (403, "userActionRequired", registered(termsOfServiceAgreed=False)),
    "an account that does not exist": (400, "accountDoesNotExist", registered(onlyReturnExisting=True)),
    "no account and no agreement": (400, "accountDoesNotExist", registered(onlyReturnExisting=True, termsOfServiceAgreed=False)),
    **{
        f"{what} {contact}": (400, error, way(contact))
        for contact, error in (
            (["mailto:a@example.org?subject=x"], "invalidContact"),
            (["mailto:a@example.org,b@example.org"], "invalidContact"),
            (["mailto:"], "invalidContact"),
            (["mailto:a@example.org\r\nBcc: b@example.org"], "invalidContact"),
            (["mailto:a@example.org"] * 11, "invalidContact"),
            (["tel:+123"], "unsupportedContact"),
            (["a@example.org"], "unsupportedContact"),
            ("mailto:a@example.org", "malformed"),
            ([7], "malformed"),
        )
        for what, way in {
            "an account with": lambda contact: registered(contact=contact), "an update to": lambda contact: changed({"contact": contact}),
        }.items()
    },
    "an update to a status": (400, "malformed", changed({"status": "revoked"})),
    "an update that is no object": (400, "malformed", changed([])),
    # s7.4: orders
    **{
        f"identifiers {value}": (400, "malformed", named(identifiers=value))
        for value in (None, [], ["a.localhost"], [{"type": "dns"}], [{"value": "a.localhost"}], [{"type": "dns", "value": ["a.localhost"]}])
    },
    "a hundred and one names": (400, "malformed", named(*(f"n{number}.localhost" for number in range(101)))),
    "an unknown kind": (400, "unsupportedIdentifier", named({"type": "tel", "value": "+1"})),
    "a name that is none": (400, "rejectedIdentifier", named("a_b.localhost")),
    "a wildcard that nobody can prove": (400, "rejectedIdentifier", named("*.a.localhost")),
    "an onion name that nobody can prove": (400, "rejectedIdentifier", named(f"www.{'a' * 51}m2dqd.onion")),
    "an address as a name": (400, "rejectedIdentifier", named("127.0.0.1")),
    "several wrong names": (400, "compound", named("a_b.localhost", {"type": "tel", "value": "+1"})),
    "two wrong in one way": (400, "rejectedIdentifier", named("a_b.localhost", "c d.localhost")),
    **{
        f"{member} {value}": (400, "malformed", named("a.localhost", **{member: value}))
        for member, value in (
            ("notAfter", "tomorrow"), ("notAfter", 7), ("notAfter", "2026-02-30T00:00:00Z"), ("notAfter", "2001-01-01T00:00:00Z"),
            ("notAfter", "9999-12-31T23:59:59Z"), ("notBefore", "2001-01-01T00:00:00Z"), ("notBefore", "2999-01-01T00:00:00Z"),
        )
    },
    # s7.4: finalize
    "finalize while pending": (403, "orderNotReady", lambda s: s.client.finalize(s.pending.json, csr_for("pending.localhost"))),
    "finalize twice": (403, "orderNotReady", lambda s: s.client.finalize(s.valid.json, csr_for("valid.localhost"))),
    "finalize after a failure": (403, "orderNotReady", lambda s: s.client.finalize(s.failed.json, csr_for("failed.localhost"))),
    "finalize without csr": (400, "malformed", lambda s: s.client.post(s.ready.json["finalize"], {})),
    "a csr that is no base64url": (400, "badCSR", lambda s: s.finalize("+/==")),
    "a csr that is no request": (400, "badCSR", lambda s: s.finalize(b"0\x00")),
    "a csr with other names": (400, "badCSR", lambda s: s.finalize(csr_for("other.localhost"))),
    "a csr with more names": (400, "badCSR", lambda s: s.finalize(csr_for("ready.localhost", "other.localhost"))),
    "a csr over the limit": (413, "malformed", lambda s: s.finalize(bytes(64 * 1024))),
    "a csr with the account's key": (400, "badCSR", lambda s: s.finalize(csr_for("ready.localhost", key=s.client.key.private))),
    "a csr with the key of another account": (400, "badCSR", lambda s: s.finalize(csr_for("ready.localhost", key=s.other.key.private))),
    # s7.5: authorizations, challenges
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


async def test_s106_s107_s115_s117_s118_every_refusal_has_its_type_and_status(scene):
    wrong = {}
    for name, (status, error, ask) in TABLE.items():
        answer = await ask(scene)
        if (answer.status, answer.error) != (status, error):
            wrong[name] = (answer.status, answer.error, answer.body)
        elif not answer.json["detail"].isprintable() or b"evil" in answer.body or {"Location"} & answer.headers.keys():
            wrong[name] = (answer.headers, answer.body)
        elif status == 405 and "POST" not in answer.headers["Allow"]:
            wrong[name] = answer.headers
        elif error == "badSignatureAlgorithm":
            algorithms = set(answer.json["algorithms"])
            assert {"ES256", "EdDSA"} <= algorithms
            assert not {"none", "HS256"} & algorithms
    assert wrong == {}

    # Nothing was used up by any of it.
    assert (await scene.client.post(scene.pending.location)).json == scene.pending.json
    assert (await scene.client.finalize(scene.ready.json, csr_for("ready.localhost"))).status == 200
    assert (await scene.stranger.register()).status == 201


async def test_s152_values_of_other_types_and_sizes(scene):
    for value in (-1, 2**63, 2**64, 10**400, 1e308, None, True, [], {}, "\u0000"):
        asked = [
            named({"type": "dns", "value": value}), named(identifiers=value), named("a.localhost", notBefore=value, notAfter=value),
            named("a.localhost", profile=value), changed({"contact": value}), changed({"status": value}),
        ]  # fmt: skip
        answers = [await ask(scene) for ask in asked]
        assert {one.status for one in answers} <= {200, 201, 400}, value
        assert {one.error for one in answers} <= {"", "malformed", "rejectedIdentifier", "invalidProfile"}, value


async def test_a_refusal_says_what_to_do(scene):
    refused, agreed = await registered(termsOfServiceAgreed=False)(scene), await scene.stranger.register()
    assert scene.client.directory["meta"]["termsOfService"] == refused.json["instance"] == TERMS
    assert refused.links["terms-of-service"] == agreed.links["terms-of-service"] == TERMS
    compound = await named("a_b.localhost", {"type": "tel", "value": "+1"})(scene)
    kinds = {one["type"].rpartition(":")[2]: one["identifier"] for one in compound.json["subproblems"]}
    assert kinds == {
        "rejectedIdentifier": {"type": "dns", "value": "a_b.localhost"},
        "unsupportedIdentifier": {"type": "tel", "value": "+1"},
    }
