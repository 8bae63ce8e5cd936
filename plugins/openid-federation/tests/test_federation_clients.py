"""Clients of a federation without a network: the contract of resolvers, registrations from metadata, keys, trust marks and settings."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict
from rig.federation import CALLBACK, Entity, Program

from greatseal.api.clients import Client
from greatseal.api.moments import SECOND
from greatseal.api.problems import Unavailable, Unreachable
from greatseal.jose.keysets import read_key_set
from greatseal.net import Fetched
from greatseal.testing import FakeClock
from greatseal.testing.clients import ClientResolverContract, FakeClients
from greatseal.testing.resolver import FakeResolver
from greatseal_openid_federation import resolution
from greatseal_openid_federation.chains import Chain
from greatseal_openid_federation.clients import SOURCE, FederationClients, registration
from greatseal_openid_federation.health import FederationHealth
from greatseal_openid_federation.keys import EntityKeys
from greatseal_openid_federation.marks import TrustMarks, problem_of
from greatseal_openid_federation.problems import InvalidMetadata
from greatseal_openid_federation.settings import EntitySettings, TrustAnchor, TrustMarkFile
from greatseal_openid_federation.statements import MEDIA_TYPE

SCOPES = ("openid", "profile")
GRANTS = {"authorization_code": 1, "refresh_token": 1}
RP = Program("https://rp.example", "https://anchor.example")
NOW = 1_800_000_000


HOST: Any = SimpleNamespace(
    clock=FakeClock(),
    limits=SimpleNamespace(hit=lambda *_: None),
    components=lambda _: GRANTS,
    log=SimpleNamespace(info=lambda *_, **__: None),
)


class OneFederation:
    """Resolves one entity. ``asked`` are those that were looked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def resolve(self, subject: str) -> Chain | None:
        self.asked.append(subject)
        if subject != RP.id:
            return None
        return Chain(entities=(RP.id, "https://anchor.example"), expires=1 << 40, metadata=RP.metadata, keys=read_key_set(RP.jwks), used=())


class TestFederationClients(ClientResolverContract):
    client_id = RP.id

    def resolver(self) -> Any:
        return FederationClients(HOST, Registry(), OneFederation(), SCOPES)  # type: ignore[arg-type]  # what it needs of each


class Registry(FakeClients):
    async def read_body(self, client_id: str, body: Any, *, source: str) -> Client:
        return Client(client_id=client_id, token_endpoint_auth_method=body["token_endpoint_auth_method"], jwks=body["jwks"], source=source)


def test_what_is_taken_of_metadata() -> None:
    asked = {
        "redirect_uris": [CALLBACK],
        "display_name": "Shown",
        "organization_name": "Org",
        "scope": "openid email",
        "resources": ["https://x"],
    }
    lists = {"grant_types": ["implicit", "authorization_code", 1], "response_types": ["code", "code id_token"]}
    several = {"token_endpoint_auth_methods_supported": ["client_secret_basic", "private_key_jwt"]}

    assert registration({**asked, **lists, **several, "client_id": "x"}, SCOPES, GRANTS) == {
        "redirect_uris": [CALLBACK],
        "display_name": "Shown",
        "organization_name": "Org",
        **several,
        "client_name": "Shown",
        "scope": "openid",
        "token_endpoint_auth_method": "private_key_jwt",
        "grant_types": ["authorization_code"],
        "response_types": ["code"],
    }
    assert registration({}, SCOPES, GRANTS)["scope"] == "openid profile"
    assert registration({"client_name": "Own", "display_name": "Shown"}, SCOPES, GRANTS)["client_name"] == "Own"


@pytest.mark.parametrize(
    "metadata",
    [
        {"client_registration_types": ["explicit"]},
        {"client_registration_types": "automatic"},
        {"client_registration_types": 7},
        {"subject_type": "pairwise"},
        {"token_endpoint_auth_method": "none"},
        {"token_endpoint_auth_method": ["private_key_jwt"]},
        {"token_endpoint_auth_methods_supported": ["client_secret_jwt"]},
    ],
)
def test_metadata_that_no_client_of_a_federation_has(metadata: Any) -> None:
    with pytest.raises(InvalidMetadata):
        registration(metadata, SCOPES, GRANTS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["client_registration_types", "subject_type", "token_endpoint_auth_method", "token_endpoint_auth_methods_supported", "scope",
     "grant_types", "response_types", "client_name", "display_name", "jwks", "signed_jwks_uri"]
)  # fmt: skip


@given(st.dictionaries(NAMES, JSON, max_size=5))
def test_any_metadata_are_refused_or_become_a_registration(metadata: Any) -> None:
    try:
        body = registration(metadata, SCOPES, GRANTS)
    except InvalidMetadata:
        body = {"token_endpoint_auth_method": "private_key_jwt"}
    assert body["token_endpoint_auth_method"] == "private_key_jwt"
    json.dumps(body)


@pytest.mark.parametrize(
    ("changes", "typ", "said"),
    [
        ({}, "trust-mark+jwt", None),
        ({"exp": NOW + 1}, "trust-mark+jwt", None),
        ({"exp": NOW}, "trust-mark+jwt", "expired"),
        ({"exp": "x"}, "trust-mark+jwt", "expired"),
        ({}, "JWT", "typ"),
        ({"sub": "https://other.example"}, "trust-mark+jwt", "sub"),
        ({"trust_mark_type": "u"}, "trust-mark+jwt", "trust_mark_type"),
    ],
)
def test_trust_marks(changes: Any, typ: str, said: str | None) -> None:
    issuer = Entity("https://seal.example")
    text = issuer.sign({"iss": issuer.id, "sub": RP.id, "trust_mark_type": "t", "iat": NOW, **changes}, typ=typ)
    found = problem_of(text, "t", RP.id, NOW)

    assert found == said if said is None else said in (found or "")
    assert "no signed JWT" in (problem_of("x", "t", RP.id, NOW) or "")


