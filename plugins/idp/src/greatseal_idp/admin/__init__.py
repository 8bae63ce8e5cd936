"""The admin API under /api/admin/: every call needs a session and a permission that a role grants."""

from greatseal.api.declarations import EventType, PermissionName
from greatseal.api.http import Route
from greatseal.host import Host
from greatseal_idp.admin.audit import AuditAdmin
from greatseal_idp.admin.clients import ClientsAdmin
from greatseal_idp.admin.families import FamiliesAdmin
from greatseal_idp.admin.keys import KeysAdmin
from greatseal_idp.admin.nodes import NodesAdmin
from greatseal_idp.admin.scopes import ScopesAdmin
from greatseal_idp.admin.users import UsersAdmin
from greatseal_idp.clients.registry import Registry
from greatseal_idp.directories import DirectoriesImpl
from greatseal_idp.scopes import Scopes
from greatseal_idp.signing import Signing
from greatseal_idp.token.families import FamiliesImpl

PERMISSIONS = (
    PermissionName("clients:read", "See OAuth clients, without their secrets."),
    PermissionName("clients:write", "Make, change and delete OAuth clients."),
    PermissionName("keys:read", "See which signing keys and which cluster key there are."),
    PermissionName("keys:rotate", "Rotate and revoke signing keys, set a new cluster key."),
    PermissionName("nodes:read", "See the nodes of the cluster."),
    PermissionName("users:read", "See users, groups and refresh token families."),
    PermissionName("users:write", "Revoke refresh token families."),
    PermissionName("scopes:read", "See scope definitions."),
    PermissionName("scopes:write", "Make, change and delete custom scopes."),
    PermissionName("audit:read", "Read the audit log."),
)
"""What a role may grant here."""

AUDIT_EVENTS = (EventType("cluster_key_rotated", "idp", "A new cluster key was put in force; detail is its id."),)
"""The events that no other part writes."""


class Admin:
    """All of it. The parts do the work; what is here reads requests and shapes answers."""

    def __init__(
        self, host: Host, *, clients: Registry, scopes: Scopes, signing: Signing, families: FamiliesImpl, directories: DirectoriesImpl
    ) -> None:
        self._resources = (
            ClientsAdmin(host, clients),
            KeysAdmin(host, signing),
            NodesAdmin(host),
            FamiliesAdmin(host, families),
            UsersAdmin(host, directories),
            ScopesAdmin(host, scopes),
            AuditAdmin(host),
        )

    def routes(self) -> list[Route]:
        """Every route."""
        return [route for resource in self._resources for route in resource.routes()]
