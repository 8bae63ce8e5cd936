"""The identity API's hooks."""

from collections.abc import Sequence

from greatseal import hookimpl
from greatseal.api.http import Route
from greatseal.api.services import DIRECTORIES
from greatseal.host import Host
from greatseal_identity_api.routes import IdentityApi


class Plugin:
    """Look-ups of users and groups for clients whose access token has the scope directory.read."""

    requires = (DIRECTORIES,)

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        return IdentityApi(host.service(DIRECTORIES)).routes()
