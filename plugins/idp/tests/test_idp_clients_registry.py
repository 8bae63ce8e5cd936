"""The registry: what is stored, what is cached, and who is found."""

import asyncio
from typing import Any

import pytest

from greatseal.api.clients import Client, InvalidClientMetadata, InvalidRedirectUri, Registration
from greatseal.api.problems import Conflict
from greatseal.api.store import Refuse, Tx
from greatseal.testing.plugin import StartService
from greatseal_idp import tables as t
from greatseal_idp.clients.registry import Registry

BASIC = {"token_endpoint_auth_method": "client_secret_basic", "client_secret": "a chosen secret of theirs", "scopes": ["openid"]}


@pytest.fixture
async def service(start_service: StartService) -> Any:
    return await start_service("idp", "client-auth-jwt", "resolver")


@pytest.fixture
def registry(service: Any) -> Registry:
    return service.kernel.hooks.instances["idp"].assembly(service.host("idp")).clients


async def rows(service: Any) -> list[Any]:
    return await service.host("idp").db.read(lambda tx: tx.all(t.client.select()))


async def test_r56_a_chosen_secret_is_stored_as_argon2id(service: Any, registry: Registry) -> None:
    await registry.register_body(BASIC, open=False, by="root")
    (row,) = await rows(service)
    assert row.secret_form == "argon2id"
    assert bytes(row.secret_digest).startswith(b"$argon2id$v=19$m=19456,t=2,p=1$")
    assert row.secret_sealed is None


async def test_r56_a_generated_secret_is_stored_as_sha256(service: Any, registry: Registry) -> None:
    client = Client(client_id="", token_endpoint_auth_method="client_secret_basic", redirect_uris=("https://app.example/cb",))

    made = await registry.register(Registration(client=client, open=True), by="anybody")

    assert made.client_secret is not None
    assert len(made.client_secret.value) == 43
    assert made.client.source == "dynamic"
    (row,) = await rows(service)
    assert row.secret_form == "sha256"
    assert len(row.secret_digest) == 32
    assert await registry.secrets.is_right(made.client, [made.client_secret.value])
    assert not await registry.secrets.is_right(made.client, [made.client_secret.value + "x"])


async def test_r56_the_secret_of_client_secret_jwt_is_sealed_and_can_be_opened(service: Any, registry: Registry) -> None:
    made = await registry.register_body(
        {"token_endpoint_auth_method": "client_secret_jwt", "client_secret": "ß" * 32}, open=False, by="root"
    )
    (row,) = await rows(service)
    assert row.secret_form == "sealed"
    assert row.secret_digest is None
    assert "ß".encode() not in bytes(row.secret_sealed)
    assert registry.secret(made.client).value == "ß" * 32
    assert not await registry.secrets.is_right(made.client, ["ß" * 32])


async def test_b30_no_secret_is_readable_in_the_database(service: Any, registry: Registry) -> None:
    for method in ("client_secret_basic", "client_secret_post", "client_secret_jwt"):
        await registry.register_body(
            {"token_endpoint_auth_method": method, "client_secret": f"plain-{method}-{'x' * 32}"}, open=False, by="root"
        )
    assert not any(b"plain-" in repr(row).encode() for row in await rows(service))


async def test_a_known_client_costs_no_sql(service: Any, registry: Registry) -> None:
    made = await registry.register_body(BASIC, open=False, by="root")
    first = await registry.get(made.client.client_id)
    opened, service.kernel.store.opened = service.kernel.store.opened, None  # whoever asks the database now fails
    try:
        assert await registry.get(made.client.client_id) is first
        with pytest.raises(RuntimeError, match="the database is open"):
            await registry.get("another")
    finally:
        service.kernel.store.opened = opened


async def test_a_change_is_seen_by_the_next_read(registry: Registry) -> None:
    made = await registry.register_body(BASIC, open=False, by="root")
    assert await registry.get(made.client.client_id) == made.client
    await registry.update(made.client.client_id, {"scopes": ["email"]}, by="root")
    changed = await registry.get(made.client.client_id)
    assert changed is not None
    assert changed.scopes == ("email",)
    assert changed.secret == made.client.secret
    await registry.delete(made.client.client_id, by="root")
    assert await registry.get(made.client.client_id) is None


