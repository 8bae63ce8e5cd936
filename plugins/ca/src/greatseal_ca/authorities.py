"""Every CA of this service, opened: what issuing takes from it."""

from collections.abc import Mapping

from cryptography import x509

from greatseal.api.issuance import Bounds
from greatseal.api.keys import in_store
from greatseal.api.problems import StartProblem
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal.jose.acceptance import spki_sha256
from greatseal_ca.algorithms import signature_algorithm
from greatseal_ca.authority import Authority, Made, find_root, made_days, open_sealed, write_public
from greatseal_ca.build import authority_key_identifier, extension, subject_of
from greatseal_ca.chains import spki_of
from greatseal_ca.constraints import Constraints
from greatseal_ca.files import Brought, Files, Stored
from greatseal_ca.inventory import Inventory, as_pem, keep_chain
from greatseal_ca.profiles import Profiles
from greatseal_ca.settings import CaSettings
from greatseal_ca.validity import moment_of


class Issuing:
    """One CA, ready to sign, and what its certificates have in common."""

    def __init__(self, authority: Authority, ca: CaSettings) -> None:
        self.ca_id = authority.ca_id
        self.number = authority.number
        self.signer = authority.signer
        self.certificate = authority.certificate
        self.chain = authority.chain
        # Clients refuse a chain of one certificate: a root that signs leaves itself is always with them.
        self.delivered = self.chain if ca.chain_with_root or len(self.chain) == 1 else self.chain[:-1]
        above = [x509.load_der_x509_certificate(der) for der in authority.chain]
        self.constraints = Constraints(above)
        self.bounds = Bounds(
            begin=max(moment_of(one.not_valid_before_utc) for one in above),
            end=min(moment_of(one.not_valid_after_utc) for one in above),
        )
        self.subject = subject_of(self.certificate)
        self.algorithm = signature_algorithm(self.signer.info.algorithm, ca.hash_alg)
        self.hash_alg = ca.hash_alg
        self.root = above[-1]
        self.key_identifier = extension(authority_key_identifier(self.certificate))


class Authorities:
    """The CAs that sign themselves, by id: those of a profile with ``issue_as = "x509"``. They are opened by the plugin's lifespan."""

    def __init__(self, settings: Mapping[str, CaSettings], profiles: Profiles, default_id: str) -> None:
        self._settings = {ca_id: ca for ca_id, ca in settings.items() if profiles.signed(ca_id)}
        self._every_id = tuple(settings)
        self._profiles = profiles
        self.ids = tuple(self._settings)
        self.issuing: dict[str, Issuing] = {}
        """Those that are open, by id: what signs now."""
        self.generations: dict[str, tuple[Issuing, ...]] = {}
        """Every issuing certificate whose key is here, by the id of its CA, the one that signs now first."""
        self.roots: dict[str, Made] = {}
        """Roots that were made here and whose keys are here, by the id of the CA."""
        self.own_keys: dict[str, frozenset[bytes]] = {}
        """The keys of a CA itself, as certificates encode them."""
        self.default_id = default_id

    async def open(self, host: Host, inventory: Inventory) -> None:
        """Load or make every CA, and show its root certificate under the state folder. Raises StartProblem."""
        for ca_id in self.ids:
            await self.open_one(host, inventory, ca_id)

    async def open_one(self, host: Host, inventory: Inventory, ca_id: str) -> None:
        """As :meth:`open`, one of them."""
        ca = self._settings[ca_id]
        brought = self._files(host, ca)
        opened = [await brought.open()] if brought else await open_sealed(host, ca)
        if blocked := await host.blocked_keys.find(spki_sha256(opened[0].signer.public_key)):
            raise StartProblem(f"[ca] {ca_id}: the key of the CA certificate is blocked ({blocked.reason}); bring another CA, or renew it")
        self.generations[ca_id] = tuple(Issuing(one, ca) for one in opened)
        self.issuing[ca_id] = issuing = self.generations[ca_id][0]
        if root := await find_root(host, ca):
            self.roots[ca_id] = root
        signers = [*(one.signer for one in opened), *([root.signer] if root else [])]
        self.own_keys[ca_id] = frozenset(one.info.spki for one in signers)
        await host.db.write(_keep_chain, issuing.delivered)
        inventory.knows(issuing.delivered)
        write_public(host.state_dir / "ca" / ca_id / "root.pem", as_pem(issuing.chain[-1:]))

    def of_key(self, ca_id: str, kid: str) -> Issuing | None:
        """The issuing certificate of a key of the CA, the newest where it has several; None for a key that is not here."""
        return next((one for one in self.generations.get(ca_id, ()) if one.signer.info.kid == kid), None)

    def by_key(self, ca_id: str) -> list[Issuing]:
        """The newest issuing certificate of each key of the CA, the one that signs now first."""
        newest: dict[str, Issuing] = {}
        for one in self.generations[ca_id]:
            newest.setdefault(one.signer.info.kid, one)
        return list(newest.values())

    def all_keys(self, host: Host) -> dict[bytes, str]:
        """Every key that signed or signs certificates of CAs or under them, as certificates encode it, and what it is of in words."""
        found: dict[bytes, str] = {}
        for ca_id in self._every_id:
            for role in ("root", "issuing"):
                found |= {one.info.spki: f"the {role} key of CA {ca_id!r}" for one in host.keys.ring(f"ca:{ca_id}:{role}").all()}
        for ca_id, issuing in ((ca_id, one) for ca_id, opened in self.generations.items() for one in opened):
            for der in issuing.chain:
                found.setdefault(spki_of(x509.load_der_x509_certificate(der)), f"a key in the chain of CA {ca_id!r}")
        return found

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
        profiles = self._profiles.signed(ca.id)
        if in_store(ca.key_file):
            return Stored(host, ca, ca.key_file, ca.cert_file, profiles)
        return Files(host, ca, ca.key_file, ca.cert_file, profiles)


def _keep_chain(tx: Tx, chain: tuple[bytes, ...]) -> None:
    keep_chain(tx, chain)
