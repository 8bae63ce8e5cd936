"""A process that dies between the steps of an issuance leaves what the next start decides (fault plan F01; I1, I2, I9)."""

import json
import os
import signal
import subprocess
import sys

import pytest
from cryptography import x509
from sqlalchemy import select

from greatseal.api.services import ISSUANCE
from greatseal.testing.service import document, serve
from greatseal_ca import tables

CERTIFY = """
import asyncio, json, sys
from greatseal.api.acme import Identifier
from greatseal.api.issuance import IssuanceRequest
from greatseal.api.services import ISSUANCE
from greatseal.testing.service import serve

async def main():
    async with serve(json.loads(sys.argv[1])) as service:
        issuance, db = service.kernel.service(ISSUANCE), service.kernel.store
        profile = issuance.profile(None)
        request = IssuanceRequest(
            profile=profile, ca_id=profile.ca_id, identifiers=(Identifier("dns", "a.example.com"),),
            csr=issuance.read_csr(bytes.fromhex(sys.argv[2])), account=None,
        )
        draft = await issuance.compose(request)
        print(draft.id, draft.tbs.hex(), file=sys.stderr, flush=True)
        prepared = await db.write(issuance.reserve, draft)
        issued = await issuance.issue(prepared)
        print(issued.der.hex(), file=sys.stderr, flush=True)
        await db.write(issuance.record, prepared, issued)

asyncio.run(main())
"""

KILLS = {
    "ca.reserve.recorded": None,
    "ca.issue.signing": "signing",
    "ca.issue.signed": "signing",
    "ca.record.stored": "signing",
}
"""Where the process dies, and what the inventory says then. A record that had not committed is no record."""


@pytest.mark.parametrize(("point", "status"), KILLS.items(), ids=KILLS)
async def test_a_kill_leaves_a_record_that_settles_to_the_same_certificate(tmp_path, make_csr, point, status):
    config = document(tmp_path, ["ca"])
    environment = {**os.environ, "GREATSEAL_FAULTS": "1", "GREATSEAL_FAULT": f"{point}:kill"}
    words = [sys.executable, "-c", CERTIFY, json.dumps(config), make_csr("a.example.com").hex()]
    killed = subprocess.run(words, env=environment, check=False, capture_output=True, text=True, timeout=60)  # noqa: ASYNC221
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (composed, *signed) = (line for line in killed.stderr.splitlines() if "{" not in line)
    id, tbs = composed.split()

    async with serve(config) as service:
        issuance, db = service.kernel.service(ISSUANCE), service.kernel.store
        certificate = await issuance.certificate(id)
        assert (certificate and certificate.status) == status
        if certificate is None:
            assert await db.read(lambda tx: tx.all(select(tables.certificate))) == []
            return
        prepared = await db.read(issuance.reserved, id)
        settled = await issuance.settle(prepared)
        recorded = await db.write(issuance.record, prepared, settled)

    assert x509.load_der_x509_certificate(recorded.der).tbs_certificate_bytes == bytes.fromhex(tbs)
    assert signed in ([], [recorded.der.hex()])