async def test_two_changes_at_once_lose_nothing(registry: Registry) -> None:
    made = await registry.register_body(BASIC, open=False, by="root")
    await asyncio.gather(
        registry.update(made.client.client_id, {"client_name": "New"}, by="root"),
        registry.update(made.client.client_id, {"scopes": ["email"]}, by="root"),
        registry.update(made.client.client_id, {"workload_type": "batch"}, by="root"),
    )
    changed = await registry.get(made.client.client_id)
    assert changed is not None
    assert (changed.client_name, changed.scopes, changed.workload_type) == ("New", ("email",), "batch")


async def test_grant_types_follow_the_redirect_uris_until_they_are_given(registry: Registry) -> None:
    made = await registry.register_body(BASIC, open=False, by="root")
    assert made.client.grant_types == ("client_credentials",)
    changed = await registry.update(made.client.client_id, {"redirect_uris": ["https://app.example/cb"]}, by="root")
    assert changed is not None
    assert changed.grant_types == ("authorization_code", "refresh_token")
    changed = await registry.update(made.client.client_id, {"grant_types": ["client_credentials", "authorization_code"]}, by="root")
    assert changed is not None
    assert changed.grant_types == ("client_credentials", "authorization_code")
    with pytest.raises(InvalidClientMetadata, match="redirect_uris"):
        await registry.update(made.client.client_id, {"redirect_uris": []}, by="root")


async def test_an_open_registration_may_not_bring_unknown_members(registry: Registry) -> None:
    client = Client(client_id="", token_endpoint_auth_method="none", redirect_uris=("https://app.example/cb",), more={"is_admin": True})
    with pytest.raises(InvalidClientMetadata, match="is_admin"):
        await registry.register(Registration(client=client, open=True), by="anybody")


async def test_any_text_as_a_client_id_is_looked_up_safely(start_service: StartService, database_url: str) -> None:
    service = await start_service("idp", database={"url": database_url})
    registry = service.kernel.hooks.instances["idp"].assembly(service.host("idp")).clients
    for client_id in ("", "x" * 256, "x" * 100_000, "' OR 1=1 --", "\x00", "\ud800", "ä", "a\nb"):
        assert await registry.get(client_id) is None
        assert await registry.update(client_id, {}, by="root") is None
        assert not await registry.delete(client_id, by="root")


async def test_the_life_of_a_client_on_both_databases(start_service: StartService, database_url: str) -> None:
    service = await start_service("idp", "client-auth-jwt", "resolver", database={"url": database_url})
    registry = service.kernel.hooks.instances["idp"].assembly(service.host("idp")).clients
    made = await registry.register_body(
        {**BASIC, "client_name": "ü", "logo_uri": "https://app.example/ü".replace("ü", "%C3%BC")}, open=False, by="root"
    )
    sealed = await registry.register_body(
        {"token_endpoint_auth_method": "client_secret_jwt", "client_secret": "s" * 32}, open=False, by="root"
    )

    assert await registry.listed((-1, ""), 10) == [made.client, sealed.client]
    assert await registry.get(made.client.client_id) == made.client
    assert await registry.secrets.is_right(made.client, ["a chosen secret of theirs"])
    assert registry.secret(sealed.client).value == "s" * 32
    changed = await registry.update(made.client.client_id, {"client_name": "ö", "logo_uri": None}, by="root")
    assert changed is not None
    assert (changed.client_name, changed.more) == ("ö", {})
    assert await registry.delete(made.client.client_id, by="root")
    assert await registry.listed((-1, ""), 10) == [sealed.client]


# ---- Clients that register themselves (RFC 7591)


async def test_an_open_registration_reads_the_members_of_the_rfc(registry: Registry) -> None:
    body = {"redirect_uris": ["https://app.example/cb"], "scope": "openid  profile", "scopes": ["email"], "client_name": "App", "other": 1}

    made = await registry.register_body(body, open=True, by="anybody")

    assert (made.client.source, made.client.token_endpoint_auth_method) == ("dynamic", "client_secret_basic")
    assert made.client.scopes == ("openid", "profile")
    assert made.client_secret is not None


async def test_an_open_registration_has_the_scopes_that_anybody_may_have(registry: Registry) -> None:
    body = {"redirect_uris": ["https://app.example/cb"], "scope": "openid directory.read no-such-scope"}

    made = await registry.register_body(body, open=True, by="anybody")

    assert made.client.scopes == ("openid",)


