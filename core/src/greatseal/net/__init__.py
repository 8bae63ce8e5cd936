"""Connections to what somebody else named, and what may be said about them."""

from greatseal.net.addresses import PUBLIC, AddressPolicy, is_public
from greatseal.net.endpoints import parse_server
from greatseal.net.outbound import Blocked, Fetched, NameResolver, Peer, fetch, open_connection
from greatseal.net.remote_keys import RemoteKeys
from greatseal.net.system import SystemResolver
from greatseal.net.text import excerpt, listing

__all__ = [
    "PUBLIC",
    "AddressPolicy",
    "Blocked",
    "Fetched",
    "NameResolver",
    "Peer",
    "RemoteKeys",
    "SystemResolver",
    "excerpt",
    "fetch",
    "is_public",
    "listing",
    "open_connection",
    "parse_server",
]
