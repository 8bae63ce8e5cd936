"""Telling clients through the browser that a session ended (OpenID Connect Front-Channel Logout 1.0): each has a frame of the page."""

from urllib.parse import urlencode

from greatseal.api.clients import Clients
from greatseal.host import Host
from greatseal_idp.clients.known import known_now
from greatseal_idp.sessions.store import StoredSession

MAX_FRAMES = 32
"""Frames of one page: a browser opens them all at once."""
SECONDS = 3
"""How long the frames have before the browser goes on: nothing tells this page that one of them is done."""


class Frontchannel:
    """Where the browser tells the clients of a session."""

    def __init__(self, host: Host, clients: Clients) -> None:
        self._issuer = host.issuer
        self._clients = clients

    async def frames(self, session: StoredSession | None) -> tuple[str, ...]:
        """The URLs for the clients that got an ID token in the session and registered one, the latest first, at most MAX_FRAMES."""
        if session is None:
            return ()
        said = urlencode({"iss": self._issuer, "sid": session.view.id})
        found = []
        for client_id in reversed(session.clients):
            client = await known_now(self._clients, client_id)
            uri = client.more.get("frontchannel_logout_uri") if client is not None else None
            if uri is not None:
                found.append(f"{uri}{'&' if '?' in uri else '?'}{said}")
        return tuple(found[:MAX_FRAMES])
