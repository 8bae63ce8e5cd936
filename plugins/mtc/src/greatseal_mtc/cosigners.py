"""Cosigners: each is sent the checkpoint and answers with its signature over the tree (SubtreeSignature).

Nothing of an answer is taken that does not speak of the very tree and checkpoint that were sent. Whose key is not configured is believed
all the same, which is said in the log, and its signature counts for nothing here.
"""

import structlog

from greatseal.api.problems import Outbound
from greatseal.net import AddressPolicy, NameResolver, excerpt, fetch
from greatseal_mtc.algorithms import BadSignature, signature_algorithm, verify
from greatseal_mtc.settings import Cosigner
from greatseal_mtc.stored_checkpoints import Stored
from greatseal_mtc.structures import MAX_STRUCTURE, SubtreeSignature
from greatseal_mtc.wire import cosigned_message

SECONDS = 30.0
"""For one request, from the connection to the last byte of the answer."""
OCTETS = "application/octet-stream"
ANYWHERE = AddressPolicy(allow_private=True)
"""Operators name cosigners, which may be of the inside network."""
LONGEST = 5000
"""Bytes of a signature: more than ML-DSA-87 has. The signatures of a certificate have 64 kB together."""


class Refused(ValueError):
    """An answer that is not taken, with the reason."""


class Silent(Exception):
    """No answer came, or one that says that the cosigner is not well."""


async def cosign(
    cosigner: Cosigner, checkpoint: Stored, log_id: str, *, resolver: NameResolver, log: structlog.stdlib.BoundLogger
) -> SubtreeSignature:
    """Ask one cosigner. ``log_id`` is the name of the log in what is cosigned. Raises Silent, and Refused for what is not taken."""
    try:
        answer = await fetch(
            cosigner.url,
            resolver=resolver,
            policy=ANYWHERE,
            redirects=0,
            seconds=SECONDS,
            max_body=MAX_STRUCTURE,
            headers={"Accept": OCTETS},
            content=(OCTETS, checkpoint.der),
        )
    except Outbound as problem:
        raise Silent(f"{type(problem).__name__}: {problem.detail}") from None
    if answer.status != 200:
        raise Silent(f"status {answer.status}: {excerpt(answer.body.decode(errors='replace'))}")
    try:
        signed = SubtreeSignature.parse(answer.body)
    except ValueError as error:
        raise Refused(f"the answer is no SubtreeSignature: {error}") from None
    check(cosigner, checkpoint, signed, log_id)
    if cosigner.key is None:
        log.warning("the signature of a cosigner is not checked: give its cosigner_id_cert_pem", url=cosigner.url)
    return signed


def check(cosigner: Cosigner, checkpoint: Stored, signed: SubtreeSignature, log_id: str) -> None:
    """Raises Refused for a signature that is not over this tree, not for this checkpoint, or not by this cosigner."""
    if (signed.start, signed.end) != (0, checkpoint.size) or signed.root != checkpoint.root:
        raise Refused(f"it is over another tree: [{signed.start}, {signed.end}) with the root {signed.root.hex()}")
    if signed.checkpoint != checkpoint.der:
        raise Refused("it names another checkpoint than the one that was sent")
    if len(signed.signature) > LONGEST:
        raise Refused(f"a signature of {len(signed.signature)} bytes; {LONGEST} at most")
    if cosigner.anchor is not None and signed.cosigner != cosigner.anchor:
        raise Refused(f"it is by cosigner {signed.cosigner.ascii}, not {cosigner.anchor.ascii}")
    if cosigner.key is None:
        return
    if signed.algorithm != signature_algorithm(cosigner.key):
        raise Refused("its signature algorithm is not that of the key in cosigner_id_cert_pem")
    try:
        verify(cosigner.key, cosigned_message(signed.cosigner.name, log_id, 0, checkpoint.size, checkpoint.root), signed.signature)
    except BadSignature:
        raise Refused("its signature is wrong") from None
