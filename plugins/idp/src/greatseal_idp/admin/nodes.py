"""Nodes of the cluster (reference 17.4, ruling R55)."""

from greatseal.api.http import Call, Permission, Reply, Route
from greatseal.host import Host
from greatseal_idp.admin.reading import seconds


class NodesAdmin:
    """/api/admin/nodes."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Route]:
        """Every route."""
        return [
            Route("GET", "/api/admin/nodes", self.listed, auth=Permission("nodes:read"), summary="Known nodes and when they were seen last")
        ]

    async def listed(self, call: Call) -> Reply:  # noqa: ARG002  # a handler's parameter
        return Reply.json(
            [
                {
                    "node_id": node.node_id,
                    "address": node.address,
                    "status": node.status,
                    "last_seen": seconds(node.last_seen),
                    "self": node.is_self,
                    "version": node.version,
                    "started_at": seconds(node.started_at),
                }
                for node in self._host.nodes()
            ]
        )
