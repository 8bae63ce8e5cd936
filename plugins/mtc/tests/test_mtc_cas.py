"""Several CAs, each with a log of its own, and what operators see of certificates."""

import base64
from typing import Any

from sqlalchemy import select

from greatseal.api.inventory import CertificateDetails
from greatseal_mtc.details import standalone_of
from greatseal_mtc.tables import entry
from greatseal_mtc.verify import verify_certificate

CAS: list[dict[str, Any]] = [
    {"id": "one", "is_default": True},
    {"id": "two", "mtc": {"trust_anchor_id": "32473.2", "hash_alg": "sha384", "dialect": "plants-05", "log_backend": "sql"}},
    {"id": "three", "mtc": {"enabled": False}},
]
PROFILES = {"default": {}, "tree": {"issue_as": "mtc", "ca_ids": ["one", "two"]}}


async def test_each_ca_has_its_own_log(open_desk):
    desk = await open_desk(ca=CAS, profiles=PROFILES)
    made = {ca_id: await desk.certify("a.example.com", profile="tree", ca_id=ca_id) for ca_id in ("one", "two")}
    unlogged = await desk.certify("a.example.com", profile="default", ca_id="three")

    now = desk.service.kernel.clock.now()
    for ca_id, certificate in made.items():
        assert verify_certificate(desk.trust(ca_id), certificate.der, now).index == 1
    assert made["one"].serial == made["two"].serial
    assert (desk.log("one").log.hash.size, desk.log("two").log.hash.size) == (32, 48)
    url = desk.service.url
    assert (desk.log("one").origin, desk.log("two").origin) == (f"{url}/acme/mtc/tlog", f"{url}/acme/two/mtc/tlog")
    assert desk.log("one").keys.spki != desk.log("two").keys.spki
    assert await desk.entry(unlogged.id) is None
    for ca_id in ("one", "two"):
        await desk.log(ca_id).checkpoints.run()
        await desk.log(ca_id).landmarks.tick()


async def test_ca_028_ca_029_operators_see_index_and_standalone_certificate(open_desk):
    desk = await open_desk(profiles={"default": {}, "tree": {"issue_as": "mtc"}})
    ordinary, tree = await desk.certify("a.example.com", profile="default"), await desk.certify("b.example.com", profile="tree")
    (details,) = desk.service.host("ca").components(CertificateDetails).values()

    await desk.logged(ordinary.id)
    before = await details.members([ordinary, tree], whole=True)
    await desk.log().checkpoints.run()
    after = await details.members([ordinary, tree], whole=True)
    listed = await details.members([ordinary, tree], whole=False)

    assert set(before[ordinary.id]) == {"mtc_log_number", "mtc_log_index"}
    standalone = (await desk.entry(ordinary.id)).standalone
    assert base64.b64decode(after[ordinary.id]["mtc_standalone_der"]) == standalone
    assert base64.b64decode(after[tree.id]["mtc_standalone_der"]) == tree.der == standalone_of(await desk.entry(tree.id), tree)
    assert {id: one["mtc_log_index"] for id, one in listed.items()} == {
        row.certificate_id: row.position for row in await desk.rows(select(entry))
    }
    assert all("mtc_standalone_der" not in one for one in listed.values())


async def test_health_and_notes_say_what_operators_should_know(open_desk):
    desk = await open_desk(
        profiles={"default": {"validity_days": 200}}, mtc={"max_active_landmarks": 10, "cosigners": [{"url": "https://c.example"}]}
    )
    checks = {check.name: check for check in desk.parts.checks()}
    assert (await checks["mtc"].run()).ok
    assert (await checks["mtc-checkpoints"].run()).ok
    landmarks, cosigner = desk.parts.notes()
    assert "landmarks of CA 'default' are kept for 10 days and certificates live for 200" in landmarks
    assert "https://c.example: its signatures are not checked" in cosigner
    (statistic,) = desk.parts.statistics()
    assert await statistic.count() == {"total": desk.log().log.size}
    desk.log().log.stopped = RuntimeError()
    desk.log().log.stopped.detail = "the hold was lost"
    result = await checks["mtc"].run()
    assert (result.ok, result.detail) == (False, "the log of CA 'default' is not written any more; restart the service")
    desk.log().log.stopped = None
