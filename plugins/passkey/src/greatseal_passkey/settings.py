"""The configuration keys of passkeys, and the relying party that they make."""

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from greatseal.host import Host

_DOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*")


class PasskeySettings(msgspec.Struct, frozen=True, kw_only=True):
    """[passkey]: for which domain passkeys are made, and what they must prove."""

    rp_id: str | None = None
    """The domain that passkeys are made for; the host of the issuer, or a domain above it, when left out the host. Changing it makes every
    passkey worthless."""
    user_verification: Literal["required", "preferred"] = "required"
    """Whether the device must have checked its person, by PIN, finger or face. With `preferred` holding the device is enough."""
    attestation: Literal["none", "direct"] = "none"
    """Whether the maker must vouch for a device that makes a passkey. With `direct` only models of `metadata_file` make new ones."""
    metadata_file: Path | None = None
    """The models: the BLOB of the FIDO Metadata Service, or the JSON that is in one. It must be given with `attestation = "direct"`."""
    metadata_ca_file: Path | None = None
    """PEM of the authority that vouches for the publisher of a signed BLOB."""
    models: tuple[str, ...] = ()
    """The AAGUIDs of those models of the file that may be used; when left out all of them, with those of U2F, which have none."""

    def __post_init__(self) -> None:
        _check_domain("rp_id", self.rp_id)
        if (self.attestation == "direct") != (self.metadata_file is not None):
            raise ValueError('attestation = "direct" and metadata_file go together')
        for model in self.models:
            _check_model(model)


class IpaPasskeys(msgspec.Struct, frozen=True, kw_only=True):
    """[ipa]: passkeys of people of the directory."""

    passkey_rp_id: str | None = None
    """The domain that passkeys are made for, which is the directory's; without it passkeys are off where there is a section [ipa]."""

    def __post_init__(self) -> None:
        _check_domain("passkey_rp_id", self.passkey_rp_id)


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """[webui]: how the service calls itself where a device asks its person."""

    display_name: str | None = None
    """What the service calls itself; the host of the issuer when left out."""


class PasskeyLimit(msgspec.Struct, frozen=True, kw_only=True):
    """[server]: the limit of sign-ins, by which questions about names are limited too."""

    auth_rate_limit: Annotated[int, msgspec.Meta(ge=0)] = 30
    """Sign-in attempts from one address in 300 s; 0 switches the limits off."""


class RelyingParty(msgspec.Struct, frozen=True, kw_only=True):
    """Whom passkeys are made for (WebAuthn s4): ``id`` is a domain, ``origins`` those of our pages."""

    id: str
    name: str
    origins: tuple[str, ...]
    verified: bool
    """Whether the device must have checked its person."""

    @property
    def verification(self) -> str:
        """The member ``userVerification`` of options."""
        return "required" if self.verified else "preferred"


def relying_party(host: Host) -> RelyingParty | None:
    """None where passkeys are off: the issuer has no name, or a directory is used and its domain is not given."""
    own, directory = host.settings(PasskeySettings), host.settings(IpaPasskeys)
    issuer = _host(host.issuer)
    default = None if host.section_present("ipa") or _is_address(issuer) else issuer
    id = directory.passkey_rp_id or own.rp_id or default
    if id is None or problems(host):
        return None
    urls = [url for url in (host.issuer, host.base_url) if _is_below(_host(url), id)]
    origins = tuple(dict.fromkeys(f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" for url in urls))
    return RelyingParty(
        id=id, name=host.settings(Look).display_name or issuer, origins=origins, verified=own.user_verification == "required"
    )


def problems(host: Host) -> list[str]:
    """What is wrong with the domain that was configured."""
    own, directory = host.settings(PasskeySettings).rp_id, host.settings(IpaPasskeys).passkey_rp_id
    if own and directory and own != directory:
        return [f"[passkey] rp_id is {own!r}, [ipa] passkey_rp_id is {directory!r}: there is one domain for all passkeys; give one of them"]
    key, id = ("[ipa] passkey_rp_id", directory) if directory else ("[passkey] rp_id", own)
    if id and not _is_below(_host(host.issuer), id):
        found = _host(host.issuer)
        return [f"{key}: {id!r} is neither the host of the issuer, {found!r}, nor a domain above it, so no browser would make a passkey"]
    return []


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _is_below(name: str, domain: str) -> bool:
    return name == domain or (name.endswith(f".{domain}") and not _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _check_model(model: str) -> None:
    try:
        plain = str(UUID(model)) == model
    except ValueError:
        plain = False
    if not plain:
        raise ValueError(f"models: {model!r}: expected an AAGUID such as ee882879-721c-4913-9775-3dfcce97072a")


def _check_domain(key: str, value: str | None) -> None:
    if value is not None and (_DOMAIN.fullmatch(value) is None or _is_address(value)):
        raise ValueError(f"{key}: {value!r}: expected a domain in lower case, such as example.com")
