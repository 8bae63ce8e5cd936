"""A CA whose certificates are a file and whose key is a file or in a key store: brought by the operator, or made at the first start."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from greatseal import faults
from greatseal.api.folders import folder_problem
from greatseal.api.issuance import Profile
from greatseal.api.keys import KeyStore, Signer, in_store
from greatseal.api.problems import StartProblem
from greatseal.host import Host
from greatseal_ca.algorithms import make_key
from greatseal_ca.authority import Authority, certify, made_days, open_root
from greatseal_ca.chains import check_chain, constraint_problems, days_of, spki_of
from greatseal_ca.inventory import as_pem
from greatseal_ca.settings import CaSettings


class Brought:
    """A CA whose certificates are in cert_file. ``key`` is what the configuration calls its key."""

    def __init__(self, host: Host, ca: CaSettings, key: str, cert_file: Path, profiles: Mapping[str, Profile]) -> None:
        self.host = host
        self.ca = ca
        self.key = key
        self.cert_file = cert_file
        self.profiles = profiles
        self._fresh = cert_file.with_name(f"{cert_file.name}.new")

    async def open(self) -> Authority:
        """Make what is missing, then load and check. Raises StartProblem."""
        raise NotImplementedError

    def look(self) -> tuple[list[str], int]:
        """What :meth:`open` would refuse, as far as that can be told without making anything, and how many days the CA lives as a whole."""
        raise NotImplementedError

    async def _certify(self, signer: Signer) -> None:
        """A certificate for the key under the root that is made here, beside cert_file."""
        root = await open_root(self.host, self.ca)
        certificate = await certify(self.host, self.ca, signer, root)
        self.cert_file.parent.mkdir(parents=True, exist_ok=True)
        _write(self._fresh, as_pem([certificate.public_bytes(Encoding.DER), root.der]).encode(), 0o644)

    def _authority(self, signer: Signer) -> Authority:
        certificates = self._certificates()
        if spki_of(certificates[0]) != signer.info.spki:
            raise self._problem(f"{self.cert_file}: the first certificate is for another key than {self.key}")
        self._check(certificates)
        chain = tuple(one.public_bytes(Encoding.DER) for one in certificates)
        return Authority(ca_id=self.ca.id, signer=signer, certificate=certificates[0], chain=chain)

    def _certificates(self) -> list[x509.Certificate]:
        try:
            return x509.load_pem_x509_certificates(self.cert_file.read_bytes())
        except (OSError, ValueError) as error:
            raise self._problem(f"{self.cert_file} cannot be read as PEM certificates: {error}") from None

    def _check(self, certificates: list[x509.Certificate]) -> None:
        try:
            check_chain(certificates, self.host.clock.now())
        except ValueError as error:
            raise self._problem(f"{self.cert_file}: {error}") from None
        if problems := constraint_problems(certificates, self.profiles):
            raise StartProblem(*(f"[ca] {self.ca.id}: {self.cert_file}: {problem}" for problem in problems))

    def _problem(self, what: str) -> StartProblem:
        return StartProblem(f"[ca] {self.ca.id}: {what}")


class Files(Brought):
    """The key_file and cert_file of one CA."""

    def __init__(self, host: Host, ca: CaSettings, key: str, cert_file: Path, profiles: Mapping[str, Profile]) -> None:
        super().__init__(host, ca, key, cert_file, profiles)
        self.key_file = Path(key)

    async def open(self) -> Authority:
        async with _locked(self.key_file.parent):
            if not self.key_file.exists() and not self.cert_file.exists():
                await self._make()
            elif self.key_file.exists() and not self.cert_file.exists() and self._fresh.exists():
                self._fresh.rename(self.cert_file)  # a start was killed between the two
        return self._load()

    def look(self) -> tuple[list[str], int]:
        try:
            there = (self.key_file.exists(), self.cert_file.exists())
        except OSError as error:  # a folder that may not be searched
            return [f"[ca] {self.ca.id}: {error.filename} cannot be read: {error.strerror}"], made_days(self.ca)
        if there == (False, False):
            reasons = filter(None, map(folder_problem, dict.fromkeys((self.key_file.parent, self.cert_file.parent))))
            problems = [f"[ca] {self.ca.id}: {self.key_file} and {self.cert_file} cannot be made: {reason}" for reason in reasons]
            return problems, made_days(self.ca)
        if there == (True, False) and self._fresh.exists():
            return [], made_days(self.ca)
        try:
            chain = [x509.load_der_x509_certificate(der) for der in self._load().chain]
        except StartProblem as problem:
            return list(problem.messages), made_days(self.ca)
        return [], days_of(chain)

    async def _make(self) -> None:
        """Key and certificate under other names, then the key, then the certificate: a kill leaves what can be finished."""
        half = self.key_file.with_name(f"{self.key_file.name}.new")
        key = await self.host.blocking.run("making keys", make_key, self.ca.key_type)
        _write(half, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, self._encryption()), 0o600)
        await self._certify(self._signer(half))
        half.rename(self.key_file)
        faults.point("ca.files.key_made")
        self._fresh.rename(self.cert_file)

    def _load(self) -> Authority:
        for present, absent in ((self.key_file, self.cert_file), (self.cert_file, self.key_file)):
            if present.exists() and not absent.exists():
                raise self._problem(f"{present} is there without {absent}; bring the other file, or remove this one to have both made")
        if self.ca.require_encrypted_key and not self._is_encrypted(self.key_file):
            raise self._problem(f"{self.key_file} is not encrypted, and require_encrypted_key asks for that")
        return self._authority(self._signer(self.key_file))

    def _signer(self, path: Path) -> Signer:
        password = self._password() if self._is_encrypted(path) else None
        try:
            return self.host.keys.from_file(path, purpose=f"ca:{self.ca.id}:issuing", password=password)
        except StartProblem as problem:
            raise StartProblem(*(f"[ca] {self.ca.id}: {message}" for message in problem.messages)) from None

    def _is_encrypted(self, path: Path) -> bool:
        return b"ENCRYPTED" in self._bytes(path)

    def _encryption(self) -> KeySerializationEncryption:
        password = self._password()
        return BestAvailableEncryption(password) if password else NoEncryption()

    def _password(self) -> bytes | None:
        path = self.ca.key_password_file
        return self._bytes(path).removesuffix(b"\n") if path else None

    def _bytes(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise self._problem(f"{path} cannot be read: {error.strerror}") from None


class Stored(Brought):
    """The key of one CA in a key store, where the operator made it. Its certificate is made when cert_file is not there."""

    async def open(self) -> Authority:
        try:
            signer = await self.host.keys.signer(self.key, purpose=f"ca:{self.ca.id}:issuing")
        except StartProblem as problem:
            raise StartProblem(*(f"[ca] {self.ca.id}: key_file: {message}" for message in problem.messages)) from None
        async with _locked(self.cert_file.parent):
            if not self.cert_file.exists():
                await self._certify(signer)
                self._fresh.rename(self.cert_file)
        return self._authority(signer)

    def look(self) -> tuple[list[str], int]:
        named, stores = in_store(self.key), self.host.components(KeyStore)
        if named and named[0] not in stores:
            unknown = f"no enabled plugin provides the key store {named[0]!r}; known: {', '.join(stores) or 'none'}"
            return [f"[ca] {self.ca.id}: key_file: {unknown}"], made_days(self.ca)
        if not self.cert_file.exists():
            reason = folder_problem(self.cert_file.parent)
            return [f"[ca] {self.ca.id}: {self.cert_file} cannot be made: {reason}"] if reason else [], made_days(self.ca)
        try:
            chain = self._certificates()
            self._check(chain)
        except StartProblem as problem:
            return list(problem.messages), made_days(self.ca)
        return [], days_of(chain)


def _write(path: Path, content: bytes, mode: int) -> None:
    """A new file with its mode from the first byte on, on the disk before this returns."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@asynccontextmanager
async def _locked(folder: Path) -> AsyncIterator[None]:
    """Under the folder's lock, so that two processes do not both make a CA."""
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103  # at the start nothing else waits for the loop
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        await asyncio.to_thread(fcntl.flock, descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
