"""Names as people type them and as this machine has them."""

LONGEST_NAME = 256
"""Bytes."""
_FORBIDDEN = frozenset("/:\\,\"'`()*?<>|;&$!#")


def short_name(typed: str, realm: str) -> str | None:
    """The name without our realm; None for one of another realm, and for what is no name of an account."""
    name, at, of = typed.rpartition("@")
    if not at:
        name = typed
    elif of.upper() != realm.upper():
        return None
    return name if is_name(name) else None


def is_name(name: str) -> bool:
    """Whether an account may have it: it is bytes of a C string, in one line of passwd(5), and no path."""
    if not name or "@" in name or not name.isprintable() or name[0] in "-+~." or not _FORBIDDEN.isdisjoint(name) or " " in name:
        return False
    return len(name.encode("utf-8")) <= LONGEST_NAME
