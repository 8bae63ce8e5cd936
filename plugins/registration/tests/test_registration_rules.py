"""What needs no running provider: settings, who is a service, which URLs are ids, how long documents are kept."""

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.clients import Client, InvalidClientMetadata, InvalidRedirectUri
from greatseal.api.declarations import Secret
from greatseal.api.identity import SessionView
from greatseal.api.tokens import GrantQuestion
from greatseal.net import Fetched
from greatseal.testing.clients import ClientResolverContract, FakeClients
from greatseal.testing.resolver import FakeResolver
from greatseal_registration import documents
from greatseal_registration.access import bearer_of, is_service
from greatseal_registration.answers import told
from greatseal_registration.bodies import completed
from greatseal_registration.documents import MetadataDocuments, host_of, kept_seconds
from greatseal_registration.records import holds, keeping, listed, mark
from greatseal_registration.settings import Registration, RegistrationServer, StatementIssuer
from greatseal_registration.usage import Usage, Used, forgetting

DOCUMENT = {"client_id": "https://app.example/client", "redirect_uris": ["https://app.example/cb"]}


def session(subject: str) -> SessionView:
    return SessionView(
        id="1", subject=subject, username="x", realm="x", groups=(), amr=(), acr=None, auth_time=0, signed_in_at=0, expires_at=0
    )


@pytest.mark.parametrize(
    ("subject", "service"),
    [
        ("HTTP/web.example@EXAMPLE", True),
        ("a/b@c@EXAMPLE", True),
        ("ann@EXAMPLE", False),
        ("ann@x/EXAMPLE", False),
        ("HTTP/web@EXAMPLE@OTHER", False),
        ("HTTP/web@example", False),
        ("HTTP/web@", False),
        ("HTTP/web", False),
    ],
)
def test_idp_213_idp_214_a_service_has_a_slash_before_the_last_at_and_the_own_realm(subject: str, *, service: bool) -> None:
    assert is_service(session(subject), "EXAMPLE") is service


@pytest.mark.parametrize(
    ("header", "token"),
    [("Bearer x", "x"), ("bearer  x ", "x"), ("Bearer", ""), ("Basic x", None), ("", None), ("Bearer ä", None)],
)
def test_the_token_of_a_header(header: str, token: str | None) -> None:
    call: Any = SimpleNamespace(headers={"Authorization": header})

    assert bearer_of(call) == token


@pytest.mark.parametrize(
    ("struct", "wrong"),
    [
        (RegistrationServer, {"registration_token": Secret("x" * 21)}),
        (StatementIssuer, {"issuer": "", "jwks_uri": "https://a.example"}),
        (StatementIssuer, {"issuer": "a", "jwks_uri": "http://a.example"}),
        (Registration, {"unused_ttl": 86_399}),
        (Registration, {"resources": ("no-uri",)}),
        (Registration, {"resources": ("https://a.example/#x",)}),
        (Registration, {"client_id_hosts": ("https://a.example",)}),
        (Registration, {"client_id_hosts": ("A.example",)}),
        (Registration, {"require_software_statement": True}),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(struct: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|add a"):
        struct(**wrong)


def test_settings_that_are_good() -> None:
    assert Registration(unused_ttl=0, resources=("urn:x:y",), client_id_hosts=("a.example:8443",)).max_clients == 10_000


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("", 300),
        ("max-age=120", 120),
        ("public, Max-Age=120 , must-revalidate", 120),
        ("max-age=1", 60),
        ("max-age=0", 60),
        ("max-age=99999999", 86_400),
        ("max-age=-1", 300),
        ("max-age=x", 300),
        ("s-max-age=9000", 300),
        ("max-age=9000, no-store", 60),
        ("max-age=9000, no-cache", 60),
    ],
)
def test_how_long_a_document_is_kept(header: str, seconds: int) -> None:
    assert kept_seconds(header) == seconds


@pytest.mark.parametrize(
    "url",
    [
        "https://a.example", "https://a.example/", "http://a.example/c", "https:///c", "https://a.example/../c", "https://a.example/%2E/c",
        "https://a.example/c#x", "https://u@a.example/c", "https://a.example./c", "https://A.example/c", "https://a_b.example/c",
        "https://a.example\\@b.example/c", "https://a.example/c d", "https://a.example:99999999/c", " https://a.example/c", "https://-/c",
    ],
)  # fmt: skip
def test_urls_that_are_no_ids(url: str) -> None:
    assert host_of(url) is None


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://a.example/c", "a.example"),
        ("https://a.example:8443/c?v=1", "a.example:8443"),
        ("https://127.0.0.1/c", "127.0.0.1"),
        ("https://[::1]/.well-known/client", "[::1]"),
        ("https://a.example/c..d", "a.example"),
    ],
)
def test_urls_that_are_ids(url: str, host: str) -> None:
    assert host_of(url) == host


