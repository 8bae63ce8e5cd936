"""Names resolved as every program of this machine does."""

import asyncio
import socket
from collections.abc import Sequence

from greatseal.api.problems import DnsFailure

__all__ = ["SystemResolver"]


class SystemResolver:
    """The resolver of the operating system: for the guarded client where the service RESOLVER is not there."""

    async def addresses(self, name: str) -> Sequence[str]:
        """IPv4 and IPv6 addresses in the system's order. Raises :class:`~greatseal.api.problems.DnsFailure` when there is none."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise DnsFailure(f"{name}: the system finds no address", cause=str(error)) from None
        return list(dict.fromkeys(str(address[0]) for *_, address in found))
