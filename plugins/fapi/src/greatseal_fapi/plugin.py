"""FAPI 2.0."""

from collections.abc import Sequence
from typing import Any

from greatseal import hookimpl
from greatseal.api.authorization import Extension
from greatseal.api.declarations import Reads
from greatseal.host import Host
from greatseal_fapi.installation import Installation
from greatseal_fapi.profile import Fapi
from greatseal_fapi.settings import Lifetimes, Way


class Plugin:
    """The member ``profile`` of clients."""

    @hookimpl
    def settings(self) -> Sequence[Reads]:
        return [Reads("tokens", Lifetimes), Reads("server", Way)]

    @hookimpl
    def extensions(self, host: Host) -> Sequence[Extension[Any]]:
        return [Fapi(Installation(host))]

    @hookimpl
    def notes(self, host: Host) -> Sequence[str]:
        return Installation(host).notes()
