"""Nodes of the cluster."""

from typing import Any

from greatseal.api.http import Call, Permission, Reply, Route
from greatseal.api.lists import listed, page_of
from greatseal.api.moments import seconds
from greatseal.host import Host, NodeInfo


class NodesAdmin:
    """/api/admin/nodes."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Route]:
        """Every route."""
        return [
            Route("GET", "/api/admin/nodes", self.listed, auth=Permission("nodes:read"), summary="Known nodes and when they were seen last")
        ]

    async def listed(self, call: Call) -> Reply:
        page = page_of(call)
        return listed(call, self._host.issuer, page, page.of(self._host.nodes(), _label), key=_label, shown=_shown)


def _label(node: NodeInfo) -> str:
    return node.node_id


def _shown(node: NodeInfo) -> dict[str, Any]:
    return {
        "node_id": node.node_id,
        "name": node.name,
        "address": node.address,
        "status": node.status,
        "last_seen": seconds(node.last_seen),
        "self": node.is_self,
        "version": node.version,
        "started_at": seconds(node.started_at),
        "protocol": node.protocol,
        "clock_offset_ms": node.clock_offset_ms,
        "differing_buckets": node.differing_buckets,
        "stable_hlc": node.stable_hlc,
        "kek_ids": node.kek_ids,
        "roles": node.roles,
    }
