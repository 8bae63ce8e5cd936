"""A stranger's type of authorization details in one file: calls of the tools of an MCP server."""

from collections.abc import Mapping, Sequence
from typing import Any

from greatseal import hookimpl
from greatseal.api.authorization import Shown
from greatseal.api.clients import Client
from greatseal.api.components import Component
from greatseal.api.details import DetailType, InvalidAuthorizationDetails

TOOLS = {"search": "Search your documents", "read": "Read a document", "share": "Share documents with others"}


class ToolCalls(DetailType):
    """Tools of one server, at most so many calls of them. Fewer tools and fewer calls are less."""

    name = "mcp_tools"

    def check(self, detail: Mapping[str, Any], client: Client) -> None:
        if detail.keys() != {"type", "locations", "tools", "calls"}:
            raise InvalidAuthorizationDetails("expected locations, tools and calls")
        if detail["locations"] not in [[resource] for resource in client.more.get("resources", ())]:
            raise InvalidAuthorizationDetails("locations: expected one of the resources of this client")
        tools, calls = detail["tools"], detail["calls"]
        if not isinstance(tools, list) or not tools or not all(isinstance(tool, str) and tool in TOOLS for tool in tools):
            raise InvalidAuthorizationDetails("tools: expected some of search, read and share")
        if type(calls) is not int or not 1 <= calls <= 1000:
            raise InvalidAuthorizationDetails("calls: expected 1 to 1000")

    async def shown(self, detail: Mapping[str, Any], subject: str) -> Shown:
        lines = tuple(TOOLS[tool] for tool in detail["tools"])
        return Shown(title=f"Use {detail['locations'][0]} at most {detail['calls']} times", lines=lines)

    def narrows(self, asked: Mapping[str, Any], granted: Mapping[str, Any]) -> bool:
        return (
            asked["locations"] == granted["locations"]
            and set(asked["tools"]) <= set(granted["tools"])
            and bool(asked["calls"] <= granted["calls"])
        )


class Plugin:
    """Details of the type ``mcp_tools``."""

    @hookimpl
    def components(self) -> Sequence[Component]:
        return [ToolCalls()]
