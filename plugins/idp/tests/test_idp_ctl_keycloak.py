"""What of a Keycloak realm carries over: an export that Keycloak 26.0.8 wrote, without mappers and the clients of its own consoles."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal_idp.ctl.keycloak import DEVICE, HIDDEN, Offered, Unreadable, plan

EXPORT = Path(__file__).parent / "data/keycloak-26-realm.json"
SCOPES = ("openid", "profile", "email", "address", "phone", "offline_access")
OFFERED = Offered(grant_types=("authorization_code", "refresh_token", "client_credentials"), scopes=SCOPES)
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda one: st.lists(one) | st.dictionaries(st.text(), one))
MEMBERS = st.sampled_from(["attributes", "clientAuthenticatorType", "protocol", "redirectUris", "rootUrl", "secret", "defaultClientScopes"])


def planned(change=None, *, offered=OFFERED, new_secrets=False):
    realm = json.loads(EXPORT.read_text())
    for client in realm["clients"]:
        client.update((change or {}).get(client["clientId"], {}))
    return {one.name: one for one in plan(json.dumps(realm).encode(), offered, new_secrets=new_secrets)}


def test_a_web_application_keeps_its_secret_its_addresses_and_its_rules():
    wiki = planned()["wiki"]

    assert wiki.notes == ()
    assert wiki.body == {
        "client_name": "Wiki",
        "token_endpoint_auth_method": "client_secret_basic",
        "client_secret": "wiki-secret-wiki-secret-wiki-secret",
        "redirect_uris": ["https://wiki.example.org/oauth/callback", "https://wiki.example.org/other"],
        "post_logout_redirect_uris": ["https://wiki.example.org/", "https://wiki.example.org/bye"],
        "frontchannel_logout_uri": "https://wiki.example.org/front",
        "grant_types": ["authorization_code", "refresh_token"],
        "scopes": [*SCOPES],
        "consent": "explicit",
        "require_pkce": True,
        "id_token_signed_response_alg": "RS256",
        "logo_uri": "https://wiki.example.org/logo.png",
        "software_id": "keycloak:example:wiki",
    }


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("batch", {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "https://batch.example.org/jwks.json"}),
        ("batch", {"grant_types": ["client_credentials"], "token_endpoint_auth_signing_alg": "ES256", "consent": "implicit"}),
        ("bank", {"token_endpoint_auth_method": "private_key_jwt", "require_pushed_authorization_requests": True}),
        ("bank", {"dpop_bound_access_tokens": True, "backchannel_logout_uri": "https://bank.example.org/out"}),
        ("hmac", {"token_endpoint_auth_method": "client_secret_jwt", "grant_types": ["client_credentials"], "redirect_uris": []}),
        ("phone-app", {"token_endpoint_auth_method": "none", "redirect_uris": ["org.example.app:/cb"]}),
    ],
)
def test_what_carries_over(name, members):
    body = planned()[name].body

    assert members.items() <= body.items()
    assert body.keys().isdisjoint({"client_secret"}) or name == "hmac"


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("api", {}, "it only takes tokens"),
        ("old", {}, "it is disabled there"),
        ("urn:saml:app", {}, "it speaks saml"),
        ("edge", {}, "it proves itself by a certificate"),
        ("wiki", {"secret": HIDDEN}, "the export hides its secret"),
        ("wiki", {"clientAuthenticatorType": "client-spiffe"}, "it proves itself by client-spiffe"),
        ("batch", {"attributes": {"jwt.credential.certificate": "MII"}}, "its key is a certificate"),
        ("hmac", {"serviceAccountsEnabled": False}, "no grant of it carries over; redirect URIs with wildcards"),
    ],
)
def test_what_stays_behind_says_why(name, change, why):
    one = planned({name: change})[name]

    assert one.body is None
    assert one.notes[0].startswith(why)


def test_what_is_lost_is_noted():
    clients = planned()

    assert clients["phone-app"].notes == (
        "redirect URIs with wildcards or variables are left out; name each with: clients update --redirect-uri",
        f"no enabled plugin has the grant {DEVICE}",
    )
    assert "the implicit grant is not offered (RFC 9700 s2.1.2)" in clients["hmac"].notes
    assert "the password grant is not offered (RFC 9700 s2.4)" in clients["hmac"].notes
    other = planned({"wiki": {"defaultClientScopes": ["payroll"], "attributes": {"id.token.signed.response.alg": "PS512"}}})["wiki"]
    assert other.notes == (
        "not defined here, make them first with ctl scopes: payroll",
        "id_token_signed_response_alg: PS512 is not offered; ES256 is used",
    )


def test_a_grant_of_an_enabled_plugin_carries_over():
    offered = Offered(grant_types=(*OFFERED.grant_types, DEVICE), scopes=OFFERED.scopes)

    assert DEVICE in planned(offered=offered)["phone-app"].body["grant_types"]


def test_a_hidden_secret_is_replaced_when_that_is_asked_for():
    one = planned({"wiki": {"secret": HIDDEN}}, new_secrets=True)["wiki"]

    assert one.is_new_secret
    assert len(one.body["client_secret"]) == 43


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b"\xff", b'{"realm": "r", "clients": [1]}', b'{"realm": "r", "clients": {"a": 1}}', b"[" * 9999]
)
def test_a_file_that_is_no_export_is_refused(text):
    with pytest.raises(Unreadable, match=r"make it with: kc\.sh export"):
        plan(text, OFFERED, new_secrets=False)


@given(MEMBERS, JSON)
def test_any_value_in_an_export_is_read_or_refused(member, value):
    try:
        names = planned({"wiki": {member: value}}).keys()
    except Unreadable:
        return
    assert "wiki" in names