@pytest.mark.parametrize(
    ("struct", "wrong"),
    [
        (TrustAnchor, {"entity_id": "http://a.example", "jwks": RP.jwks}),
        (TrustAnchor, {"entity_id": "https://a.example", "jwks": {"keys": []}}),
        (TrustAnchor, {"entity_id": "https://a.example", "jwks": {"keys": [{k: v for k, v in RP.jwks["keys"][0].items() if k != "kid"}]}}),
        (EntitySettings, {"authority_hints": ("https://a.example?x",)}),
        (EntitySettings, {"trust_anchors": (TrustAnchor(entity_id="https://a.example", jwks=RP.jwks),) * 2}),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(struct: Any, wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"expected|jwks|twice"):
        struct(**wrong)


def test_settings_that_are_good() -> None:
    marks = (TrustMarkFile(trust_mark_type="t", file=Path("mark.jwt")),)

    assert EntitySettings(authority_hints=("https://a.example/x",), trust_marks=marks).entity_enabled
    assert SOURCE == "federation"


async def test_strangers_do_not_send_the_service_to_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def fetch(url: str, **_: Any) -> Fetched:
        asked.append(url)
        return Fetched(url=url, address="", status=404, headers=CIMultiDict(), body=b"", redirects=0)

    monkeypatch.setattr(resolution, "fetch", fetch)
    counted: Counter[str] = Counter()

    def hit(_bucket: str, key: str, limit: int, _window: float) -> int | None:
        counted[key] += 1
        return 1 if counted[key] > limit else None

    host: Any = SimpleNamespace(limits=SimpleNamespace(hit=hit))
    federation = resolution.Federation(host, FakeResolver(), {"https://anchor.example": read_key_set(RP.jwks)}, allow_private=False)
    for number in range(resolution.PER_HOST):
        await federation.get(f"https://victim.example/{number}")
    with pytest.raises(Unreachable):
        await federation.get("https://victim.example/one-more")
    await federation.get("https://other.example/")
    for _ in range(resolution.PER_HOST + 1):
        await federation.get("https://anchor.example/")
    assert len(asked) == 2 * resolution.PER_HOST + 2


class SomeKeys:
    """One federation key of the service."""

    def all(self) -> Any:
        return (SimpleNamespace(info=SimpleNamespace(kid=RP.kid)),)


async def test_doctor_says_that_superiors_vouch() -> None:
    superior = Entity("https://anchor.example")
    pages = {superior.configuration_url(): superior.configuration(now=NOW), superior.fetch_url(RP): superior.about(RP, now=NOW)}

    async def get(url: str) -> Fetched:
        return Fetched(
            url=url, address="", status=200, headers=CIMultiDict({"Content-Type": MEDIA_TYPE}), body=pages[url].encode(), redirects=0
        )

    settings = EntitySettings(authority_hints=(superior.id,))
    host: Any = SimpleNamespace(settings=lambda _: settings, clock=FakeClock(NOW * SECOND), issuer=RP.id)
    federation: Any = SimpleNamespace(get=get, anchors={})
    keys: Any = SomeKeys()
    health = FederationHealth(host, federation, keys, TrustMarks(host, ()))
    assert [check.name for check in health.checks()] == ["federation-superiors"]
    assert (await health.superiors()).ok
    pages[superior.fetch_url(RP)] = superior.about(RP, now=NOW, jwks=superior.jwks)
    found = await health.superiors()

    assert not found.ok
    assert f"does not know the key {RP.kid}: give it what `greatseal ctl entity-keys jwks` shows" in found.cause


async def test_what_is_no_entity_is_not_looked_for_and_nobody_stays_nobody_for_a_moment() -> None:
    federation: Any = OneFederation()
    clients = FederationClients(HOST, Registry(), federation, SCOPES)
    for client_id in ("https://a.example?x", "http://a.example", "0193a8c0-0000-8000-8000-000000000001", "https://a.example/../x"):
        assert await clients.resolve(client_id) is None
    assert federation.asked == []
    for _ in range(3):
        assert await clients.resolve("https://nobody.example") is None
    assert federation.asked == ["https://nobody.example"]


async def test_a_search_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fetch(*_: Any, **__: Any) -> Fetched:
        return await asyncio.Event().wait()  # type: ignore[return-value]  # never

    monkeypatch.setattr(resolution, "fetch", fetch)
    monkeypatch.setattr(resolution, "SECONDS", 0.01)
    host: Any = SimpleNamespace(limits=SimpleNamespace(hit=lambda *_: None), clock=FakeClock())

    with pytest.raises(Unavailable, match="in time"):
        await resolution.Federation(host, FakeResolver(), {}, allow_private=False).resolve(RP.id)


async def test_nothing_is_signed_before_the_first_key() -> None:
    host: Any = SimpleNamespace(keys=SimpleNamespace(ring=lambda _: SimpleNamespace(all=lambda: ())))
    keys = EntityKeys(host)

    assert keys.kid() == ""
    with pytest.raises(Unavailable):
        await keys.sign("JWT", {})
