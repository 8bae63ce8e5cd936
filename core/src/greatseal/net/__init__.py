"""Connections to what somebody else named, and what may be said about them."""

from greatseal.net.addresses import PUBLIC, AddressPolicy, is_public
from greatseal.net.endpoints import parse_server
from greatseal.net.onion import is_onion, onion_key, service_of
from greatseal.net.outbound import SECONDS, Blocked, Fetched, NameResolver, Peer, connect, fetch, open_connection
from greatseal.net.remote_keys import RemoteKeys
from greatseal.net.system import SystemResolver
from greatseal.net.text import excerpt, listing
from greatseal.net.tor import TOR_SECONDS, Tor, TorAccess

__all__ = [
    "PUBLIC",
    "SECONDS",
    "TOR_SECONDS",
    "AddressPolicy",
    "Blocked",
    "Fetched",
    "NameResolver",
    "Peer",
    "RemoteKeys",
    "SystemResolver",
    "Tor",
    "TorAccess",
    "connect",
    "excerpt",
    "fetch",
    "is_onion",
    "is_public",
    "listing",
    "onion_key",
    "open_connection",
    "parse_server",
    "service_of",
]
