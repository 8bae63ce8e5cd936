"""What the tables of providers may say: each mistake is refused in words that name the key."""

import re
from typing import Any

import pytest

from greatseal.api.declarations import Secret
from greatseal_federation.settings import FederationSettings, UpstreamTable
from greatseal_federation.upstreams import configured

ISSUER = "https://login.partner.example"
SECRET = Secret("s")


def table(**changes: Any) -> UpstreamTable:
    given = {"id": "partner", "issuer": ISSUER, "client_id": "greatseal", **changes}
    return UpstreamTable(**{name: value for name, value in given.items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(({"id": id}, "id: expected lower-case") for id in ("", "Partner", "a_b", "-a", "a-", "a" * 65, "a/b", "ipa-keycloak")),
        *(({"client_id": id}, "client_id: expected visible ASCII") for id in ("", "a b", "ä", "a" * 257, "a\n")),
        ({"acr_values": ("a", "a b")}, "acr_values: expected words"),
        ({"default_amr": ("",)}, "default_amr: expected words"),
        ({"scopes": ('a"b',)}, "scopes: expected words"),
        ({"default_acr": "a b"}, "default_acr: expected a word"),
        *(({"parameters": {name: "x"}}, f"parameters: {name} is set") for name in ("state", "nonce", "redirect_uri", "scope", "max_age")),
        ({"issuer": None}, "issuer: expected the URL"),
        ({"issuer": None, "preset": "okta"}, "issuer: expected the URL"),
        *(
            ({"issuer": url}, "issuer: expected an https:// URL")
            for url in (
                "http://login.partner.example", "login.partner.example", "https://", "https://a@b.example", "https://b.example/#x",
                "https://b.example?x=1", "https://b.example/a b", "https://b.example:port", "ftp://localhost", "http://localhost.example",
            )
        ),
        ({"token_endpoint": "http://b.example/token"}, "token_endpoint: expected an https:// URL"),
        ({"jwks_uri": "https://b.example/jwks#x"}, "jwks_uri: expected an https:// URL"),
        ({"tenants": ("t",)}, "tenants: for preset"),
        ({"tenants": ("t",), "preset": "google"}, "tenants: for preset"),
        ({"client_secret": SECRET, "client_key": "k.pem"}, "client_secret and client_key: expected one"),
        ({"client_auth": "private_key_jwt", "client_secret": SECRET}, "client_key: private_key_jwt needs it"),
        ({"client_auth": "client_secret_basic"}, "client_secret: client_secret_basic needs it"),
        ({"client_auth": "client_secret_post", "client_key": "k.pem"}, "client_secret: client_secret_post needs it"),
        *(
            ({"link_email_domains": ("a.example", one)}, "link_email_domains: expected")
            for one in ("Example.org", "example", "*.example.org", "@a.example", "")
        ),
        *(({"realm": realm}, "realm: expected capitals") for realm in ("partner.example", "", "-A", "A B", "A@B")),
        ({"groups": {"a": "b"}}, "groups: for people whom"),
    ],
)  # fmt: skip
def test_a_table_of_a_provider_that_cannot_be_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        table(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "a"},
        {"id": "a-1"},
        {"issuer": None, "preset": "google"},
        {"issuer": "http://localhost:8080/realms/main"},
        {"issuer": "http://id.localhost"},
        {"issuer": "http://127.0.0.1:80"},
        {"issuer": "http://[::1]:80"},
        {"token_endpoint": "https://b.example/token?tenant=1"},
        {"preset": "entra", "tenants": ("t",)},
        {"client_auth": "private_key_jwt", "client_key": "k.pem"},
        {"client_auth": "client_secret_post", "client_secret": SECRET},
        {"realm": "PARTNER.EXAMPLE", "groups": {"a": "b"}, "link_email_domains": ("a-b.example.org",)},
        {"parameters": {"prompt": "select_account"}, "default_acr": "urn:x", "acr_values": ("urn:x",), "default_amr": ("otp",)},
    ],
)
def test_a_table_that_can_be_is_taken(changes: dict[str, Any]) -> None:
    assert configured(table(**changes)).id == changes.get("id", "partner")


def test_an_id_is_there_once() -> None:
    with pytest.raises(ValueError, match="upstream_idps: the id 'partner' is there twice"):
        FederationSettings(upstream_idps=(table(), table(id="other"), table(client_id="x")))


def test_only_providers_of_a_directory_stand_in_the_list_of_those_whose_moment_is_assumed() -> None:
    assert FederationSettings(assume_auth_time=("ipa-github",)).assume_auth_time == ("ipa-github",)
    with pytest.raises(ValueError, match="assume_auth_time: expected ids that begin with ipa-"):
        FederationSettings(assume_auth_time=("ipa-github", "partner"))


@pytest.mark.parametrize("preset", [None, "google", "entra", "github", "gitlab", "keycloak", "okta"])
def test_no_preset_assumes_the_moment_of_a_sign_in(preset: Any) -> None:
    assert not configured(table(preset=preset)).assume_auth_time
    assert configured(table(preset=preset, assume_auth_time=True)).assume_auth_time
