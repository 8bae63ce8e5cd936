"""Mutual TLS (RFC 8705)."""

from collections.abc import Mapping, Sequence
from typing import Any

from greatseal import hookimpl
from greatseal.api.clients import ClientAuthMethod
from greatseal.api.declarations import Check, CheckResult, Owns, Reads
from greatseal.api.http import ClientTrust, Discovery
from greatseal.api.problems import StartProblem
from greatseal.api.tokens import TokenBinding
from greatseal.host import Host
from greatseal_client_auth_mtls.binding import CertificateBinding
from greatseal_client_auth_mtls.certificates import Authorities
from greatseal_client_auth_mtls.methods import ByCertificate, SelfSignedTlsClientAuth, TlsClientAuth
from greatseal_client_auth_mtls.settings import MtlsSettings, Ways

NO_WAY = "set tls_cert_file and tls_key_file in [server], or trusted_proxies for a proxy that sends Client-Cert (RFC 9440)"

OWN_TLS = "a listener of this service ends connections whose certificate no CA of [oauth] client_ca_file issued"


class Plugin:
    """Two client authentication methods, and tokens that are bound to the certificate.

    ``tls_client_auth`` is there with ``client_ca_file``. ``self_signed_tls_client_auth`` is there with ``trusted_proxies``: a listener of
    ours ends connections whose certificate it has no root for.
    """

    def __init__(self) -> None:
        self._authorities: Authorities | None = None

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [Owns("oauth", MtlsSettings), Reads("server", Ways)]

    @hookimpl
    def client_auth_methods(self, host: Host) -> Sequence[ClientAuthMethod[Any]]:
        methods: list[ByCertificate] = []
        if authorities := self._shared(host):
            methods.append(TlsClientAuth(host, authorities))
        if host.settings(Ways).trusted_proxies:
            methods.append(SelfSignedTlsClientAuth(host))
        return methods

    @hookimpl
    def token_bindings(self, host: Host) -> Sequence[TokenBinding]:
        return [CertificateBinding(host)]

    @hookimpl
    def client_trust(self, host: Host) -> Sequence[ClientTrust]:
        authorities = self._shared(host)
        return [] if authorities is None else [ClientTrust(name="oauth-clients", roots=authorities.roots)]

    @hookimpl
    def discovery(self) -> Sequence[Discovery]:
        return [Discovery("oauth", members), Discovery("openid", members)]

    @hookimpl
    def verify(self, host: Host) -> Sequence[str]:
        ways, authorities = host.settings(Ways), self._shared(host)
        if authorities is None:
            return []
        problems = [] if ways.trusted_proxies or ways.tls_cert_file else [f"[oauth] client_ca_file: no certificate arrives; {NO_WAY}"]
        try:
            authorities.roots()
        except StartProblem as problem:
            problems += problem.messages
        return problems

    @hookimpl
    def notes(self, host: Host) -> Sequence[str]:
        ways = host.settings(Ways)
        if not ways.trusted_proxies and self._shared(host) is None:
            return [f"no client can use a certificate, for none arrives: {NO_WAY}; the first needs [oauth] client_ca_file too"]
        if not ways.trusted_proxies:
            return [f"no client can have self_signed_tls_client_auth: {OWN_TLS}"]
        if ways.tls_cert_file is None:
            return []
        return [f"clients with self_signed_tls_client_auth come through a proxy of [server] trusted_proxies alone: {OWN_TLS}"]

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        async def run() -> CheckResult:
            return health(host, self._shared(host))

        return [Check(name="client-certificates", run=run, ready=False)]

    def _shared(self, host: Host) -> Authorities | None:
        file = host.settings(MtlsSettings).client_ca_file
        if self._authorities is None and file is not None:
            self._authorities = Authorities(file)
        return self._authorities


def members() -> Mapping[str, object]:
    """What the discovery documents say of it (RFC 8705 s3.3)."""
    return {"tls_client_certificate_bound_access_tokens": True}


def health(host: Host, authorities: Authorities | None) -> CheckResult:
    """Which methods clients have, and whether the CAs that are trusted still are valid."""
    try:
        ended = authorities.ended(host.clock.now()) if authorities else []
    except StartProblem as problem:
        return CheckResult(ok=False, detail="; ".join(problem.messages))
    if ended:
        return CheckResult(ok=False, detail="a CA of [oauth] client_ca_file has expired: its clients are refused", cause="; ".join(ended))
    tls = "tls_client_auth" if authorities else "no tls_client_auth, for want of [oauth] client_ca_file"
    proxied = host.settings(Ways).trusted_proxies
    own = "self_signed_tls_client_auth" if proxied else "no self_signed_tls_client_auth, for want of [server] trusted_proxies (RFC 9440)"
    return CheckResult(ok=True, detail=f"clients may use {tls} and {own}")
