"""OpenID Federation 1.0: what the service says of itself, and a client that nobody registered, by a trust chain of three entities."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from click.testing import CliRunner
from rig.documents import Documents, documents
from rig.federation import Entity, Program
from security.idp_desk import BROWSER, PASSWORD, Desk, open_desk

from greatseal.cli import main
from greatseal.jose.compact import b64url_decode, parse_compact
from greatseal.jose.keysets import read_key_set
from greatseal.testing.ctl import Ctl, quiet
from greatseal.testing.desk import CALLBACK, CHALLENGE, VERIFIER, Answer, hidden_fields, told

WELL_KNOWN = "/.well-known/openid-federation"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
STATEMENT = "Content-Type: application/entity-statement+jwt\r\n"


class Federation:
    """Anchor, intermediate and relying party, all behind one server."""

    def __init__(self, web: Documents) -> None:
        web.headers = STATEMENT
        self.web = web
        self.anchor = Entity(web.url("/anchor"))
        self.mid = Entity(web.url("/mid"), self.anchor)
        self.rp = Program(web.url("/rp"), self.mid)
        self.serial = 0
        self.publish()

    def publish(self, **changes: Any) -> None:
        """All that they say, with ``changes`` of the relying party's metadata."""
        self.rp.metadata["openid_relying_party"] |= changes
        for one in (self.anchor, self.mid, self.rp):
            self.web.pages[f"{self.path(one)}{WELL_KNOWN}"] = one.configuration().encode()
        self.says(self.anchor, self.mid)
        self.says(self.mid, self.rp)

    def says(self, issuer: Entity, subject: Entity, **changes: Any) -> None:
        self.web.pages[f"{self.path(issuer)}/fetch?sub={subject.id}"] = issuer.about(subject, **changes).encode()

    def path(self, one: Entity) -> str:
        return one.id.removeprefix(self.web.url(""))

    def object(self, desk: Desk, *, header: Mapping[str, Any] = {}, **changes: Any) -> str:
        """A request object (s12.1.1.1)."""
        self.serial += 1
        claims = {
            "aud": desk.url, "iss": self.rp.id, "client_id": self.rp.id, "jti": f"j{self.serial}", "exp": int(time.time()) + 60,
            "redirect_uri": CALLBACK, "response_type": "code", "scope": "openid profile", "state": "s", "nonce": "n",
            "code_challenge": CHALLENGE, "code_challenge_method": "S256", **changes,
        }  # fmt: skip
        return self.rp.proof(claims, **header)

    def proof(self, desk: Desk, **changes: Any) -> dict[str, str]:
        """The form members by which it authenticates."""
        self.serial += 1
        now = int(time.time())
        claims = {"iss": self.rp.id, "sub": self.rp.id, "aud": desk.url, "jti": f"a{self.serial}", "iat": now, "exp": now + 60, **changes}
        return {"client_assertion_type": ASSERTION, "client_assertion": self.rp.proof(claims, typ="JWT")}


@pytest.fixture
async def fed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Federation]:
    async with documents(tmp_path, monkeypatch, "fed.example") as web:
        yield Federation(web)


@asynccontextmanager
async def opened(folder: Path, fed: Federation, *features: str, **settings: Any) -> AsyncIterator[Desk]:
    federation = {
        "authority_hints": [fed.mid.id],
        "organization_name": "Example",
        "trust_anchors": [{"entity_id": fed.anchor.id, "jwks": fed.anchor.jwks}],
        "allow_private_entity_hosts": True,
        **settings,
    }
    plugins = ("client-auth-jwt", "resolver", "jar", "openid-federation", *features)
    async with open_desk(folder, *plugins, federation=federation, resolver={"hosts": {"fed.example": ["127.0.0.1"]}}) as desk:
        yield desk


@pytest.fixture
async def desk(tmp_path: Path, fed: Federation) -> AsyncIterator[Desk]:
    async with opened(tmp_path, fed) as desk:
        yield desk


