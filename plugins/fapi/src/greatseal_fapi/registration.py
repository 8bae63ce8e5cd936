"""What a client with a profile must be registered as (FAPI 2.0 Security Profile s5.3.2, s5.4; Message Signing s5.3, s5.4)."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from greatseal.api.clients import Client, InvalidClientMetadata
from greatseal.jose.algorithms import is_allowed
from greatseal.jose.keysets import read_key_set

ALGORITHMS = ("PS256", "ES256", "Ed25519")
"""Security Profile s5.4.1: EdDSA with Ed25519 alone."""
OFFERED = (*ALGORITHMS, "EdDSA")
"""``alg`` of what a client signs."""
METHODS = ("private_key_jwt", "tls_client_auth", "self_signed_tls_client_auth")
"""Security Profile s5.3.2.1: nothing that a client and this service both know."""
SIGNING = "fapi2_message_signing"
BINDINGS = {"tls_client_certificate_bound_access_tokens": "x5t#S256", "dpop_bound_access_tokens": "jkt"}
"""The members that bind the tokens of a client, with the confirmation of each; the last one where a client names none."""

Profile = Literal["fapi2", "fapi2_message_signing"]

SWITCHES: Mapping[str, bool] = {
    "require_pushed_authorization_requests": True,
    "require_pkce": True,
    "strict_assertion_audience": True,
    "rotate_refresh_tokens": False,
}
"""Security Profile s5.3.2.1 and s5.3.2.2, in the words of a registration."""
OF_SIGNING = {"require_signed_request_object": True, "strict_request_object": True}
"""Message Signing s5.3.1."""
CHOSEN_BY_CLIENT = ("token_endpoint_auth_signing_alg", "request_object_signing_alg")
SIGNED_HERE = ("id_token_signed_response_alg", "introspection_signed_response_alg", "access_token_signed_response_alg")
SIGNED_WHERE_ASKED = ("userinfo_signed_response_alg", "authorization_signed_response_alg")
ALG = "ES256"
"""What this service signs with for clients with a profile: it has RS256 beside it, which is not allowed."""


class ProfileFields(msgspec.Struct, frozen=True, kw_only=True):
    """Members of a client."""

    profile: Literal["default", "fapi2", "fapi2_message_signing"] = "default"
    """All that the FAPI 2.0 Security Profile asks, and with `fapi2_message_signing` signed requests and answers too."""


def profile_of(client: Client) -> Profile | None:
    """The profile of a client, None for the default one."""
    profile = client.more.get("profile", "default")
    return None if profile == "default" else profile


def binding_of(client: Client) -> str:
    """The member that binds the tokens of the client."""
    return next((name for name in BINDINGS if client.more.get(name) is True), "dpop_bound_access_tokens")


def completed(client: Client, profile: Profile, *, signs_answers: bool) -> dict[str, Any]:
    """The members of the client with what its profile means; ``signs_answers`` where this service has signed answers."""
    named = client.more.get("allowed_signing_algs", ALGORITHMS)
    signed = (*SIGNED_HERE, "authorization_signed_response_alg") if signs_answers else SIGNED_HERE
    return {
        **client.more,
        **SWITCHES,
        **(OF_SIGNING if profile == SIGNING else {}),
        **dict.fromkeys(signed, ALG),
        binding_of(client): True,
        "allowed_signing_algs": [alg for alg in named if alg in ALGORITHMS],
    }


def check(client: Client, profile: Profile) -> None:
    """Raise InvalidClientMetadata, with the member and the rule, for what the profile does not allow."""
    if client.token_endpoint_auth_method not in METHODS:
        raise _refused("token_endpoint_auth_method", profile, f"one of {', '.join(METHODS)}", "s5.3.2.1")
    for name, value in SWITCHES.items():
        if client.more.get(name, value) is not value:
            raise _refused(name, profile, f"{str(value).lower()}; leave it out", "s5.3.2")
    _check_algorithms(client, profile)
    _check_keys(client, profile)


def _check_algorithms(client: Client, profile: Profile) -> None:
    for name in CHOSEN_BY_CLIENT:
        if client.more.get(name, ALG) not in OFFERED:
            raise _refused(name, profile, f"one of {', '.join(OFFERED)}", "s5.4.1")
    for name in SIGNED_HERE + SIGNED_WHERE_ASKED:
        if client.more.get(name, ALG) != ALG:
            raise _refused(name, profile, f"{ALG}; leave it out", "s5.4.1")
    named = client.more.get("allowed_signing_algs", ALGORITHMS)
    if not set(named) & set(ALGORITHMS):
        raise _refused("allowed_signing_algs", profile, f"some of {', '.join(ALGORITHMS)}", "s5.4.1")


def _check_keys(client: Client, profile: Profile) -> None:
    """The keys that are registered inline can sign as the profile asks. Those behind ``jwks_uri`` are looked at when they are used."""
    if client.jwks is None:
        if client.jwks_uri is None and profile == SIGNING:
            raise _refused("jwks", profile, "the keys that sign requests, here or behind jwks_uri", "s5.3.1 of Message Signing")
        return
    try:
        keys = read_key_set(client.jwks)
    except ValueError as error:
        raise InvalidClientMetadata(f"jwks: {error} (RFC 7517 s5)") from None
    if not any(is_allowed(alg, one.key, ALGORITHMS) for one in keys for alg in OFFERED if one.fits(alg)):
        raise _refused("jwks", profile, "a key for PS256 (RSA of 2048 bits or more), ES256 (P-256) or EdDSA (Ed25519)", "s5.4")


def _refused(name: str, profile: Profile, expected: str, rule: str) -> InvalidClientMetadata:
    return InvalidClientMetadata(f"{name}: the profile {profile} needs {expected} (FAPI 2.0 {rule})")
