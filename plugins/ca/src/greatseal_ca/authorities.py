"""Every CA of this service, opened: what issuing takes from it."""

from collections.abc import Mapping, Sequence

from cryptography import x509

from greatseal.api.issuance import IssuanceRequest
from greatseal.api.keys import in_store
from greatseal.api.problems import StartProblem
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal.jose.acceptance import spki_sha256
from greatseal_ca.authority import Authority, made_days, open_sealed, write_public
from greatseal_ca.build import Composer, LeafExtensions, Template
from greatseal_ca.constraints import Constraints
from greatseal_ca.csr import common_names
from greatseal_ca.files import Brought, Files, Stored
from greatseal_ca.inventory import Inventory, as_pem, keep_chain
from greatseal_ca.lint import Expected, lint
from greatseal_ca.names import subject
from greatseal_ca.profiles import Profiles
from greatseal_ca.settings import CaSettings
from greatseal_ca.validity import Window, moment_of


class Issuing:
    """One CA, ready to compose and sign."""

    def __init__(self, authority: Authority, ca: CaSettings) -> None:
        self.ca_id = authority.ca_id
        self.signer = authority.signer
        self.certificate = authority.certificate
        self.chain = authority.chain
        # Clients refuse a chain of one certificate: a root that signs leaves itself is always with them.
        self.delivered = self.chain if ca.chain_with_root or len(self.chain) == 1 else self.chain[:-1]
        above = [x509.load_der_x509_certificate(der) for der in authority.chain]
        self.constraints = Constraints(above)
        begin = max(moment_of(one.not_valid_before_utc) for one in above)
        end = min(moment_of(one.not_valid_after_utc) for one in above)
        self.window = Window(begin, end, capped=ca.enforce_validity_cap)
        self._composer = Composer(authority.signer.info.algorithm, ca.hash_alg)
        self._extensions = LeafExtensions(self.certificate, crl_url=ca.crl_url, ocsp_url=ca.ocsp_url)

    def compose(self, request: IssuanceRequest, names: Sequence[x509.GeneralName], serial: bytes, now: int) -> tuple[bytes, int, int]:
        """The linted to-be-signed part with its notBefore and notAfter. Raises a Problem."""
        copy, expected, template = self.copy(request, names, serial, now)
        lint(copy, expected)
        return copy.tbs_certificate_bytes, template.not_before, template.not_after

    def copy(
        self, request: IssuanceRequest, names: Sequence[x509.GeneralName], serial: bytes, now: int
    ) -> tuple[x509.Certificate, Expected, Template]:
        """The certificate under the throw-away key, and what the lint is to find in it."""
        profile = request.profile
        begin, end = self.window.choose(profile.validity_days, request.not_before, request.not_after, now)
        key = request.csr.public_key
        name = subject(request.identifiers, common_names(request.csr.csr))
        if not self.constraints.allows_subject(name):
            name = x509.Name([])
        template = Template(
            issuer=self.certificate.subject,
            subject=name,
            public_key=key,
            serial=serial,
            not_before=begin,
            not_after=end,
            extensions=self._extensions.of(key, names, profile.eku, empty_subject=not name.rdns),
        )
        expected = Expected(
            issuer=self.certificate,
            issuer_key_id=self._extensions.authority_key.key_identifier or b"",
            algorithm=self._composer.algorithm,
            spki=request.csr.spki,
            names=frozenset(names),
            eku=profile.eku,
            longest_days=self.window.days(profile.validity_days, begin),
            constraints=self.constraints,
        )
        return self._composer.copy(template), expected, template


class Authorities:
    """The CAs by id. They are opened by the plugin's lifespan."""

    def __init__(self, settings: Mapping[str, CaSettings], profiles: Profiles, default_id: str) -> None:
        self._settings = settings
        self._profiles = profiles
        self._open: dict[str, Issuing] = {}
        self.ids = tuple(settings)
        self.default_id = default_id

    async def open(self, host: Host, inventory: Inventory) -> None:
        """Load or make every CA, and show its root certificate under the state folder. Raises StartProblem."""
        for ca_id, ca in self._settings.items():
            brought = self._files(host, ca)
            authority = await (brought.open() if brought else open_sealed(host, ca))
            if blocked := await host.blocked_keys.find(spki_sha256(authority.signer.public_key)):
                raise StartProblem(f"[ca] {ca_id}: the key of the CA certificate is blocked ({blocked.reason}); bring another CA")
            self._open[ca_id] = issuing = Issuing(authority, ca)
            await host.db.write(_keep_chain, issuing.delivered)
            inventory.knows(issuing.delivered)
            write_public(host.state_dir / "ca" / ca_id / "root.pem", as_pem(authority.chain[-1:]))

    def look(self, host: Host) -> tuple[list[str], dict[str, int]]:
        """What :meth:`open` would refuse of the settings and the files that they name, and how many days each CA lives as a whole."""
        problems: list[str] = []
        lives = {ca_id: made_days(ca) for ca_id, ca in self._settings.items()}
        for ca_id, ca in self._settings.items():
            if brought := self._files(host, ca):
                wrong, lives[ca_id] = brought.look()
                problems += wrong
        return problems, lives

    def _files(self, host: Host, ca: CaSettings) -> Brought | None:
        """The key and certificates of a CA that is not sealed in the database."""
        if not ca.key_file or not ca.cert_file:
            return None
        profiles = self._profiles.of(ca.id)
        if in_store(ca.key_file):
            return Stored(host, ca, ca.key_file, ca.cert_file, profiles)
        return Files(host, ca, ca.key_file, ca.cert_file, profiles)

    def of(self, ca_id: str) -> Issuing:
        """The CA of that id, which is one of :attr:`ids`."""
        return self._open[ca_id]

    def all(self) -> tuple[Issuing, ...]:
        """Every CA that is open."""
        return tuple(self._open.values())


def _keep_chain(tx: Tx, chain: tuple[bytes, ...]) -> None:
    keep_chain(tx, chain)