async def ask(desk: Desk, fed: Federation, request: str | None, cookie: str = "", **more: Any) -> Answer:
    """At /authorize, with a signed request or without one."""
    given = {"client_id": fed.rp.id, "request": request, **more}
    return await desk.get("/authorize?" + "&".join(f"{name}={value}" for name, value in given.items() if value is not None), cookie=cookie)


async def push(desk: Desk, fed: Federation, **more: Any) -> Answer:
    """At /par, with client authentication."""
    request = {"redirect_uri": CALLBACK, "response_type": "code", "scope": "openid", "code_challenge": CHALLENGE}
    form = {"client_id": fed.rp.id, "code_challenge_method": "S256", **request, **fed.proof(desk), **more}
    return await desk.post("/par", data={name: value for name, value in form.items() if value is not None})


async def redeem(desk: Desk, fed: Federation, code: str) -> Answer:
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    return await desk.post("/token", data={**form, **fed.proof(desk)})


async def code_of(desk: Desk, asked: Answer, cookie: str) -> str:
    """What comes of it when the person allows it."""
    assert asked.status == 303, asked.text
    if asked.location.startswith(CALLBACK):
        return told(asked)["code"]
    page = await desk.get(asked.location, cookie=cookie, headers=BROWSER)
    return told(await desk.approve(cookie, hidden_fields(page)))["code"]


def claims_of(token: str) -> Any:
    return json.loads(b64url_decode(token.split(".")[1]))


async def test_idp_185_the_service_says_what_it_is(desk: Desk, fed: Federation) -> None:
    answer = await desk.get(WELL_KNOWN)
    jws, claims = parse_compact(answer.text), claims_of(answer.text)
    (key,) = read_key_set(claims["jwks"])
    openid, oauth = [(await desk.get(f"/.well-known/{name}")).json for name in ("openid-configuration", "oauth-authorization-server")]
    signed = {"signed_jwks_uri": f"{desk.url}/openid-federation/jwks"}

    assert answer.headers["Content-Type"] == "application/entity-statement+jwt"
    assert jws.header == {"typ": "entity-statement+jwt", "alg": "ES256", "kid": key.kid}
    assert key.signed(jws)
    assert claims["iss"] == claims["sub"] == desk.url
    assert claims["exp"] == claims["iat"] + 86_400
    assert claims["authority_hints"] == [fed.mid.id]
    assert claims["trust_anchor_hints"] == [fed.anchor.id]
    assert claims["metadata"] == {
        "federation_entity": {"organization_name": "Example"},
        "openid_provider": {**openid, **signed},
        "oauth_authorization_server": {**oauth, **signed},
    }
    assert openid["client_registration_types_supported"] == ["automatic"]
    assert "trust_marks" not in claims
    tokens = (await desk.get("/jwks")).json["keys"]
    assert key.kid not in [one["kid"] for one in tokens], "federation keys are for nothing else"

    keys = await desk.get("/openid-federation/jwks")
    assert keys.headers["Content-Type"] == "application/jwk-set+jwt"
    assert key.signed(parse_compact(keys.text))
    assert parse_compact(keys.text).header["typ"] == "jwk-set+jwt"
    assert claims_of(keys.text)["keys"] == tokens
    assert (await desk.get(WELL_KNOWN)).text == answer.text
    desk.clock.advance(3_600)
    assert claims_of((await desk.get(WELL_KNOWN)).text)["iat"] == claims["iat"] + 3_600


async def test_idp_185_switched_off_there_is_nothing(tmp_path: Path, fed: Federation) -> None:
    async with opened(tmp_path, fed, entity_enabled=False) as desk:
        assert (await desk.get(WELL_KNOWN)).status == (await desk.get("/openid-federation/jwks")).status == 404
        assert "client_registration_types_supported" not in (await desk.get("/.well-known/openid-configuration")).json
        assert (await ask(desk, fed, fed.object(desk))).status == 400
    assert fed.web.asked == []


