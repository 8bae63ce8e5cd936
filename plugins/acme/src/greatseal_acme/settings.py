"""The configuration keys of ACME."""

from collections.abc import Sequence
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec


class AcmeServer(msgspec.Struct, frozen=True, kw_only=True):
    """[server]: what clients are told, and how long they have."""

    terms_of_service_url: str | None = None
    """Terms that a new account must agree to; none when left out."""
    website_url: str | None = None
    """A page about this certificate authority, shown in the directory."""
    order_expiry_secs: int = 86400
    """Seconds until an order that was not finalized expires."""
    authz_expiry_secs: int = 86400
    """Seconds until an authorization expires."""
    ari_retry_after_secs: int = 21600
    """Seconds after which clients ask again when to renew a certificate (RFC 9773 s4.3)."""
    ari_explanation_url: str | None = None
    """A page that says why certificates should be renewed when they should, shown with the time; none when left out."""
    allow_subdomain_auth: bool = False
    """Whether one authorization may be for a domain and all names below it, where the client asks for that (RFC 9444). It is proven by
    the types of challenge that prove wildcard names."""
    account_scope: Literal["server", "ca"] = "server"
    """Whether an account may order from every CA, or from the one alone at whose path it was made. To change it later leaves the accounts
    of before behind: clients make new ones."""

    def __post_init__(self) -> None:
        for key in ("order_expiry_secs", "authz_expiry_secs", "ari_retry_after_secs"):
            if getattr(self, key) < 60:
                raise ValueError(f"{key}: {getattr(self, key)}: expected at least 60 seconds, which a client needs")
        for key in ("terms_of_service_url", "website_url", "ari_explanation_url"):
            _check_url(key, getattr(self, key))


class AccountLimits(msgspec.Struct, frozen=True, kw_only=True):
    """[acme.account_limits.<account id>]: what one account may have instead of the others'. What is left out is as for all."""

    max_pending_orders: int | None = None
    new_orders_per_hour: int | None = None

    def __post_init__(self) -> None:
        _check_limits(self)


class Acme(msgspec.Struct, frozen=True, kw_only=True):
    """[acme]: how much one account may have under way."""

    max_pending_orders: int = 300
    """Orders of an account that are pending, ready or processing at once; 0 for any number."""
    new_orders_per_hour: int = 0
    """Orders that an account may make in an hour; 0 for any number."""
    account_limits: dict[str, AccountLimits] = {}
    """Other limits for single accounts, by the last part of their URL."""

    def __post_init__(self) -> None:
        _check_limits(self)


class AcmeProfile(msgspec.Struct, frozen=True, kw_only=True):
    """[profiles.<id>]: what ACME asks of accounts."""

    require_account_grant: bool = False
    """Only accounts whose profile grants list this profile may use it."""


class CaId(msgspec.Struct, frozen=True, kw_only=True):
    """[ca], read: the CAs that have paths of their own, and which one has the bare ones."""

    id: Annotated[str, msgspec.Meta(pattern="^[a-z0-9][a-z0-9_-]{0,63}$")] = "default"
    is_default: bool | None = None


def default_ca(cas: Sequence[CaId]) -> str:
    """The id of the CA that is meant where none is named."""
    return max(cas, key=lambda ca: bool(ca.is_default), default=CaId()).id


class HttpValidation(msgspec.Struct, frozen=True, kw_only=True):
    """[server], read: the port that the printed certbot line must listen on, and whether it would be asked there."""

    http_validation_port: int = 80
    http_validation_allow_private_ips: bool = False


def _check_limits(limits: AccountLimits | Acme) -> None:
    for key in ("max_pending_orders", "new_orders_per_hour"):
        if (getattr(limits, key) or 0) < 0:
            raise ValueError(f"{key}: {getattr(limits, key)}: expected 0 (any number) or more")


def _check_url(key: str, value: str | None) -> None:
    if value is not None and (urlsplit(value).scheme not in {"http", "https"} or not urlsplit(value).netloc):
        raise ValueError(f"{key}: {value!r} is not an http or https URL")