async def test_a_client_that_replaces_its_registration_keeps_what_an_administrator_gave(registry: Registry) -> None:
    body = {"redirect_uris": ["https://app.example/cb"], "scope": "openid", "contacts": ["a@app.example"]}
    made = await registry.register_body(body, open=True, by="anybody")
    id = made.client.client_id
    await registry.update(id, {"scopes": ["openid", "introspect", "directory.read"], "workload_type": "batch"}, by="root")

    changed = await registry.replace_body(id, {**body, "contacts": None, "scope": "introspect directory.read email"}, by=id)

    assert changed is not None
    assert (changed.client.scopes, changed.client.workload_type) == (("introspect", "directory.read", "email"), "batch")
    assert (changed.client.more, changed.client.secret, changed.client_secret) == ({}, made.client.secret, None)
    for refused in ({"workload_type": "other"}, {"client_secret": "s" * 43}, {"scope": 1}):
        with pytest.raises(InvalidClientMetadata):
            await registry.replace_body(id, {**body, **refused}, by=id)
    assert await registry.get(id) == changed.client
    assert await registry.replace_body("nobody", body, by=id) is None


async def test_what_a_plugin_does_in_the_transaction_of_a_client_undoes_it(service: Any, registry: Registry) -> None:
    def refuse(_tx: Tx, _id: str) -> None:
        raise Refuse(Conflict("not now"))

    body = {"redirect_uris": ["https://app.example/cb"], "client_name": "App"}
    with pytest.raises(Conflict, match="not now"):
        await registry.register_body(body, open=True, by="anybody", also=refuse)
    assert await rows(service) == []
    made = await registry.register_body(body, open=True, by="anybody")
    id = made.client.client_id
    for change in (registry.replace_body(id, {**body, "client_name": "New"}, by=id, also=refuse), registry.delete(id, by=id, also=refuse)):
        with pytest.raises(Conflict, match="not now"):
            await change
    assert await registry.get(id) == made.client


async def test_the_client_of_a_document_is_read_and_not_stored(service: Any, registry: Registry) -> None:
    body = {"redirect_uris": ["https://app.example/cb"], "token_endpoint_auth_method": "none", "scope": "openid nonsense"}

    client = await registry.read_body("https://app.example/client", body, source="document")

    assert (client.client_id, client.source, client.created_at, client.scopes) == ("https://app.example/client", "document", 0, ("openid",))
    assert await rows(service) == []
    for refused in ({"redirect_uris": ["http://app.example/"]}, {"scope": "introspect"}, {"consent": "implicit"}):
        with pytest.raises((InvalidClientMetadata, InvalidRedirectUri)):
            await registry.read_body("https://app.example/client", {**body, **refused}, source="document")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"scope": "openid introspect"}, "introspect"),
        ({"scope": ["openid"]}, "separated by spaces"),
        ({"consent": "implicit"}, "consent: only an administrator"),
        ({"allow_token_exchange_actor": True}, "only an administrator"),
        ({"spiffe_id": "spiffe://example.org/a"}, "only an administrator"),
        ({"kerberos_principal": "HTTP/a@B"}, "only an administrator"),
        ({"tls_client_certificate": "x"}, "only an administrator"),
        ({"redirect_uris": 7}, "redirect_uris"),
    ],
)
async def test_what_nobody_gives_to_themselves_is_refused(service: Any, registry: Registry, change: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidClientMetadata, match=word):
        await registry.register_body({"redirect_uris": ["https://app.example/cb"], **change}, open=True, by="anybody")

    assert await rows(service) == []


@pytest.mark.parametrize("scopes", [("introspect",), ("no-such-scope",), ("openid", "introspect", "no-such-scope")])
async def test_the_scopes_of_a_finished_client_are_looked_at_too(service: Any, registry: Registry, scopes: tuple[str, ...]) -> None:
    client = Client(client_id="", token_endpoint_auth_method="none", redirect_uris=("https://app.example/cb",), scopes=scopes)

    with pytest.raises(InvalidClientMetadata, match=scopes[-1] if len(scopes) == 1 else "introspect"):
        await registry.register(Registration(client=client, open=True), by="anybody")

    assert await rows(service) == []