async def test_idp_185_alone_it_is_an_entity_without_superiors_and_without_clients(tmp_path: Path, fed: Federation) -> None:
    async with opened(tmp_path, fed, trust_anchors=[], authority_hints=[]) as desk:
        claims = claims_of((await desk.get(WELL_KNOWN)).text)
        assert (await ask(desk, fed, fed.object(desk))).status == 400

    assert not claims.keys() & {"authority_hints", "trust_anchor_hints"}
    assert "client_registration_types_supported" not in claims["metadata"]["openid_provider"]
    assert fed.web.asked == []


async def test_a_client_of_the_federation_signs_a_person_in_by_a_signed_request(desk: Desk, fed: Federation) -> None:
    cookie = await desk.cookie("ann")
    asked = await ask(desk, fed, fed.object(desk), cookie)
    page = await desk.get(asked.location, cookie=cookie, headers=BROWSER)
    code = told(await desk.approve(cookie, hidden_fields(page)))["code"]
    answer = await redeem(desk, fed, code)

    assert "An app of the federation" in page.text
    assert f"fed.example:{fed.web.port}" in page.text
    assert answer.status == 200, answer.text
    identity = claims_of(answer.json["id_token"])
    assert (identity["aud"], identity["nonce"]) == (fed.rp.id, "n")
    assert len(fed.web.asked) == len(set(fed.web.asked)) == 5
    again = await ask(desk, fed, fed.object(desk), cookie)
    assert "code" in told(again), "the person is asked once, and no chain is looked for again"
    assert len(fed.web.asked) == 5


async def test_a_client_of_the_federation_pushes_its_request(desk: Desk, fed: Federation) -> None:
    cookie = await desk.cookie("ann")
    pushed = await push(desk, fed)
    assert pushed.status == 201, pushed.text
    asked = await ask(desk, fed, None, cookie, request_uri=pushed.json["request_uri"])

    assert (await redeem(desk, fed, await code_of(desk, asked, cookie))).status == 200


async def test_a_pushed_request_may_be_signed_too(desk: Desk, fed: Federation) -> None:
    signed = {"request": fed.object(desk), "redirect_uri": None, "response_type": None, "code_challenge": None, "scope": None}
    assert (await push(desk, fed, **signed, code_challenge_method=None)).status == 201
    assert (await push(desk, fed, **signed, code_challenge_method=None)).outcome == (400, "invalid_request_object")


async def test_a_request_that_proves_nothing_is_refused(desk: Desk, fed: Federation) -> None:
    plain = {
        "redirect_uri": CALLBACK,
        "response_type": "code",
        "scope": "openid",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    nobody = await ask(desk, fed, None, **plain)
    somebody = await ask(desk, fed, None, await desk.cookie("ann"), **plain)

    assert nobody.shown
    assert "signs its request" in nobody.json["error_description"]
    assert told(somebody)["error"] == "invalid_request"
    assert "code" in told(await desk.authorize(await desk.cookie("ann"))), "a client of the registry asks as before"
    unproven = await push(desk, fed, client_assertion=None, client_assertion_type=None)
    assert unproven.outcome == (401, "invalid_client")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"aud": "https://other.example"}, "aud"),
        ({"aud": None}, "aud"),
        ({"jti": None}, "jti"),
        ({"jti": ""}, "jti"),
        ({"exp": None}, "exp"),
        ({"exp": 1}, "expired"),
        ({"exp": int(time.time()) + 86_400}, "exp"),
        ({"sub": "x"}, "sub"),
        ({"iss": "https://other.example"}, "iss"),
        ({"client_id": "https://other.example"}, "client_id"),
    ],
)
async def test_a_request_object_that_lacks_what_the_federation_asks(desk: Desk, fed: Federation, changes: Any, said: str) -> None:
    answer = await ask(desk, fed, fed.object(desk, **changes))

    assert answer.outcome == (400, "invalid_request_object")
    assert said in answer.json["error_description"]


