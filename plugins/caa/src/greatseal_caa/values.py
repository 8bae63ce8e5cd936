"""The value of an issue or issuewild property (RFC 8659 s4.2), and what its parameters ask (RFC 8657)."""

import re
from collections.abc import Collection

import msgspec

LABEL = r"[A-Za-z0-9](?:-*[A-Za-z0-9])*+"
DOMAIN = rf"{LABEL}(?:\.{LABEL})*+\.?"
_DOMAIN = re.compile(DOMAIN)
_PARAMETER = re.compile(rf"(?P<tag>{LABEL})[ \t]*=[ \t]*(?P<value>[!-:<-~]*)")
OTHER = "names another"
_METHODS = re.compile(r"[A-Za-z0-9-]+(?:,[A-Za-z0-9-]+)*+")


class Issuer(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a property authorizes; ``domain`` is empty for nobody. ``parameters`` have their tags in lower case, and may be there twice."""

    domain: str
    parameters: tuple[tuple[str, str], ...]


def canonical(domain: str) -> str:
    """Lower case, without the final dot."""
    return domain.lower().removesuffix(".")


def parse(value: str) -> Issuer:
    """Raises ValueError for what is no issue-value, which authorizes nobody; the text follows "is"."""
    domain, _, rest = value.partition(";")
    domain = domain.strip(" \t")
    if domain and not _DOMAIN.fullmatch(domain):
        raise ValueError("no domain name and parameters")
    return Issuer(domain=canonical(domain), parameters=_parameters(rest.strip(" \t")))


def _parameters(text: str) -> tuple[tuple[str, str], ...]:
    if not text:
        return ()
    found = [_PARAMETER.fullmatch(part.strip(" \t")) for part in text.split(";")]
    if None in found:
        raise ValueError("no domain name and parameters")
    return tuple((one["tag"].lower(), one["value"]) for one in found if one is not None)


def refusal(value: str, ours: Collection[str], *, account_url: str, method: str) -> str | None:
    """Why the property does not let us certify for that account and what it proved, None where it does; the text follows the value."""
    try:
        issuer = parse(value)
    except ValueError as error:
        return f"is {error}"
    if issuer.domain not in ours:
        return OTHER
    tags = [tag for tag, _ in issuer.parameters]
    for tag in ("accounturi", "validationmethods"):
        if tags.count(tag) > 1:
            return f"has {tag} twice"
    asked = dict(issuer.parameters)
    if asked.get("accounturi", account_url) != account_url or (not account_url and "accounturi" in asked):
        return f"is for another account than {account_url}"
    methods = asked.get("validationmethods", method)
    if not _METHODS.fullmatch(methods) or method not in methods.split(","):
        return f"does not list {method}, by which the name was proven"
    return None
