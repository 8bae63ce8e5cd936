"""Each pair of features that are off by default, on together: one whole flow, in which both take part, and a discovery document of both."""

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from rig.pam import Stack
from security.idp_desk import PASSWORD, Desk, open_desk
from system.oidc.features import API, AUTHORITY, BEARER, CIBA, DEVICE, EXCHANGE, ISSUER, TOKEN, Flow

from greatseal.testing.desk import told

SHOWN: dict[str, frozenset[str]] = {
    "ciba": frozenset(
        {
            "backchannel_authentication_endpoint",
            "backchannel_token_delivery_modes_supported",
            "backchannel_user_code_parameter_supported",
            f"grant_types_supported={CIBA}",
        }
    ),
    "client-auth-mtls": frozenset(
        {
            "tls_client_certificate_bound_access_tokens",
            *(
                f"{endpoint}_endpoint_auth_methods_supported={method}"
                for endpoint in ("token", "revocation", "introspection")
                for method in ("tls_client_auth", "self_signed_tls_client_auth")
            ),
        }
    ),
    "device-flow": frozenset({"device_authorization_endpoint", f"grant_types_supported={DEVICE}"}),
    "dpop": frozenset({"dpop_signing_alg_values_supported"}),
    "fapi": frozenset(),
    "hbac": frozenset(),
    "jar": frozenset(
        {
            "request_parameter_supported=True",
            "request_object_signing_alg_values_supported",
            "require_signed_request_object",
            "authorization_signing_alg_values_supported",
            *(f"response_modes_supported={mode}" for mode in ("jwt", "query.jwt", "fragment.jwt", "form_post.jwt")),
            *(
                f"{what}_encryption_{member}_values_supported"
                for what in ("authorization", "introspection", "id_token", "userinfo", "request_object")
                for member in ("alg", "enc")
            ),
        }
    ),
    "jwt-bearer": frozenset({f"grant_types_supported={BEARER}"}),
    "pam": frozenset(),
    "rar": frozenset({"authorization_details_types_supported"}),
    "registration": frozenset({"registration_endpoint"}),
    "resource-indicators": frozenset(),
    "token-exchange": frozenset({f"grant_types_supported={EXCHANGE}"}),
}
"""What each feature adds to discovery: a member, or a value of a member that is there without it.

Profiles and rules add nothing: ``fapi`` shows in the tokens of its clients, ``hbac`` in what it refuses, ``pam`` in who has the password.
"""
SETTINGS: dict[str, Any] = {
    "client-auth-mtls": {"server": {"trusted_proxies": ["127.0.0.1/32"]}},
    "rar": {
        "oauth": {
            "authorization_details": [
                {"type": "payment", "sentence": "Pay {amount} EUR", "members": {"amount": {"type": "decimal", "required": True}}}
            ]
        }
    },
    "hbac": {"hbac": {"enforce_grants": True}},
    "jwt-bearer": {"jwt_bearer": {"issuers": [ISSUER]}},
    "registration": {"server": {"registration_token": TOKEN}},
}


def whole(*on: str) -> dict[str, Any]:
    """The settings of those features."""
    sections: dict[str, Any] = {}
    for feature in on:
        for name, section in SETTINGS.get(feature, {}).items():
            sections[name] = {**sections.get(name, {}), **section}
    return sections


async def discovered(desk: Desk) -> dict[str, Any]:
    """Both documents: each member with its value."""
    whole: dict[str, Any] = {}
    for name in ("openid-configuration", "oauth-authorization-server"):
        whole |= (await desk.get(f"/.well-known/{name}")).json
    return whole


def added(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """The members that are new, and the values that are new in the others."""
    assert before.keys() <= after.keys()
    found = after.keys() - before.keys()
    for name, value in before.items():
        if isinstance(value, list):
            assert set(value) <= set(after[name])
            found |= {f"{name}={one}" for one in set(after[name]) - set(value)}
        elif isinstance(value, bool) and after[name] is not value:
            found.add(f"{name}={after[name]}")
    return found


@pytest.fixture
def opened(tmp_path: Path) -> Any:
    AUTHORITY.cert_pem.write_to_path(tmp_path / "cas.pem")

    def open(*on: str) -> Any:
        sections = whole(*on)
        if "client-auth-mtls" in on:
            sections["oauth"] = {**sections.get("oauth", {}), "client_ca_file": str(tmp_path / "cas.pem")}
        if {"registration", "resource-indicators"} <= set(on):
            sections["registration"] = {"resources": [API]}
        if "pam" in on:
            sections["pam"] = {**Stack(tmp_path / "pam.d").people(ann=PASSWORD).say().settings, "accounts": False}
        elsewhere = ("ann",) if "pam" in on else ()
        return open_desk(tmp_path, "resolver", "client-auth-jwt", *on, elsewhere=elsewhere, **sections)

    return open


@pytest.mark.parametrize("pair", list(combinations(sorted(SHOWN), 2)), ids="+".join)
async def test_two_features_take_part_in_one_flow(opened: Any, pair: tuple[str, str]) -> None:
    on = frozenset(pair) if "fapi" not in pair or {"dpop", "client-auth-mtls"} & set(pair) else frozenset({*pair, "dpop"})
    async with opened(*on) as desk:
        await Flow(desk, on).run()


async def test_all_features_take_part_in_one_flow(opened: Any) -> None:
    async with opened(*SHOWN) as desk:
        await Flow(desk, frozenset(SHOWN)).run()


async def test_discovery_lists_what_is_on_and_nothing_else(opened: Any) -> None:
    async with opened() as desk:
        plain = await discovered(desk)
    for on in [*((feature,) for feature in SHOWN), tuple(SHOWN)]:
        async with opened(*on) as desk:
            found = added(plain, await discovered(desk))
        both = {"backchannel_authentication_request_signing_alg_values_supported"} if {"ciba", "jar"} <= set(on) else set()
        assert found == frozenset(both).union(*(SHOWN[feature] for feature in on)), on


async def test_without_them_their_requests_are_answered_as_if_they_did_not_exist(opened: Any) -> None:
    async with opened() as desk:
        client = await desk.registered()
        ann = await desk.cookie("ann")
        for grant in (DEVICE, CIBA, EXCHANGE, BEARER):
            assert (await desk.form("/token", {"grant_type": grant}, by=client)).outcome == (400, "unsupported_grant_type")
            assert (await desk.register(grant_types=[grant])).outcome == (400, "invalid_client_metadata")
        for path in ("/device_authorization", "/bc-authorize", "/register"):
            assert (await desk.form(path, {"scope": "openid"}, by=client)).status == 404
        for path in ("/device", "/ciba", "/api/auth/device", "/api/auth/ciba"):
            assert (await desk.get(path)).status == 404
        assert told(await desk.authorize(ann, client_id=client["client_id"], request="e30.e30."))["error"] == "request_not_supported"
        assert told(await desk.authorize(ann, client_id=client["client_id"], response_mode="jwt"))["error"] == "invalid_request"
        for field, value in {
            "dpop_bound_access_tokens": True,
            "require_signed_request_object": True,
            "authorization_signed_response_alg": "ES256",
            "tls_client_certificate_bound_access_tokens": True,
            "token_endpoint_auth_method": "tls_client_auth",
            "profile": "fapi2",
        }.items():
            assert (await desk.register(**{field: value})).outcome == (400, "invalid_client_metadata"), field
