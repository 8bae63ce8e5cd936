"""Where certificates say that their status is told, and their issuer is found (RFC 5280 s4.2.1.13, s4.2.2.1)."""

from collections.abc import Mapping

from cryptography import x509
from cryptography.x509.oid import AuthorityInformationAccessOID

from greatseal_ca.build import Extensions, extension
from greatseal_ca.profiles import Profiles
from greatseal_ca.settings import CaSettings, ProfileSettings

FIRST = 1
"""The list, and the issuing certificate, that has the plain URL; that of the others ends in their number."""


class Pointers:
    """The URLs of every CA, and those that its profiles say instead. An empty one is left out of certificates."""

    def __init__(self, base_url: str, default_id: str, cas: Mapping[str, CaSettings], profiles: Mapping[str, ProfileSettings]) -> None:
        self._base_url = base_url
        self._default_id = default_id
        self._cas = cas
        self._profiles = profiles
        self._made: dict[tuple[str, str, int | None, int], Extensions] = {}
        self.silent: set[str] = set()
        """CAs that may not sign lists: no certificate names one of theirs."""

    def read_again(self) -> None:
        """After a profile changed."""
        self._made.clear()

    def of(self, ca_id: str, name: str) -> str:
        """What is served here of a CA under that name."""
        return f"{self._base_url}/ca/{'' if ca_id == self._default_id else f'{ca_id}/'}{name}"

    def problems(self, profiles: Profiles) -> list[str]:
        """The profiles whose servers must staple what their certificates do not say where to get, one line each."""
        return [
            f"[profiles.{id}] must_staple: certificates of CA {ca_id!r} name no OCSP responder, so servers have nothing to staple; "
            f'give ocsp_url an address, leave it out, or set must_staple = "never"'
            for ca_id in self._cas
            for id in profiles.signed(ca_id)
            if profiles.settings[id].must_staple != "never" and not self._ocsp(ca_id, id)
        ]

    def bases(self, ca_id: str) -> list[str]:
        """Where the lists of a CA are by its certificates from now on, in the words of CA and profiles."""
        ids = [id for id, own in self._profiles.items() if not own.ca_ids or ca_id in own.ca_ids]
        return [base for base in dict.fromkeys(self._crl(ca_id, id) for id in ids) if base]

    def list_url(self, base: str, shard: int) -> str:
        """Where a list or an issuing certificate is: the first at the base itself, the others below it."""
        return base if shard == FIRST else f"{base.rstrip('/')}/{shard}"

    def extensions(self, ca_id: str, profile_id: str, shard: int | None, number: int) -> Extensions:
        """What a certificate of that profile says, whose revocation is told on the list ``shard``, under the issuing certificate whose key
        has that number."""
        key = (ca_id, profile_id, shard, number)
        if key not in self._made:
            self._made[key] = tuple(self._extensions(*key))
        return self._made[key]

    def of_root(self, ca_id: str) -> Extensions:
        """What a certificate says that the root of the CA signed: where the list of the root is, unless the CA wants no lists."""
        return () if self._cas[ca_id].crl_url == "" else (_list_at(self.of(ca_id, "root.crl")),)

    def _extensions(self, ca_id: str, profile_id: str, shard: int | None, number: int) -> list[x509.Extension[x509.ExtensionType]]:
        own = self._cas[ca_id].issuer_url
        issuer = self.of(ca_id, "cert") if own is None else own
        access = [(AuthorityInformationAccessOID.CA_ISSUERS, self.list_url(issuer, number))] if issuer else []
        if ocsp := self._ocsp(ca_id, profile_id):
            access.insert(0, (AuthorityInformationAccessOID.OCSP, ocsp))
        described = [x509.AccessDescription(kind, x509.UniformResourceIdentifier(url)) for kind, url in access]
        found: list[x509.Extension[x509.ExtensionType]] = [extension(x509.AuthorityInformationAccess(described))] if described else []
        if shard is not None and ca_id not in self.silent and (base := self._crl(ca_id, profile_id)):
            found.append(_list_at(self.list_url(base, shard)))
        return found

    def _crl(self, ca_id: str, profile_id: str) -> str:
        own, ca = self._profiles.get(profile_id, ProfileSettings()).crl_url, self._cas[ca_id].crl_url
        return next((url for url in (own, ca) if url is not None), self.of(ca_id, "crl"))

    def _ocsp(self, ca_id: str, profile_id: str) -> str:
        own, ca = self._profiles.get(profile_id, ProfileSettings()).ocsp_url, self._cas[ca_id].ocsp_url
        return next((url for url in (own, ca) if url is not None), self.of(ca_id, "ocsp"))


def _list_at(url: str) -> x509.Extension[x509.ExtensionType]:
    return extension(x509.CRLDistributionPoints([x509.DistributionPoint([x509.UniformResourceIdentifier(url)], None, None, None)]))
