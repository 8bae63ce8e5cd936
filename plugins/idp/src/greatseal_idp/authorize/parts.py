"""The parts of the provider that authorization needs."""

from typing import Protocol

from greatseal.api.clients import Clients
from greatseal.api.identity import Login
from greatseal.api.tokens import Tokens
from greatseal_idp.claims import Claims
from greatseal_idp.pages.render import Pages
from greatseal_idp.scopes import Scopes
from greatseal_idp.signing import Signing
from greatseal_idp.token.codes import Codes
from greatseal_idp.token.endings import Endings


class Parts(Protocol):
    """What :class:`greatseal_idp.provider.Provider` has of it."""

    @property
    def clients(self) -> Clients: ...
    @property
    def scopes(self) -> Scopes: ...
    @property
    def claims(self) -> Claims: ...
    @property
    def signing(self) -> Signing: ...
    @property
    def login(self) -> Login: ...
    @property
    def codes(self) -> Codes: ...
    @property
    def endings(self) -> Endings: ...
    @property
    def tokens(self) -> Tokens: ...
    @property
    def pages(self) -> Pages: ...
