"""The configuration keys of OpenID Federation: `[federation]`, the part of this service as an entity."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from greatseal.jose.keysets import read_key_set
from greatseal_openid_federation.entities import is_entity

ENTITY = "an https URL in lower case, without user, query and fragment"


class TrustAnchor(msgspec.Struct, frozen=True, kw_only=True):
    """[[federation.trust_anchors]]: who decides which clients belong to a federation."""

    entity_id: str
    """Its Entity Identifier: an https URL."""
    jwks: Mapping[str, Any]
    """Its public keys, as a JWK Set, got from the federation's operator by another way than its URL; each has its `kid`."""

    def __post_init__(self) -> None:
        if not is_entity(self.entity_id):
            raise ValueError(f"entity_id: expected {ENTITY}")
        try:
            keys = read_key_set(self.jwks)
        except ValueError as error:
            raise ValueError(f"jwks: {error}") from None
        if not all(key.kid for key in keys):
            raise ValueError("jwks: a key has no kid")


class TrustMarkFile(msgspec.Struct, frozen=True, kw_only=True):
    """[[federation.trust_marks]]: what an accreditation authority says of this service."""

    trust_mark_type: str
    """Its type, an identifier of the authority."""
    file: Path
    """The file that holds the signed JWT; it is read again when it changes."""


class EntitySettings(msgspec.Struct, frozen=True, kw_only=True):
    """[federation], the part of OpenID Federation."""

    entity_enabled: bool = True
    """Whether `/.well-known/openid-federation` says what this service is."""
    authority_hints: tuple[str, ...] = ()
    """The Entity Identifiers of the immediate superiors of this service."""
    organization_name: str | None = None
    """Who runs this service, for the entity configuration."""
    contacts: tuple[str, ...] = ()
    """Whom to ask about it, such as mail addresses."""
    trust_marks: tuple[TrustMarkFile, ...] = ()
    """Trust marks that the entity configuration shows."""
    trust_anchors: tuple[TrustAnchor, ...] = ()
    """Trust anchors whose federations may bring clients; without any, no client is registered automatically."""
    client_scopes: tuple[str, ...] = ("openid", "profile", "email")
    """The most scopes that a client of a federation may have, and those of one that names none."""
    allow_private_entity_hosts: bool = False
    """Whether entities may be at addresses that are not public; for a federation inside the organisation's own network."""

    def __post_init__(self) -> None:
        if not all(map(is_entity, self.authority_hints)):
            raise ValueError(f"authority_hints: expected Entity Identifiers, each {ENTITY}")
        names = [one.entity_id for one in self.trust_anchors]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"trust_anchors: {twice[0]!r} is there twice")
