"""What somebody signs in for: the place that they return to, and the application that waits there."""

from typing import Any

import msgspec

from greatseal.api.clients import Client, Clients
from greatseal_idp.authorize.endpoint import AuthorizeEndpoint
from greatseal_idp.authorize.request import AuthorizationRequest
from greatseal_idp.pages.render import form_sources
from greatseal_idp.pages.return_to import safe_return_to


class Errand(msgspec.Struct, frozen=True):
    """``return_to`` is a path of this origin; a plain sign-in has neither request nor client."""

    return_to: str
    request: AuthorizationRequest | None
    client: Client | None

    @property
    def shown(self) -> dict[str, Any]:
        """What its pages say of it, in which languages, and where their forms may lead."""
        return {
            "languages": self.request.ui_locales if self.request is not None else (),
            "form_targets": form_sources(self.request.to.redirect_uri) if self.request is not None else (),
            "client_name": (self.client.client_name or self.client.client_id) if self.client is not None else None,
        }


class Errands:
    """Finds them. ``default`` is where one returns to who says nothing."""

    def __init__(self, clients: Clients, authorize: AuthorizeEndpoint, *, default: str) -> None:
        self._clients = clients
        self._authorize = authorize
        self.default = default

    async def of(self, return_to: str | None) -> Errand:
        """The errand of somebody who asks to return there."""
        safe = safe_return_to(return_to, default=self.default)
        request = await self._authorize.waiting_at(safe)
        return Errand(safe, request, await self._clients.get(request.to.client_id) if request is not None else None)
