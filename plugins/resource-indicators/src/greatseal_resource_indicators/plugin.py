"""Resource indicators (RFC 8707)."""

from collections.abc import Sequence
from typing import Any

from greatseal import hookimpl
from greatseal.api.authorization import Extension
from greatseal.host import Host
from greatseal_resource_indicators.resources import ResourceIndicators


class Plugin:
    """Access tokens say for which resources they are."""

    @hookimpl
    def extensions(self, host: Host) -> Sequence[Extension[Any]]:
        return [ResourceIndicators(host.issuer)]
