"""Entity Identifiers (OpenID Federation 1.0 s1.2), and where what an entity says is found."""

import re
from typing import Annotated
from urllib.parse import quote, urlsplit

import msgspec

WELL_KNOWN = "/.well-known/openid-federation"
LONGEST = 255
"""Characters of an identifier: no ``client_id`` is longer."""
PATTERN = r"https://(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\])(?::[0-9]{1,5})?(?:/[!$&-.0-;=@-Z_a-z~%]*)*"
_ENTITY = re.compile(PATTERN)
_DOTS = re.compile(r"/(?:\.|%2e){1,2}(?=/|$)", re.IGNORECASE)

EntityId = Annotated[str, msgspec.Meta(max_length=LONGEST, pattern=rf"\A{PATTERN}\Z")]


def is_entity(text: str) -> bool:
    """Whether a text may name an entity: an https URL in its usual spelling, with a host and without user, query and fragment."""
    return len(text) <= LONGEST and _ENTITY.fullmatch(text) is not None and _DOTS.search(text) is None


def host_of(entity: str) -> str:
    """The host of an entity, without its port."""
    return urlsplit(entity).hostname or ""


def configuration_url(entity: str) -> str:
    """Where the entity configuration is (s9)."""
    return f"{entity.removesuffix('/')}{WELL_KNOWN}"


def fetch_url(endpoint: str, subject: str) -> str:
    """Where the issuer's statement about ``subject`` is (s8.1.1)."""
    return f"{endpoint}{'&' if '?' in endpoint else '?'}sub={quote(subject, safe='')}"
