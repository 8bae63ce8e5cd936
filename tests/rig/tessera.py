"""Logs of tessera: those that its posix-oneshot writes into a folder, and what its fsck says of any."""

import subprocess
from base64 import b64encode
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ed25519

from greatseal_mtc.note import Kind, Note, NoteKey

ORIGIN = "tessera.example/log"


def run(program: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """To its end."""
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)


class TesseraLog:
    """A log that tessera writes into ``log`` below a folder. Two with the same ``private`` key are one log that forked."""

    def __init__(self, program: Path, folder: Path, private: ed25519.Ed25519PrivateKey | None = None) -> None:
        self.folder, self._program, self._batches = folder / "log", program, 0
        self.private = private or ed25519.Ed25519PrivateKey.generate()
        self.key = NoteKey(ORIGIN, Kind.ED25519, self.private.public_key())
        self._secret = folder / "key"
        secret = b64encode(b"\x01" + self.private.private_bytes_raw()).decode()
        self._secret.write_text(f"PRIVATE+KEY+{self.key.name}+{self.key.id.hex()}+{secret}")

    def add(self, entries: list[bytes], *options: str) -> None:
        """Append entries, in no order, and publish a checkpoint."""
        said = run(self._program, *self._given(entries), *options)
        assert said.returncode == 0, said.stderr

    def unpublished(self, entries: list[bytes], *options: str) -> str:
        """The same where a witness refuses, for which it would ask for ever: what is said of its answer."""
        command = [str(self._program), *self._given(entries), *options]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            said = []
            for line in process.stderr:
                said.append(line)
                if line.startswith('witness at "'):
                    process.kill()
                    return line
        raise AssertionError("".join(said))

    def _given(self, entries: list[bytes]) -> tuple[str, ...]:
        self._batches += 1
        batch = self.folder.parent / f"batch{self._batches}"
        batch.mkdir()
        for number, entry in enumerate(entries):
            (batch / f"{number:04}").write_bytes(entry)
        return f"--storage_dir={self.folder}", f"--entries={batch}/*", f"--private_key={self._secret}", "--logtostderr"

    def note(self) -> Note:
        """The checkpoint."""
        return Note.parse((self.folder / "checkpoint").read_bytes())


def fsck(program: Path, url: str, vkey: Path) -> str:
    """What is said of the log below an URL, whose key is in a file."""
    # With three workers: the one that finds something wrong ends, and with no other to go on fsck would wait for ever.
    return run(program, f"--storage_url={url}/", f"--public_key={vkey}", "--ui=false", "--logtostderr", "-v=1", "-N=3").stderr
