"""Templates of names. What stands for ``{dns}`` is put into parts that were taken apart before: no name of an order makes other parts."""

import re

import msgspec

from greatseal.principals import LONGEST, Principal
from greatseal_san_kerberos.principals import parse

DNS = "{dns}"
_PLACE = re.compile(r"\{[^{}]*\}?|\}")


def principal_template(text: str) -> Principal:
    """A principal in which ``{dns}`` may stand. Raises ValueError, worded to follow the template."""
    _check_places(text)
    try:
        found = parse(text)
    except ValueError as error:
        raise ValueError(f"the principal {error}; write it as HTTP/{DNS}@REALM or name@REALM") from None
    if DNS in found.realm:
        raise ValueError(f"{DNS} stands in the realm; write the realm itself")
    return found


def has_place(template: Principal) -> bool:
    """Whether a DNS name is put into it."""
    return any(DNS in one for one in template.components)


def filled(template: Principal, name: str) -> Principal:
    """The principal of a DNS name."""
    return msgspec.structs.replace(template, components=tuple(one.replace(DNS, name) for one in template.components))


def check_upn_template(text: str) -> None:
    """A user principal name in which ``{dns}`` may stand: ``user@domain``. Raises ValueError, worded to follow the template."""
    _check_places(text)
    user, _, domain = text.partition("@")
    if not user or not domain or "@" in domain:
        raise ValueError("expected one @ between a user and a domain")
    if not text.isprintable() or any(map(str.isspace, text)) or len(text) > LONGEST:
        raise ValueError(f"expected at most {LONGEST} printable characters and no blanks")


def _check_places(text: str) -> None:
    if unknown := next((place for place in _PLACE.findall(text) if place != DNS), None):
        raise ValueError(f"{unknown} stands for nothing; only {DNS} is put in")
