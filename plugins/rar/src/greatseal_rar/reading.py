"""The parameter as it comes, before any type is asked (RFC 9396 s2)."""

from collections.abc import Mapping
from typing import Any

from greatseal.api.details import InvalidAuthorizationDetails
from greatseal.jose.strict import decode_json

LONGEST = 32_768
"""Bytes: what is allowed rests with the code and the refresh family."""
MOST = 100
"""Details: a person reads each."""
DEEPEST = 9
"""Levels: eight of a detail, and the array."""


def read(text: str) -> tuple[Mapping[str, Any], ...]:
    """The details, which are objects, and one at least. Raises InvalidAuthorizationDetails with the rule that was broken."""
    encoded = text.encode(errors="surrogatepass")
    if len(encoded) > LONGEST:
        raise InvalidAuthorizationDetails(f"authorization_details: at most {LONGEST} bytes (RFC 9396 s2)")
    try:
        found = decode_json(encoded, max_depth=DEEPEST)
    except ValueError as error:
        raise InvalidAuthorizationDetails(f"authorization_details: {error} (RFC 9396 s2)") from None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InvalidAuthorizationDetails("authorization_details: expected an array of objects (RFC 9396 s2)")
    if not 1 <= len(found) <= MOST:
        raise InvalidAuthorizationDetails(f"authorization_details: expected 1 to {MOST} objects (RFC 9396 s2)")
    return tuple(found)
