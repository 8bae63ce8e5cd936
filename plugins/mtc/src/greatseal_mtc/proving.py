"""The proof that a certificate is in a log, for a file: what it is in, and the newest checkpoint that has it."""

from greatseal.api.problems import Conflict, NotFound
from greatseal.host import Host
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.note import Note
from greatseal_mtc.proofs import LogProof
from greatseal_mtc.recording import Entry
from greatseal_mtc.stored_checkpoints import newest_of, witnesses_of
from greatseal_mtc.views import LogView

__all__ = ["log_proof"]


async def log_proof(host: Host, view: LogView, entry: Entry) -> LogProof:
    """A C2SP tlog-proof of an entry. Raises NotFound as long as no checkpoint has it, and Conflict for a tree of another hash."""
    if view.hash is not SHA256:
        raise Conflict(f"a tlog-proof is of a tree of SHA-256, and this one is of {view.hash.name}")
    number, index = view.made.number, entry.index
    newest = await host.db.read(newest_of, entry.ca_id, number)
    if index is None or newest is None or newest.size <= index:
        raise NotFound("no checkpoint has the certificate yet")
    lines = await host.db.read(witnesses_of, entry.ca_id, newest.sequence_no)
    note = Note.parse(newest.note + "".join(line for line, of_log in lines.values() if not of_log).encode())
    return LogProof(index=index, path=tuple(await view.inclusion(index, 0, newest.size)), note=note)
