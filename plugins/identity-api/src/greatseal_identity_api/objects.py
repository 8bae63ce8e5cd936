"""Users and groups as SSSD reads them, in the shape of Keycloak's admin API, and the ids by which they are asked for again."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from greatseal.api.directory import Group, User

SEGMENT = "!$&'()*+,;=:@"
"""What a segment of a path may hold besides letters, digits, ``-``, ``.``, ``_`` and ``~`` (RFC 3986 s3.3)."""


def id_of(name: str) -> str:
    """The id of an object: its name as a segment of a path. SSSD puts ids into its next URL as they are."""
    return quote(name, safe=SEGMENT)


def member_of(username: str, realm: str) -> dict[str, str]:
    """A user as a member of a group."""
    return {"id": id_of(f"{username}@{realm}"), "username": username}


def user_of(user: User) -> dict[str, Any]:
    """A user. What their home does not say is left out; ``enabled``, ``firstName`` and ``lastName`` are Keycloak's words."""
    return {
        **member_of(user.username, user.realm),
        "enabled": not user.state.disabled,
        **_said(
            {
                "name": user.display_name,
                "given_name": user.given_name,
                "firstName": user.given_name,
                "family_name": user.family_name,
                "lastName": user.family_name,
                "email": user.email,
                "uid_number": user.uid_number,
                "gid_number": user.gid_number,
                "home_directory": user.home_directory,
                "login_shell": user.login_shell,
            }
        ),
    }


def group_of(group: Group) -> dict[str, Any]:
    """A group. It has no member ``username``, by which SSSD would take it for a user."""
    return {
        "id": id_of(group.name),
        "name": group.name,
        "path": f"/{group.name}",
        **_said({"description": group.display_name, "gid_number": group.gid_number}),
    }


def _said(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
