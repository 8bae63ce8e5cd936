"""The configuration keys of external account binding."""

import binascii
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Annotated

import msgspec

from greatseal.api.declarations import Secret
from greatseal.jose.compact import b64url_encode

LEAST_KEY_BYTES, MOST_KEY_BYTES = 16, 512
LEAST_SECRET_BYTES = 32
MOST_KID = 255
_MAKE = "make one with: openssl rand -base64 32 | tr +/ -_ | tr -d ="
_TO_STANDARD = str.maketrans("-_", "+/")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


class EabServer(msgspec.Struct, frozen=True, kw_only=True):
    """[server]: whose accounts are bound, and by what."""

    external_account_required: bool = False
    """Whether a new account needs a binding; one that is sent without being asked for is checked all the same."""
    eab_keys: Mapping[str, Secret] = {}
    """HMAC keys by their key id: base64 of at least 16 bytes, each good for one account. Those that are absent are stored at the start."""
    eab_master_secret: Secret | None = None
    """At least 32 random bytes in base64url, from which the credentials of Kerberos principals are derived."""

    def __post_init__(self) -> None:
        problems = [f"eab_keys: {problem}" for kid, key in self.eab_keys.items() if (problem := _problem(kid, key))]
        if self.eab_master_secret is not None and len(_decoded(self.eab_master_secret.value) or b"") < LEAST_SECRET_BYTES:
            problems.append(f"eab_master_secret: expected at least {LEAST_SECRET_BYTES} random bytes in base64url; {_MAKE}")
        if problems:
            raise ValueError("; ".join(problems))

    @property
    def master_secret(self) -> bytes | None:
        """The secret as bytes, None where nothing is derived."""
        return None if self.eab_master_secret is None else _decoded(self.eab_master_secret.value)


class EabProxy(msgspec.Struct, frozen=True, kw_only=True):
    """[eab]: who says whose credentials are asked for."""

    identity_header: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9-]{1,64}$")] | None = None
    """The header in which a proxy of `[server] trusted_proxies` names the Kerberos principal that it saw; not with `[gssapi]`."""


class Proxies(msgspec.Struct, frozen=True, kw_only=True):
    """[server], whose headers count."""

    trusted_proxies: tuple[str, ...] = ()


class AttemptLimit(msgspec.Struct, frozen=True, kw_only=True):
    """[server]: the limit of sign-ins, by which tickets are limited here too."""

    auth_rate_limit: Annotated[int, msgspec.Meta(ge=0)] = 30
    """Sign-in attempts from one address in 300 s; 0 switches the limits off."""


def proxy_problems(header: str | None, trusted_proxies: tuple[str, ...], *, gssapi: bool) -> list[str]:
    """What is wrong with `[eab] identity_header`, one line each."""
    if header is None:
        return []
    problems = []
    if gssapi:
        problems.append("[eab] identity_header: /acme/eab takes a header or tickets, and [gssapi] is there: leave out one of them")
    if not trusted_proxies:
        problems.append(f"[eab] identity_header: nobody is believed who sends {header}: name the proxy in [server] trusted_proxies")
    return problems


def kid_problem(kid: str) -> str | None:
    """What is wrong with a key id, None for nothing."""
    if not 0 < len(kid) <= MOST_KID:
        return f"a kid has 1 to {MOST_KID} characters"
    return None if kid.isprintable() and kid.strip() == kid else "a kid has neither control characters nor blanks at its ends"


def canonical_key(text: str) -> str:
    """The key in base64url without padding, from any base64 that operators write. Raises ValueError that says what was expected."""
    key = _decoded(text)
    if key is None:
        raise ValueError("the HMAC key is not base64url")
    if not LEAST_KEY_BYTES <= len(key) <= MOST_KEY_BYTES:
        raise ValueError(f"the HMAC key has {len(key)} bytes; {LEAST_KEY_BYTES} to {MOST_KEY_BYTES} are possible")
    return b64url_encode(key)


def _problem(kid: str, key: Secret) -> str | None:
    if (problem := kid_problem(kid)) is not None:
        return f"{kid!r}: {problem}"
    try:
        canonical_key(key.value)
    except ValueError as error:
        return f"{kid!r}: {error}; {_MAKE}"
    return None


def _decoded(text: str) -> bytes | None:
    """Base64 in either alphabet, padded or not; None for what is neither."""
    standard = text.strip().translate(_TO_STANDARD)
    if not _BASE64.fullmatch(standard):
        return None
    bare = standard.rstrip("=")
    try:
        return b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except binascii.Error:
        return None
