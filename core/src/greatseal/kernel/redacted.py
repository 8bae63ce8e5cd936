"""The configuration that is in force, fit to be shown: no secret leaves the process."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import msgspec

from greatseal.api.declarations import Secret
from greatseal.kernel.config import Bound, Declaration

__all__ = ["HIDDEN", "in_force"]

HIDDEN = "(secret)"
_USERINFO = re.compile(r"(://[^/?#@\s:]*):[^/?#\s]*@")
_PARAMETER = re.compile(r"(?i)([?&](?:ssl)?passw(?:or)?d=)[^&\s]*")


def in_force(declared: Iterable[Declaration], bound: Bound) -> dict[str, Any]:
    """Every key that plugins declare, by section, with its value or default. In place of a secret stands :data:`HIDDEN`."""
    found: dict[str, Any] = {}
    for declaration in declared:
        section, struct = declaration.section, declaration.struct
        if section.endswith(".*"):
            for name, value in bound.keyed.get(struct, {}).items():
                found.setdefault(section[:-2], {}).setdefault(name, {}).update(_public(value))
        elif section.endswith("[]"):
            values = bound.repeated.get(struct, [])
            tables = found.setdefault(section[:-2], [{} for _ in values])
            for table, value in zip(tables, values, strict=True):
                table.update(_public(value))
        elif struct in bound.tables:
            found.setdefault(section, {}).update(_public(bound.tables[struct]))
    return found


def _public(value: Any) -> Any:
    match value:
        case Secret():
            return HIDDEN
        case msgspec.Struct():
            return {field.encode_name: _public(getattr(value, field.name)) for field in msgspec.structs.fields(value)}
        case str() | PurePath():
            return _PARAMETER.sub(rf"\1{HIDDEN}", _USERINFO.sub(rf"\1:{HIDDEN}@", str(value)))
        case Mapping():
            return {str(name): _public(one) for name, one in value.items()}
        case Sequence() | frozenset():
            return [_public(one) for one in value]
        case _:
            return value if value is None or isinstance(value, bool | int | float) else str(value)