async def test_who_a_request_object_is_for_stands_alone_and_it_is_good_once(desk: Desk, fed: Federation) -> None:
    cookie = await desk.cookie("ann")
    more = await ask(desk, fed, fed.object(desk, aud=[desk.url, "https://other.example"]), cookie)
    one = fed.object(desk, aud=[desk.url])
    first = await ask(desk, fed, one, cookie)
    outcomes = [(await ask(desk, fed, one, cookie)).outcome for _ in range(3)]

    assert "is more than" in more.json["error_description"]
    assert first.status == 303
    assert outcomes == [(400, "invalid_request_object")] * 3


async def test_of_fifty_uses_of_one_request_object_one_is_good(desk: Desk, fed: Federation) -> None:
    cookie, one = await desk.cookie("ann"), fed.object(desk)
    answers = await asyncio.gather(*(ask(desk, fed, one, cookie) for _ in range(50)))

    assert sorted(answer.status for answer in answers) == [303] + [400] * 49
    assert len(fed.web.asked) == 5


async def test_another_key_signs_nothing_for_it(desk: Desk, fed: Federation) -> None:
    liar = Federation(fed.web)
    liar_object = liar.object(desk)  # its pages now have the liar's keys, which no anchor vouches for
    assert (await ask(desk, fed, liar_object)).outcome == (400, "invalid_trust_chain")
    fed.publish()
    desk.clock.advance(31)
    assert (await ask(desk, fed, liar_object)).outcome == (400, "invalid_request_object")
    assert (await push(desk, fed, **liar.proof(desk))).outcome == (401, "invalid_client")


@pytest.mark.parametrize("audience", ["/token", "/par"])
async def test_an_assertion_names_the_issuer_and_nothing_else(desk: Desk, fed: Federation, audience: str) -> None:
    assert (await push(desk, fed, **fed.proof(desk, aud=desk.url + audience))).outcome == (401, "invalid_client")
    assert (await push(desk, fed, **fed.proof(desk, aud=[desk.url, desk.url + audience]))).outcome == (401, "invalid_client")
    assert (await push(desk, fed, **fed.proof(desk, aud=[desk.url]))).status == 201


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"client_registration_types": ["explicit"]}, "client_registration_types"),
        ({"token_endpoint_auth_method": "client_secret_basic"}, "token_endpoint_auth_method"),
        ({"token_endpoint_auth_method": "none"}, "token_endpoint_auth_method"),
        ({"token_endpoint_auth_method": "tls_client_auth"}, "token_endpoint_auth_method"),
        ({"subject_type": "pairwise"}, "subject_type"),
        ({"redirect_uris": ["http://app.example/"]}, "redirect_uris"),
        ({"redirect_uris": 7}, "redirect_uris"),
        ({"grant_types": ["implicit"]}, "grant_types"),
        ({"response_types": ["token"]}, "response_types"),
        ({"consent": "implicit"}, "consent"),
        ({"kerberos_principal": "HTTP/x@X"}, "kerberos_principal"),
        ({"jwks": {"keys": []}}, "jwks"),
        ({"signed_jwks_uri": "http://x.example"}, "signed_jwks_uri"),
        ({"signed_jwks_uri": 7}, "signed_jwks_uri"),
        ({"software_id": "no keys"}, "has no keys"),
    ],
)
async def test_metadata_keep_the_rules_of_every_registration(desk: Desk, fed: Federation, changes: Any, said: str) -> None:
    if {"signed_jwks_uri", "software_id"} & changes.keys():
        del fed.rp.metadata["openid_relying_party"]["jwks"]
    fed.publish(**changes)
    answer = await push(desk, fed)

    assert answer.outcome == (400, "invalid_metadata")
    assert said in answer.json["error_description"]


async def test_what_a_client_says_of_itself_gives_it_nothing_that_an_operator_gives(desk: Desk, fed: Federation) -> None:
    fed.publish(resources=["https://api.example"], scope="openid email introspect directory.read", issuer_assertion_audience=False)
    assert (await push(desk, fed, scope="openid email")).status == 201
    assert (await push(desk, fed, scope="directory.read")).outcome == (400, "invalid_scope")
    client = await desk.provider.clients.get(fed.rp.id)

    assert (client.source, client.scopes) == ("federation", ("openid", "email"))
    assert "resources" not in client.more
    assert client.more["issuer_assertion_audience"] is client.more["single_use_request_object"] is True


