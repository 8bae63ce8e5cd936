"""The parts of the ACME service, made once for each kernel, and its directory."""

import secrets

from greatseal.api.acme import AccountBinding
from greatseal.api.services import ISSUANCE
from greatseal.host import Host
from greatseal_acme.accounts import Accounts
from greatseal_acme.admin import AccountsAdmin
from greatseal_acme.authorizations import Authorizations
from greatseal_acme.certificates import Certificates
from greatseal_acme.challenges import Challenges
from greatseal_acme.finalize import Finalizations
from greatseal_acme.key_change import KeyChanges
from greatseal_acme.order_list import OrderList
from greatseal_acme.orders import Orders
from greatseal_acme.protocol.jws import AcmeJws
from greatseal_acme.protocol.nonces import Nonces, NoncesElsewhere
from greatseal_acme.protocol.urls import Urls
from greatseal_acme.purge import Purge
from greatseal_acme.settings import AcmeServer

EXPLANATION = "https://www.rfc-editor.org/rfc/rfc8555#section-7.1.1"
"""Clients must ignore members that they do not know; one under a random name keeps them used to it."""


class Acme:
    """ACME in front of the service ``ISSUANCE``."""

    def __init__(self, host: Host) -> None:
        issuance = host.service(ISSUANCE)
        self._host = host
        self._settings = host.settings(AcmeServer)
        self._random_member = secrets.token_urlsafe(8)
        self.urls = Urls(host.base_url)
        self.nonces = Nonces(host.node_id, host.clock)
        self.elsewhere = NoncesElsewhere(host, self.nonces)
        self.accounts = Accounts(host, self.urls)
        self.key_changes = KeyChanges(host, self.accounts)
        self.orders = Orders(host, self.urls, issuance)
        self.order_list = OrderList(host)
        self.authorizations = Authorizations(host, self.urls)
        self.challenges = Challenges(host, self.urls, self.accounts, self.authorizations)
        self.finalizations = Finalizations(host, issuance)
        self.admin = AccountsAdmin(host, self.accounts, self.order_list)
        self.certificates = Certificates(issuance)
        self.purge = Purge(host)
        self.scheme = AcmeJws(self.nonces, self.urls, self.accounts.get, host.blocked_keys, elsewhere=self.elsewhere)

    def directory(self) -> dict[str, object]:
        """The directory object (RFC 8555 s7.1.1): what exists, and no more."""
        return {**self._host.discovery("acme"), self._random_member: EXPLANATION}

    def members(self) -> dict[str, object]:
        """What this plugin shows in the directory; other plugins add to it."""
        shown = {"termsOfService": self.accounts.terms.url, "website": self._settings.website_url}
        required = any(binding.required for binding in self._host.components(AccountBinding).values())
        return {
            "newNonce": self.urls.new_nonce,
            "newAccount": self.urls.new_account,
            "newOrder": self.urls.new_order,
            "keyChange": self.urls.key_change,
            "meta": {**{name: url for name, url in shown.items() if url}, "externalAccountRequired": required},
        }
