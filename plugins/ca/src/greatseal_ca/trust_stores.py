"""Where the programs of a machine look for roots that they trust, and how one is added to them and taken out."""

import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

SECONDS = 300
"""How long a program of the machine may take."""
JAVA_PASSWORD = "changeit"  # noqa: S105  # of every store of Java, as its documentation says
SYSTEMS = (
    ("update-ca-certificates", Path("usr/local/share/ca-certificates"), ".crt"),
    ("update-ca-certificates", Path("etc/pki/trust/anchors"), ".pem"),
    ("update-ca-trust", Path("etc/pki/ca-trust/source/anchors"), ".pem"),
)
"""The program, the folder that it reads, how files there end: Debian and Ubuntu, openSUSE, Fedora and RHEL."""


class StoreProblem(Exception):
    """Why a store cannot be changed, in one line for the person."""


class TrustStore(ABC):
    """One store. Both steps may be repeated; they say what they did, or would do when ``dry``. Both raise StoreProblem."""

    @abstractmethod
    def add(self, name: str, root: x509.Certificate, *, dry: bool = False) -> str: ...

    @abstractmethod
    def remove(self, name: str, *, dry: bool = False) -> str: ...


class SystemStore(TrustStore):
    """What OpenSSL, GnuTLS, curl and most programs of a Linux distribution read."""

    def __init__(self, place: Path = Path("/")) -> None:
        for program, folder, ending in SYSTEMS:
            if (place / folder).is_dir() and (found := shutil.which(program)):
                self._program, self._folder, self._ending = found, place / folder, ending
                return
        looked = ", ".join(f"/{folder} with {program}" for program, folder, _ in SYSTEMS)
        raise StoreProblem(f"this system has no trust store that is known here; looked for {looked}")

    def add(self, name: str, root: x509.Certificate, *, dry: bool = False) -> str:
        file, content = self._file(name), root.public_bytes(Encoding.PEM)
        if file.is_file() and file.read_bytes() == content:
            # The program runs again: it may have been stopped the last time.
            return self._updated(f"{file} is there already", dry)
        if not dry:
            write(file, content)
        return self._updated(f"wrote {file}", dry)

    def remove(self, name: str, *, dry: bool = False) -> str:
        file = self._file(name)
        existed = file.is_file()
        if not dry:
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                raise _refused(file, error) from None
        return self._updated(f"removed {file}" if existed else f"{file} is not there", dry)

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}{self._ending}"

    def _updated(self, done: str, dry: bool) -> str:
        if not dry:
            run(self._program)
        return f"{done}; ran {self._program}"


class PythonStore(TrustStore):
    """The file of the package certifi, which requests and other libraries read instead of the system's store."""

    def __init__(self, python: str) -> None:
        try:
            self._file = Path(run(python, "-c", "import certifi; print(certifi.where())").strip())
        except StoreProblem as problem:
            raise StoreProblem(f"{problem}; name a Python that has the package certifi with --python") from None
        if self._file.is_relative_to("/etc"):
            raise StoreProblem(f"{python} reads {self._file}, the store of the system; choose --store system")

    def add(self, name: str, root: x509.Certificate, *, dry: bool = False) -> str:
        before = self._file.read_bytes()
        without, old = _cut(before, name)
        added = _block(name, root)
        if old == added:
            return f"{self._file} has it already"
        if not dry:
            write(self._file, without + added)
        return f"added it to {self._file}; a new version of certifi replaces that file: repeat this then"

    def remove(self, name: str, *, dry: bool = False) -> str:
        without, old = _cut(self._file.read_bytes(), name)
        if not old:
            return f"{self._file} does not have it"
        if not dry:
            write(self._file, without)
        return f"removed it from {self._file}"


class JavaStore(TrustStore):
    """The file ``cacerts`` of a Java, or another key store."""

    def __init__(self, keystore: Path | None = None) -> None:
        found = shutil.which("keytool")
        if found is None:
            raise StoreProblem("keytool is not there; install a Java, or put its folder bin into PATH")
        self._keytool = found
        self._where = ["-keystore", str(keystore)] if keystore else ["-cacerts"]
        self._named = str(keystore) if keystore else "the cacerts of this Java"

    def add(self, name: str, root: x509.Certificate, *, dry: bool = False) -> str:
        found = self._fingerprint(name)
        if found == _colons(root):
            return f"{self._named} has it already"
        if dry:
            return f"added it to {self._named}"
        if found:
            self._ask("-delete", "-alias", name)
        self._ask("-importcert", "-noprompt", "-alias", name, given=root.public_bytes(Encoding.PEM))
        return f"added it to {self._named}"

    def remove(self, name: str, *, dry: bool = False) -> str:
        if not self._fingerprint(name):
            return f"{self._named} does not have it"
        if not dry:
            self._ask("-delete", "-alias", name)
        return f"removed it from {self._named}"

    def _fingerprint(self, name: str) -> str:
        """That of the certificate of this name; "" for none."""
        try:
            listed = self._ask("-list", "-alias", name)
        except StoreProblem:
            return ""
        return next((word for line in listed.splitlines() for word in line.split() if word.count(":") == 31), "")

    def _ask(self, *arguments: str, given: bytes | None = None) -> str:
        return run(self._keytool, arguments[0], *self._where, "-storepass", JAVA_PASSWORD, *arguments[1:], given=given)


def write(file: Path, content: bytes) -> None:
    """Replace a file that everybody may read, whole or not at all. Raises StoreProblem."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.write_bytes(content)
        draft.chmod(0o644)
        draft.replace(file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise _refused(file, error) from None


def run(*command: str, given: bytes | None = None) -> str:
    """What a program of the machine writes. Raises StoreProblem when it fails."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(  # noqa: S603  # what the person named, without a shell
            command, input=given or b"", capture_output=True, timeout=SECONDS, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreProblem(f"{command[0]} cannot be run: {error}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise StoreProblem(f"{command[0]} ended with {done.returncode}: {said[-1] if said else 'without a word'}")
    return done.stdout.decode(errors="replace")


def _refused(file: Path, error: OSError) -> StoreProblem:
    cure = "; run this as root" if isinstance(error, PermissionError) else ""
    return StoreProblem(f"{file} cannot be changed: {error.strerror}{cure}")


def _colons(root: x509.Certificate) -> str:
    return root.fingerprint(hashes.SHA256()).hex(":").upper()


def _block(name: str, root: x509.Certificate) -> bytes:
    begin, end = _marks(name)
    return begin + root.public_bytes(Encoding.PEM) + end


def _marks(name: str) -> tuple[bytes, bytes]:
    return f"\n# greatseal trust: begin {name}\n".encode(), f"# greatseal trust: end {name}\n".encode()


def _cut(content: bytes, name: str) -> tuple[bytes, bytes]:
    """The file without the block of this name, and the block; empty for none."""
    begin, end = _marks(name)
    before, found, rest = content.partition(begin)
    inside, ended, after = rest.partition(end)
    return (before + after, begin + inside + end) if found and ended else (content, b"")


def stores(chosen: Sequence[str], *, python: str, keystore: Path | None) -> list[TrustStore]:
    """Those that the person chose, all there. Raises StoreProblem before any is changed."""
    made: list[TrustStore] = []
    for one in dict.fromkeys(chosen):
        match one:
            case "system":
                made.append(SystemStore())
            case "python":
                made.append(PythonStore(python))
            case _:
                made.append(JavaStore(keystore))
    return made
