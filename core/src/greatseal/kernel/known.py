"""What a key or section is that no enabled plugin declares: of a plugin that is off, planned, or known under another name elsewhere."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

LIST = Path(__file__).with_name("keys.toml")


class Planned(msgspec.Struct, frozen=True, array_like=True):
    """A key of a feature that is still to come."""

    owner: str
    type: str
    default: str


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The list of every key; sections are named as in :class:`greatseal.api.declarations.Owns`."""

    built: Mapping[str, Mapping[str, str]]
    planned: Mapping[str, Mapping[str, Planned]]
    instead: Mapping[str, str]
    to_come: frozenset[str]
    """Features that are still to come and own keys that others read already."""


@cache
def known() -> Known:
    """The list. It is read where something is wrong, so that a start does not pay for it."""
    return msgspec.convert(tomllib.loads(LIST.read_text(encoding="utf-8")), Known)


def of_key(section: str, key: str) -> str | None:
    """What is known of a key that nobody declares; None when it stands in no list."""
    listed = known()
    if name := listed.instead.get(f"{section}.{key}"):
        return f"unknown key; write {name}{_also_planned(name)}"
    if owner := listed.built.get(section, {}).get(key):
        return f"unknown key; {_off(owner)}"
    # A table in a table is listed by its keys.
    owners = {one.owner for name, one in listed.planned.get(section, {}).items() if name.split(".")[0] == key}
    return _planned(owners) if owners else None


def of_section(section: str) -> str | None:
    """The same of a whole section."""
    listed = known()
    spellings = (section, f"{section}[]", f"{section}.*")
    owners = {owner for one in spellings for owner in listed.built.get(one, {}).values()}
    if owners:
        return f"unknown section; {_off(*owners)}"
    owners = {planned.owner for one in spellings for planned in listed.planned.get(one, {}).values()}
    return _planned(owners) if owners else None


def is_planned(feature: str) -> bool:
    """Whether it is the name of a plugin that is still to come."""
    listed = known()
    built = {owner for keys in listed.built.values() for owner in keys.values()} - listed.to_come
    return feature not in built and any(one.owner == feature for keys in listed.planned.values() for one in keys.values())


def _planned(owners: set[str]) -> str:
    features = " and ".join(repr(one) for one in sorted(owners - {"core"}))
    return f"planned, not built yet{f' (plugin {features})' if features else ''}; leave it out"


def _also_planned(name: str) -> str:
    whole = name.startswith("[") and name.endswith("]") and name.strip("[]")
    return ", which is planned, not built yet" if whole and whole in known().planned and whole not in known().built else ""


def _off(*owners: str) -> str:
    features = " and ".join(repr(one) for one in sorted(owners))
    named = f"the plugins {features}, which are" if len(owners) > 1 else f"the plugin {features}, which is"
    return f"it belongs to {named} not enabled"
