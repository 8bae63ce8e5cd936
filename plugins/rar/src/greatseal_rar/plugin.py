"""Rich authorization requests (RFC 9396)."""

from collections.abc import Mapping, Sequence
from typing import Any

from greatseal import hookimpl
from greatseal.api.authorization import Extension
from greatseal.api.components import Component
from greatseal.api.declarations import Owns
from greatseal.api.details import DetailType
from greatseal.api.http import Discovery
from greatseal.host import Host
from greatseal_rar.declared import Declared
from greatseal_rar.extension import RichAuthorization
from greatseal_rar.settings import DetailSettings


class Plugin:
    """Clients ask for exactly what they need, and people read it in words."""

    @hookimpl
    def settings(self) -> Sequence[Owns]:
        return [Owns("oauth", DetailSettings)]

    @hookimpl
    def components(self, host: Host) -> Sequence[Component]:
        return [Declared(one) for one in host.settings(DetailSettings).authorization_details]

    @hookimpl
    def extensions(self, host: Host) -> Sequence[Extension[Any]]:
        return [RichAuthorization(host)]

    @hookimpl
    def discovery(self, host: Host) -> Sequence[Discovery]:
        def members() -> Mapping[str, object]:
            """RFC 9396 s10; left out while there is no type."""
            return {"authorization_details_types_supported": sorted(host.components(DetailType))}

        return [Discovery("oauth", members), Discovery("openid", members)]
