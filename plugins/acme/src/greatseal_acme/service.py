"""The parts of the ACME service, made once for each kernel, and its directory."""

import secrets
from collections.abc import Mapping
from typing import Any

from greatseal.api.acme import AccountBinding
from greatseal.api.services import ISSUANCE
from greatseal.host import Host
from greatseal_acme.accounts import Accounts
from greatseal_acme.admin import AccountsAdmin
from greatseal_acme.authorizations import Authorizations
from greatseal_acme.certificates import Certificates
from greatseal_acme.challenges import Challenges
from greatseal_acme.examination import Examination
from greatseal_acme.finalize import Finalizations
from greatseal_acme.key_change import KeyChanges
from greatseal_acme.limits import OrderLimits
from greatseal_acme.new_authz import NewAuthorizations
from greatseal_acme.order_list import OrderList
from greatseal_acme.orders import Orders
from greatseal_acme.protocol.jws import AcmeJws
from greatseal_acme.protocol.nonces import Nonces, NoncesElsewhere
from greatseal_acme.protocol.urls import Paths, Urls
from greatseal_acme.purge import Purge
from greatseal_acme.renewal_info import RenewalInfo
from greatseal_acme.revocation import Revocations
from greatseal_acme.settings import AcmeProfile, AcmeServer, CaId, default_ca

EXPLANATION = "https://www.rfc-editor.org/rfc/rfc8555#section-7.1.1"
"""Clients must ignore members that they do not know; one under a random name keeps them used to it."""


class Acme:
    """ACME in front of the service ``ISSUANCE``."""

    def __init__(self, host: Host) -> None:
        issuance = host.service(ISSUANCE)
        self._host = host
        self._settings = host.settings(AcmeServer)
        self._random_member = secrets.token_urlsafe(8)
        cas = host.settings_list(CaId)
        self._issuance = issuance
        self._configured = host.settings_by_key(AcmeProfile)
        self.paths = Paths(host.base_url, [ca.id for ca in cas], default_ca(cas), scoped=self._settings.account_scope == "ca")
        self.nonces = Nonces(host.node_id, host.clock)
        self.elsewhere = NoncesElsewhere(host, self.nonces)
        self.accounts = Accounts(host, self.paths)
        self.key_changes = KeyChanges(host, self.accounts)
        self.order_list = OrderList(host)
        limits = OrderLimits(host)
        self.authorizations = Authorizations(host, self.paths)
        self.new_authorizations = NewAuthorizations(host, issuance, self.authorizations, limits)
        self.orders = Orders(host, issuance, self.new_authorizations, limits, profiles=self._configured)
        self.challenges = Challenges(host, self.paths, self.accounts, self.authorizations)
        self.finalizations = Finalizations(host, issuance)
        self.admin = AccountsAdmin(host, self.accounts, self.order_list)
        self.certificates = Certificates(host)
        self.renewal_info = RenewalInfo(host, issuance)
        self.revocations = Revocations(host, issuance)
        self.purge = Purge(host)
        self.examination = Examination(host, issuance, self.accounts, self.paths)
        self.scheme = AcmeJws(self.nonces, self.paths, self.accounts.get, host.blocked_keys, elsewhere=self.elsewhere)

    def directory(self, urls: Urls) -> dict[str, object]:
        """The directory object (RFC 8555 s7.1.1): what exists, and no more."""
        shown: Mapping[str, Any] = self._host.discovery("acme", ca_id=urls.ca_id)
        own = self.members(urls)
        return {**shown, **own, "meta": {**shown["meta"], **own["meta"]}, self._random_member: EXPLANATION}

    def members(self, urls: Urls) -> dict[str, Any]:
        """What this plugin shows in the directory of a CA; other plugins add to it."""
        shown = {"termsOfService": self.accounts.terms.url, "website": self._settings.website_url}
        subdomains = {"subdomainAuthAllowed": True} if self._settings.allow_subdomain_auth else {}
        required = any(binding.required for binding in self._host.components(AccountBinding).values())
        return {
            "newNonce": urls.new_nonce,
            "newAccount": urls.new_account,
            "newOrder": urls.new_order,
            "newAuthz": urls.new_authz,
            "keyChange": urls.key_change,
            "revokeCert": urls.revoke_cert,
            "renewalInfo": urls.renewal_info,
            "meta": {
                **{name: url for name, url in shown.items() if url},
                "externalAccountRequired": required,
                **subdomains,
                **self._profiles(urls),
            },
        }

    def _profiles(self, urls: Urls) -> dict[str, object]:
        """The profiles to choose from (draft-ietf-acme-profiles s3); none are shown where none are configured."""
        offered = self._issuance.profiles(urls.ca_id) if self._configured else {}
        return {"profiles": {id: profile.description for id, profile in offered.items()}} if offered else {}