async def test_an_oauth_client_and_one_that_says_little(desk: Desk, fed: Federation) -> None:
    """No method, no scope, no name: those of the federation, of the operator, and of its organization."""
    keys = fed.rp.metadata.pop("openid_relying_party")["jwks"]
    fed.rp.metadata["oauth_client"] = {"redirect_uris": [CALLBACK], "jwks": keys, "organization_name": "Little"}
    fed.web.pages[f"/rp{WELL_KNOWN}"] = fed.rp.configuration().encode()
    assert (await push(desk, fed)).status == 201
    client = await desk.provider.clients.get(fed.rp.id)

    assert (client.client_name, client.scopes, client.token_endpoint_auth_method) == (
        "Little",
        ("openid", "profile", "email"),
        "private_key_jwt",
    )
    del fed.rp.metadata["oauth_client"]
    fed.web.pages[f"/rp{WELL_KNOWN}"] = fed.rp.configuration().encode()
    desk.clock.advance(3_601)
    assert (await push(desk, fed)).outcome == (400, "invalid_metadata")


async def test_keys_behind_a_signed_uri_are_those_of_the_entity(desk: Desk, fed: Federation) -> None:
    keys = fed.rp.metadata["openid_relying_party"].pop("jwks")
    fed.publish(signed_jwks_uri=fed.web.url("/keys"))
    now = int(time.time())
    claims = {"iss": fed.rp.id, "sub": fed.rp.id, "iat": now, **keys}

    async def outcome(signer: Entity, typ: str | None = "jwk-set+jwt", **changes: Any) -> Any:
        fed.web.pages["/keys"] = signer.sign({**claims, **changes}, typ=typ).encode()
        desk.clock.advance(601)
        return (await push(desk, fed, **fed.proof(desk, exp=desk.clock.now() // 1_000_000 + 60))).outcome

    assert await outcome(fed.mid) == (400, "invalid_metadata")
    assert "signed_jwks_uri: the signature" in (await push(desk, fed)).json["error_description"]
    assert await outcome(fed.rp, typ="JWT") == (400, "invalid_metadata")
    assert await outcome(fed.rp, iss=fed.mid.id) == (400, "invalid_metadata")
    assert await outcome(fed.rp, sub=None) == (400, "invalid_metadata")
    assert await outcome(fed.rp, exp=now) == (400, "invalid_metadata")
    assert await outcome(fed.rp, exp="x") == (400, "invalid_metadata")
    assert await outcome(fed.rp, keys=None) == (400, "invalid_metadata")
    fed.publish(signed_jwks_uri="https://fed.example:1/keys")
    assert await outcome(fed.rp) == (503, "unavailable")
    fed.publish(signed_jwks_uri=fed.web.url("/keys"))
    assert (await outcome(fed.rp))[0] == 201
    fed.web.pages["/keys"] = None
    desk.clock.advance(601)
    assert (await push(desk, fed, **fed.proof(desk, exp=desk.clock.now() // 1_000_000 + 60))).status == 201, (
        "an outage, and the chain is good"
    )


async def test_a_chain_is_looked_at_again_and_ends_when_it_expires(desk: Desk, fed: Federation) -> None:
    async def outcome() -> Any:
        return (await push(desk, fed, **fed.proof(desk, exp=desk.clock.now() // 1_000_000 + 60))).outcome

    fed.says(fed.mid, fed.rp, exp=int(time.time()) + 5_000)
    assert (await outcome())[0] == 201
    fed.web.pages = {}  # nothing answers any more
    desk.clock.advance(3_601)
    fed.web.pages = dict.fromkeys((f"/rp{WELL_KNOWN}",), b"HTTP/1.1 500 Sorry\r\nContent-Length: 0\r\n\r\n")
    asked = len(fed.web.asked)
    assert (await outcome())[0] == (await outcome())[0] == 201
    assert len(fed.web.asked) == asked + 1, "tried again once in a minute"
    desk.clock.advance(1_500)
    assert await outcome() == (503, "unavailable"), "the chain has expired"


async def test_who_leaves_the_federation_is_a_client_no_more(desk: Desk, fed: Federation) -> None:
    cookie = await desk.cookie("ann")
    code = await code_of(desk, await ask(desk, fed, fed.object(desk), cookie), cookie)
    fed.says(fed.mid, fed.rp, exp=int(time.time()) - 1)
    assert (await redeem(desk, fed, code)).status == 200
    desk.clock.advance(3_601)
    assert (await push(desk, fed, **fed.proof(desk, exp=desk.clock.now() // 1_000_000 + 60))).outcome == (400, "invalid_trust_chain")
    fed.web.pages[f"/rp{WELL_KNOWN}"] = None
    desk.clock.advance(31)
    assert (await push(desk, fed, **fed.proof(desk, exp=desk.clock.now() // 1_000_000 + 60))).outcome == (401, "invalid_client")


async def test_a_refusal_stays_for_a_moment_and_is_not_for_ever(desk: Desk, fed: Federation) -> None:
    fed.says(fed.anchor, fed.mid, constraints={"max_path_length": 0})
    refused = [await push(desk, fed) for _ in range(3)]
    asked = len(fed.web.asked)
    fed.publish()
    desk.clock.advance(31)

    assert {one.outcome for one in refused} == {(400, "invalid_trust_chain")}
    assert "max_path_length" in refused[2].json["error_description"]
    assert asked == 5
    assert (await push(desk, fed)).status == 201


async def test_no_trust_no_redirect(desk: Desk, fed: Federation) -> None:
    """s12.1.3: not even to a redirect URI that the request names, and not for somebody who is signed in."""
    fed.says(fed.mid, fed.rp, jwks=fed.mid.jwks)
    answer = await ask(desk, fed, fed.object(desk), await desk.cookie("ann"), redirect_uri=CALLBACK, response_type="code")

    assert answer.shown
    assert answer.outcome == (400, "invalid_trust_chain")


async def test_a_client_that_cannot_be_had_shuts_nobody_out_of_their_account(desk: Desk, fed: Federation) -> None:
    fed.publish(frontchannel_logout_uri="https://app.example/out")
    fed.says(fed.mid, fed.rp, exp=int(time.time()) + 30)
    cookie = await desk.cookie("ann")
    code = await code_of(desk, await ask(desk, fed, fed.object(desk), cookie), cookie)
    assert (await redeem(desk, fed, code)).status == 200
    before = await desk.get("/account", cookie=cookie, headers=BROWSER)
    desk.clock.advance(60)  # its chain has expired, and there is no other one
    after = await desk.get("/account", cookie=cookie, headers=BROWSER)
    page = await desk.get("/logout", cookie=cookie, headers=BROWSER)
    out = await desk.post("/logout", cookie=cookie, headers={**BROWSER, "Origin": desk.url}, data=hidden_fields(page))

    assert (before.status, after.status, out.status) == (200, 200, 200)
    assert "An app of the federation" in before.text
    assert fed.rp.id in after.text


async def test_many_names_of_strangers_are_not_all_looked_up(desk: Desk, fed: Federation) -> None:
    statuses = [(await desk.get(f"/authorize?client_id={fed.web.url(f'/x{n}')}")).status for n in range(40)]

    assert statuses == [400] * 30 + [503] * 10
    assert len(fed.web.asked) == 30


async def test_special_addresses_are_not_asked(tmp_path: Path, fed: Federation) -> None:
    async with opened(tmp_path, fed, allow_private_entity_hosts=False) as desk:
        for name in ("fed.example", "127.0.0.1", "[::1]", "169.254.169.254"):
            answer = await desk.get(f"/authorize?client_id=https://{name}:{fed.web.port}/rp")
            assert answer.status == 503
            assert "127.0.0.1" not in answer.text
    assert fed.web.asked == []


async def test_a_blocked_key_vouches_for_nobody(desk: Desk, fed: Federation) -> None:
    from greatseal.jose.acceptance import spki_sha256

    host = desk.service.host("idp")
    spki = spki_sha256(fed.mid.key.public_key())
    await host.db.write(lambda tx: host.blocked_keys.block(tx, spki, reason="stolen", by="admin"))

    assert (await push(desk, fed)).outcome == (400, "invalid_trust_chain")


async def test_a_new_key_is_published_before_it_signs(desk: Desk) -> None:
    async def kids() -> tuple[str, list[str]]:
        text = (await desk.get(WELL_KNOWN)).text
        return parse_compact(text).header["kid"], [key["kid"] for key in claims_of(text)["jwks"]["keys"]]

    first, _ = await kids()
    path = "/api/admin/entity-keys"
    assert (await desk.get(path)).status == 401
    assert (await desk.ask("DELETE", f"{path}/{first}", cookie=desk.admin)).outcome == (409, "conflict")
    made = await desk.ask("POST", path, cookie=desk.admin)
    second = made.json["kid"]

    assert (made.status, made.json["status"]) == (201, "published")
    assert await kids() == (first, [first, second])
    listed = await desk.get(path, cookie=desk.admin)
    assert [(one["kid"], one["status"]) for one in listed.json] == [(first, "signing"), (second, "published")]
    page = await desk.get(f"{path}?limit=1", cookie=desk.admin)
    rest = await desk.get(page.headers["Link"].partition(">")[0].removeprefix(f"<{desk.url}"), cookie=desk.admin)
    assert [one["kid"] for one in page.json + rest.json] == [first, second]
    assert [key["kid"] for key in (await desk.get(f"{path}/jwks", cookie=desk.admin)).json["keys"]] == [first, second]
    assert (await desk.ask("DELETE", f"{path}/{first}", cookie=desk.admin)).status == 204
    assert (await desk.ask("DELETE", f"{path}/{first}", cookie=desk.admin)).status == 404
    assert await kids() == (second, [second])
    events = await desk.events("entity_key_made", "entity_key_revoked")
    assert [(one.event_type, one.sub) for one in events] == [
        ("entity_key_made", None), ("entity_key_made", events[1].sub), ("entity_key_revoked", events[1].sub),
    ]  # fmt: skip
    assert events[1].sub.startswith("admin@")


async def test_of_two_revocations_at_once_one_key_stays(desk: Desk) -> None:
    path = "/api/admin/entity-keys"
    await desk.ask("POST", path, cookie=desk.admin)
    kids = [one["kid"] for one in (await desk.get(path, cookie=desk.admin)).json]
    answers = await asyncio.gather(*(desk.ask("DELETE", f"{path}/{kid}", cookie=desk.admin) for kid in kids))

    assert sorted(answer.status for answer in answers) == [204, 409]


async def test_trust_marks_come_from_files_that_may_change(tmp_path: Path, fed: Federation) -> None:
    good, gone, other = (tmp_path / name for name in ("good.jwt", "gone.jwt", "other.jwt"))
    marks = [{"trust_mark_type": "https://seal.example/op", "file": str(file)} for file in (good, gone, other)]
    other.write_text(fed.anchor.sign({"sub": "https://other.example", "trust_mark_type": "https://seal.example/op"}, typ="trust-mark+jwt"))
    async with opened(tmp_path, fed, trust_marks=marks) as desk:
        said = {"iss": fed.anchor.id, "sub": desk.url, "trust_mark_type": "https://seal.example/op", "iat": int(time.time())}

        async def shown(typ: str = "trust-mark+jwt", **changes: Any) -> Any:
            good.write_text(fed.anchor.sign({**said, **changes}, typ=typ) + "\n")
            claims = claims_of((await desk.get(WELL_KNOWN)).text)
            return claims.get("trust_marks")

        assert await shown() == [{"trust_mark_type": said["trust_mark_type"], "trust_mark": good.read_text().strip()}]
        assert await shown(exp=1) is None
        assert await shown(exp="x") is None
        assert await shown(typ="JWT") is None
        assert await shown(trust_mark_type="https://seal.example/rp") is None
        good.write_text("no JWT")
        assert "trust_marks" not in claims_of((await desk.get(WELL_KNOWN)).text)


async def checked(desk: Desk) -> dict[str, Any]:
    """What doctor finds, by the name of the check."""
    plugin = desk.service.kernel.hooks.instances["openid-federation"]
    return {check.name: await check.run() for check in plugin.checks(desk.service.host("openid-federation"))}


async def test_doctor_says_whether_superiors_know_the_service(desk: Desk, fed: Federation) -> None:
    own = Entity(desk.url)
    found = await checked(desk)
    assert found["trust-anchors"].ok
    assert not found["federation-superiors"].ok
    assert f"{fed.mid.id}: " in found["federation-superiors"].cause

    mine = (await desk.get("/api/admin/entity-keys/jwks", cookie=desk.admin)).json
    fed.web.pages[f"/mid/fetch?sub={desk.url}"] = fed.mid.about(own, jwks=mine).encode()
    assert "a claim is missing" in (await checked(desk))["federation-superiors"].cause  # an issuer on loopback is http


async def test_doctor_names_the_anchor_that_is_another_one(desk: Desk, fed: Federation) -> None:
    liar = Entity(fed.anchor.id)
    fed.web.pages[f"/anchor{WELL_KNOWN}"] = liar.configuration().encode()
    found = (await checked(desk))["trust-anchors"]

    assert not found.ok
    assert found.detail.startswith("a trust anchor cannot be used: compare its jwks")
    assert fed.anchor.id in found.cause


async def test_doctor_names_a_trust_mark_that_is_left_out(tmp_path: Path, fed: Federation) -> None:
    marks = [{"trust_mark_type": "t", "file": str(tmp_path / "gone.jwt")}]
    async with opened(tmp_path, fed, trust_marks=marks) as desk:
        found = (await checked(desk))["trust-marks"]

    assert not found.ok
    assert "gone.jwt: it cannot be read" in found.cause


async def test_ctl_makes_shows_and_revokes_federation_keys(tmp_path: Path, fed: Federation) -> None:
    with quiet():
        async with opened(tmp_path, fed) as desk:
            ctl = Ctl(desk.url, tmp_path)
            await ctl.login("admin", PASSWORD)

            async def said(*words: str) -> Any:
                result = await ctl.run("--json", "entity-keys", *words)
                assert result.exit_code == 0, result.output
                return json.loads(result.output) if result.output.startswith(("{", "[")) else result.output

            (first,) = await said("list")
            second = await said("create")
            assert (first["status"], second["status"]) == ("signing", "published")
            assert [key["kid"] for key in (await said("jwks"))["keys"]] == [first["kid"], second["kid"]]
            await said("revoke", first["kid"], "--yes")
            assert [one["status"] for one in await said("list")] == ["signing"]
            refused = await ctl.run("entity-keys", "revoke", second["kid"], "--yes")
            assert refused.exit_code == 1
            assert "the only key" in refused.output


async def test_what_cannot_work_is_said_before_the_start(tmp_path: Path, fed: Federation) -> None:
    anchors = [{"entity_id": "https://id.example", "jwks": fed.anchor.jwks}]
    config = tmp_path / "greatseal.toml"
    config.write_text(
        tomlkit.dumps(
            {
                "server": {"base_url": "https://id.example", "listen": "127.0.0.1:0"},
                "plugins": {"enabled": ["idp", "users-file", "resolver", "openid-federation"]},
                "users": {"file": str(tmp_path / "users.toml")},
                "database": {"url": f"sqlite:///{tmp_path}/x.db"},
                "federation": {"trust_anchors": anchors, "authority_hints": ["https://id.example"]},
            }
        )
    )
    (tmp_path / "users.toml").write_text("")
    result = await asyncio.to_thread(CliRunner().invoke, main, ["check-config", "-c", str(config)])

    assert result.exit_code == 2
    assert "this service is no superior of itself" in result.output
    assert "enable client-auth-jwt" in result.output
