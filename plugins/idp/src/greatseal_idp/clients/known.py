"""Clients as pages for people need them, which must not hang on whether a client of somebody else can be had now."""

from greatseal.api.clients import Client, Clients
from greatseal.api.problems import Problem


async def known_now(clients: Clients, client_id: str) -> Client | None:
    """The client, None also for one of a resolver that is refused or cannot be had now: the page goes on without what it would say."""
    try:
        return await clients.get(client_id)
    except Problem:
        return None