def resolver(fetched: bytes) -> MetadataDocuments:
    async def fetch(url: str, **_: Any) -> Fetched:
        return Fetched(url=url, address="192.0.2.1", status=200, headers={}, body=fetched, redirects=0)  # type: ignore[arg-type]

    host: Any = SimpleNamespace(
        clock=SimpleNamespace(monotonic=lambda: 0.0),
        limits=SimpleNamespace(hit=lambda *_: None),
        log=SimpleNamespace(warning=lambda *_, **__: None),
        components=lambda _: {},
    )
    made = MetadataDocuments(host, FakeClients(), FakeResolver(), Registration(client_id_documents=True))
    made._tls = object()  # type: ignore[assignment]  # nothing is fetched here
    documents.fetch = fetch  # type: ignore[attr-defined]
    return made


@pytest.fixture(autouse=True)
def _fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "fetch", documents.fetch)


class TestMetadataDocuments(ClientResolverContract):
    client_id = DOCUMENT["client_id"]  # type: ignore[assignment]
    unknown = ("http://app.example/client", "https://app.example/")

    def resolver(self) -> MetadataDocuments:
        return resolver(msgspec.json.encode(DOCUMENT))


NAMES = st.sampled_from(
    [
        "client_id", "client_name", "redirect_uris", "scope", "token_endpoint_auth_method", "jwks", "jwks_uri", "grant_types", "resources",
        "response_types", "client_secret", "contacts", "logo_uri", "software_statement", "consent", "default_max_age",
    ]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20) | st.sampled_from(["none", "openid"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
BODIES = st.dictionaries(NAMES | st.text(max_size=8), VALUES, max_size=6)


@given(BODIES)
def test_a_body_is_completed_or_refused(body: dict[str, Any]) -> None:
    try:
        asked = completed(body, Registration(resources=("urn:x",)))
    except InvalidClientMetadata:
        return
    assert set(asked["resources"]) <= {"urn:x"}
    assert "client_id" not in asked


@given(BODIES.map(msgspec.json.encode) | st.binary(max_size=200) | BODIES.map(lambda body: msgspec.json.encode({**DOCUMENT, **body})))
async def test_a_document_makes_a_client_or_is_refused(content: bytes) -> None:
    made = resolver(content)
    with suppress(InvalidClientMetadata, InvalidRedirectUri):
        client = await made.resolve(str(DOCUMENT["client_id"]))
        assert client is not None
        assert client.client_id == DOCUMENT["client_id"]


def test_an_answer_leaves_out_what_does_not_apply() -> None:
    client = Client(client_id="c", token_endpoint_auth_method="none", grant_types=("client_credentials",), more={"consent": "implicit"})

    assert told(client, issuer="https://id.example", secret=None, token=None) == {
        "client_id": "c",
        "client_id_issued_at": 0,
        "token_endpoint_auth_method": "none",
        "grant_types": ["client_credentials"],
        "response_types": [],
        "registration_client_uri": "https://id.example/api/admin/clients/c",
    }


@pytest.mark.parametrize(("source", "noted"), [("dynamic", True), ("admin", False), (None, False)])
def test_the_use_of_clients_that_registered_themselves_is_noted(source: Any, noted: bool) -> None:
    client = source and Client(client_id="c1", token_endpoint_auth_method="none", source=source)
    question = GrantQuestion(phase="token", subject="ann@EXAMPLE", client=client, scopes=frozenset(), remote="192.0.2.1")

    assert Usage(None, None, ttl=0).concerns(question) is noted  # type: ignore[arg-type]  # asks nobody


async def test_what_was_used_meanwhile_is_not_deleted(start_service: Any) -> None:
    db = (await start_service("idp", "resolver", "registration")).host("registration").db
    await db.write(keeping(None, 10), "c1")
    ((_, used_at),) = await db.read(listed, "")

    with pytest.raises(Used):
        await db.write(forgetting(used_at), "c1")
    await db.write(mark, {"c1": used_at + 5, "elsewhere": 1})
    assert await db.read(listed, "") == [("c1", used_at + 5)]
    await db.write(forgetting(used_at + 6), "c1")
    assert await db.read(listed, "") == []


async def test_a_client_without_a_token_has_none_to_show(start_service: Any) -> None:
    db = (await start_service("idp", "resolver", "registration")).host("registration").db
    await db.write(keeping(None, 10), "c1")
    await db.write(keeping("rat_n1_x", 10), "c2")

    assert [await db.read(holds, id, "rat_n1_x") for id in ("c1", "c2", "c3")] == [False, True, False]
    assert not await db.read(holds, "c1", "")
