"""The endpoints of the log over HTTP, on both backends and databases, with certificates that a client ordered."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from rig.acme import b64url, read
from rig.logged import ANCHOR, LoggedSite, logged_site
from yarl import URL

from greatseal import der
from greatseal.api.moments import SECOND
from greatseal.testing import FakeClock
from greatseal_mtc import merkle
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.dialects import PLANTS_05
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.landmark_list import LandmarkList
from greatseal_mtc.note import Note, NoteKey, open_note
from greatseal_mtc.proofs import LogProof
from greatseal_mtc.structures import LandmarkCertificate
from greatseal_mtc.wire import NULL_ENTRY, entry_of_tbs, parse_bundle, parse_certificate

JSON, DER, TEXT, BYTES = "application/json", "application/pkix-cert", "text/plain; charset=utf-8", "application/octet-stream"
NO_STORE, FOREVER = "no-store", "public, max-age=31536000, immutable"
UNKNOWN = f"{'0' * 8}-0000-8000-8000-{'0' * 12}"


@pytest.fixture(params=["files", "sql"])
def backend(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
async def logged(start_service: Any, database_url: str, backend: str) -> AsyncIterator[LoggedSite]:
    async with logged_site(start_service, database=database_url, mtc={"log_backend": backend}) as site:
        yield site


@pytest.fixture
async def quick(start_service: Any) -> AsyncIterator[LoggedSite]:
    """On SQLite and files alone."""
    async with logged_site(start_service) as site:
        yield site


def entry_of(certificate: bytes) -> bytes:
    return entry_of_tbs(PLANTS_05, TrustAnchorId(ANCHOR), SHA256, der.children(certificate)[0])


def hashes(values: list[str]) -> list[bytes]:
    return [bytes.fromhex(one) for one in values]


async def test_ca_139_ca_140_ca_072_size_and_root_come_from_one_state(logged):
    await logged.logged("a.localhost")

    size, root = await logged.get("tree-size"), await logged.get("root")

    assert (size.status, size.headers["Content-Type"], size.headers["Cache-Control"], size.json) == (200, JSON, NO_STORE, {"treeSize": 2})
    assert root.json == {"treeSize": 2, "rootHash": logged.log.log.head[1].hex()}
    assert root.headers["X-MTC-Version"] == "draft-05"


async def test_ca_141_an_inclusion_proof_leads_from_the_certificate_to_the_root(logged):
    issued = [await logged.logged(f"n{number}.localhost") for number in range(5)]

    for id, certificate in issued:
        proof = (await logged.get(f"inclusion-proof/{id}")).json
        assert proof["treeSize"] == 6
        assert proof["leafHash"] == SHA256.leaf(entry_of(certificate)).hex()
        path = [bytes.fromhex(one["hash"]) for one in proof["proof"]]
        found = merkle.evaluate(SHA256, 0, 6, proof["leafIndex"], leaf=bytes.fromhex(proof["leafHash"]), proof=path)
        assert found.hex() == proof["rootHash"] == (await logged.get("root")).json["rootHash"]
    id, _ = issued[0]
    index = (await logged.get(f"inclusion-proof/{id}")).json["leafIndex"]
    older = await logged.get(f"inclusion-proof/{id}?size={index + 1}")
    assert (older.json["treeSize"], older.headers["Cache-Control"]) == (index + 1, FOREVER)
    for size in (0, index, 7, "x", "-1", "01", "1e3", "9" * 16, "%31%00"):
        assert (await logged.get(f"inclusion-proof/{id}?size={size}")).status == 400, size
    for other in (UNKNOWN, "x", "..", "%2e%2e%2froot", id.upper().replace("-", "")):
        assert (await logged.get(f"inclusion-proof/{other}")).status == 404, other


async def test_ca_142_the_standalone_certificate_of_each_kind(logged):
    ordinary, of_x509 = await logged.logged("a.localhost")
    tree, of_tree = await logged.logged("b.localhost", profile="tree")

    early = await logged.get(f"cert/{ordinary}/standalone")
    at_once = await logged.get(f"cert/{tree}/standalone")
    await logged.checkpoint()
    later = await logged.get(f"cert/{ordinary}/standalone")

    assert early.status == 404
    assert (at_once.status, at_once.headers["Content-Type"], at_once.body) == (200, DER, of_tree)
    assert (later.status, later.headers["Content-Type"]) == (200, DER)
    made = parse_certificate(PLANTS_05, SHA256, later.body)
    assert made.place.index == (await logged.get(f"inclusion-proof/{ordinary}")).json["leafIndex"]
    assert entry_of(later.body) == entry_of(of_x509)
    assert made.proof.signatures
    assert (await logged.get(f"cert/{UNKNOWN}/standalone")).status == 404


async def test_ca_116_a_standalone_certificate_is_downloaded_as_der(logged):
    id, certificate = await logged.logged("b.localhost", profile="tree")
    url = f"{logged.site.url}/acme/cert/{id}"

    by_get, by_post = await logged.client.get(url), await logged.client.post(url)

    for answer in (by_get, by_post):
        assert (answer.status, answer.headers["Content-Type"], answer.body) == (200, DER, certificate)
    x509.load_der_x509_certificate(certificate)


async def test_ca_143_ca_144_ca_147_ca_148_landmarks_of_certificates_and_by_number(logged):
    id, certificate = await logged.logged("a.localhost")

    early = await logged.get(f"cert/{id}/landmark")
    assert (early.status, early.headers["Content-Type"]) == (503, "application/problem+json")
    assert int(early.headers["Retry-After"]) >= 60
    assert (await logged.get("landmarks/0/cert")).status == 404
    await logged.landmark()
    covering, numbered = await logged.get(f"cert/{id}/landmark"), await logged.get("landmarks/0/cert")
    assert covering.body == numbered.body
    assert {covering.headers["Content-Type"], numbered.headers["Content-Type"]} == {DER}
    assert LandmarkCertificate.parse(covering.body).landmark.size == 2

    relative = await logged.get(f"cert/{id}/landmark?form=relative")
    made = parse_certificate(PLANTS_05, SHA256, relative.body)
    index = made.place.index
    leaf = SHA256.leaf(entry_of(certificate))
    assert made.proof.signatures == ()
    root = merkle.evaluate(SHA256, made.proof.start, made.proof.end, index, leaf=leaf, proof=made.proof.path)
    assert root == await logged.log.log.subtree_root(made.proof.start, made.proof.end)

    assert (await logged.get(f"cert/{id}/landmark?form=other")).status == 400
    for other in ("1", "-1", "00", "x", "9" * 16, "%2e%2e"):
        assert (await logged.get(f"landmarks/{other}/cert")).status == 404, other
    assert (await logged.get(f"cert/{UNKNOWN}/landmark")).status == 404


async def test_ca_148_a_landmark_that_is_not_built_is_503_with_retry_after(quick, monkeypatch):
    id, _ = await quick.logged("a.localhost")

    async def nothing(_landmark: Any) -> None:
        return

    monkeypatch.setattr(quick.log.landmarks, "_build", nothing)
    await quick.landmark()
    (one,) = (await quick.get("landmarks")).json
    assert one["treeSize"] == 2

    for path in ("landmarks/0/cert", f"cert/{id}/landmark"):
        answer = await quick.get(path)
        assert (answer.status, int(answer.headers["Retry-After"]) > 0) == (503, True), path


async def test_ca_145_ca_146_the_landmarks_as_a_list_and_in_json(logged):
    empty = await logged.get("landmark-list")
    assert (empty.headers["Content-Type"], empty.body) == (TEXT, b"0 0\n0\n")
    assert (await logged.get("landmarks")).json == []
    await logged.logged("a.localhost")
    await logged.landmark()

    text, shown = await logged.get("landmark-list"), await logged.get("landmarks")

    assert LandmarkList.parse(text.body.decode()) == LandmarkList(1, (2, 0))
    (one,) = shown.json
    assert (one["sequenceNo"], one["treeSize"]) == (0, 2)
    assert one.keys() == {"sequenceNo", "treeSize", "createdAt"}


async def test_the_list_of_a_log_of_plants_07_says_when_landmarks_expire(start_service):
    clock = FakeClock()
    mtc = {"dialect": "plants-07", "max_active_landmarks": 2, "landmark_interval_secs": 100}

    async def start(*features: str, **sections: Any) -> Any:
        return await start_service(*features, clock=clock, **sections)

    async with logged_site(start, mtc=mtc) as site:
        empty = (await site.get("landmark-list")).body
        made = []
        for number in range(3):
            await site.logged(f"n{number}.localhost")
            await site.log.landmarks.tick()
            made.append(clock.now() // SECOND)
            clock.advance(100)
        listed, of_log = [(await site.get(path)).body.decode().splitlines() for path in ("landmark-list", "1/landmarks")]

    assert empty == b"0\n0 0\n"
    assert listed == of_log == ["3", f"4 {made[2] + 200}", f"3 {made[1] + 200}", "2 0"]


async def test_ca_149_ca_153_checkpoint_and_cosignature_are_notes_that_the_published_keys_verify(logged):
    await logged.logged("a.localhost")
    await logged.checkpoint()

    note, cosigned, keys = [await logged.get(f"tlog/{path}") for path in ("checkpoint", "cosignature", "vkey")]

    assert {one.headers["Content-Type"] for one in (note, cosigned, keys)} == {TEXT}
    assert note.headers["Cache-Control"] == cosigned.headers["Cache-Control"] == NO_STORE
    operator, cosigner = (NoteKey.parse(line) for line in keys.body.decode().splitlines())
    checkpoint, _ = open_note(Note.parse(note.body), [operator])
    assert checkpoint.origin == f"{logged.site.url}/acme/mtc/tlog"
    assert {"treeSize": checkpoint.size, "rootHash": checkpoint.root.hex()} == (await logged.get("root")).json
    assert open_note(Note.parse(cosigned.body), [cosigner])[0] == checkpoint
    assert cosigner.name == f"oid/1.3.6.1.4.1.{ANCHOR}"


async def test_the_log_is_also_under_its_number_and_its_id(logged):
    await logged.logged("a.localhost")
    await logged.checkpoint()

    note, keys = await logged.get("1/checkpoint"), await logged.get("tlog/vkey")

    cosigner = NoteKey.parse(keys.body.decode().splitlines()[1])
    checkpoint, _ = open_note(Note.parse(note.body), [cosigner])
    assert (checkpoint.origin, checkpoint.size) == (f"oid/1.3.6.1.4.1.{ANCHOR}.0.1", 2)
    assert (await logged.get("1/tile/0/000.p/2")).body == (await logged.get("tlog/tile/0/000.p/2")).body
    assert (await logged.get("1/landmarks")).body == (await logged.get("landmark-list")).body
    for path in ("2/checkpoint", "01/checkpoint", "x/checkpoint", "2/tile/0/000.p/2", "0/landmarks"):
        assert (await logged.get(path)).status == 404, path


async def test_r121_the_keys_and_the_unsigned_certificate_of_the_ca_are_there_for_an_hour(logged):
    keys, certificate = await logged.get("tlog/vkey"), await logged.get("ca-cert")

    assert {one.headers["Cache-Control"] for one in (keys, certificate)} == {"public, max-age=3600"}
    assert certificate.headers["Content-Type"] == DER
    read = x509.load_der_x509_certificate(certificate.body)
    assert read.signature == b""
    assert PLANTS_05.issuer(TrustAnchorId(ANCHOR)) == read.subject.public_bytes()


async def test_ca_150_ca_151_ca_152_the_tiles_of_a_log_are_its_tree(logged):
    await logged.logged("a.localhost")
    entries = [b"entry %d" % number for number in range(700)]
    await asyncio.gather(*(logged.log.log.append(f"{number:036}", one) for number, one in enumerate(entries)))
    await logged.checkpoint()
    whole = [NULL_ENTRY, *[await logged.log.log.entry(1)], *entries]

    async def tile(path: str) -> bytes:
        answer = await logged.get(f"tlog/tile/{path}")
        assert (answer.status, answer.headers["Content-Type"]) == (200, BYTES), path
        assert answer.headers["Cache-Control"] == (FOREVER if ".p" not in path else "public, max-age=3600")
        return answer.body

    leaves = [SHA256.leaf(one) for one in whole]
    assert await tile("0/000") == b"".join(leaves[:256])
    assert await tile("0/001") == b"".join(leaves[256:512])
    assert await tile("0/002.p/190") == b"".join(leaves[512:702])
    assert await tile("1/000.p/2") == b"".join(merkle.root(SHA256, leaves[at : at + 256]) for at in (0, 256))
    assert parse_bundle(await tile("entries/001"), 256) == whole[256:512]
    assert parse_bundle(await tile("entries/002.p/190"), 190) == whole[512:]
    assert parse_bundle(await tile("entries/000"), 256)[0] == NULL_ENTRY


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("0/000.p/3", 404), ("0/000.p/0", 404), ("0/000.p/256", 404), ("0/000.p/02", 404), ("0/001", 404), ("0/000", 404), ("1/000", 404),
        ("1/000.p/1", 404), ("63/000", 404), ("64/000", 404), ("00/000", 404), ("0/0", 404), ("0/x000/000", 404), ("0/x001/000", 404),
        ("0/999999", 404), ("entries/000.p/3", 404), ("entries/000", 404), ("0/000.p/1/", 400), ("0/000.p/", 400), ("0/000.P/1", 400),
        ("0", 400), ("x", 400), ("0/abc", 400), ("0/-01", 400), ("-1/000", 400), ("entries", 400), ("0//000", 400), ("0/000.p/1%00", 404),
        ("0/000%2ep/1", 200), ("%2e%2e/checkpoint", 404), ("..%2f..%2f.log%2fhead", 400), ("%2fetc%2fpasswd", 400),
        ("0/%2e%2e/%2e%2e/x", 404),
        ("0/%e0%a4%a0%e0%a4%a0%e0%a4%a0", 400), ("0/" + "x001/" * 200 + "000", 404), ("9" * 3000, 400), ("0/000.p/1?x=%ff", 200),
        ("0/%EF%BC%9000.p/1", 400), ("0/000.p/1%0a", 404), ("entries/000.p/1", 200), ("0/000.p/2", 200),
    ],
)  # fmt: skip
async def test_an_odd_path_of_a_tile_is_the_status_of_the_document_and_no_other_file(quick, path, status):
    await quick.logged("a.localhost")
    await quick.checkpoint()

    async with quick.site.session.get(URL(f"{quick.base}/tlog/tile/{path}", encoded=True)) as sent:
        answer = await read(sent)

    assert answer.status == status
    if status != 200:
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json["type"] == "urn:ietf:params:acme:error:malformed"


async def test_nothing_is_shown_of_what_no_checkpoint_has(quick):
    await quick.checkpoint()
    await quick.logged("a.localhost")

    assert (await quick.get("tree-size")).json == {"treeSize": 2}
    assert [(await quick.get(f"tlog/tile/{path}")).status for path in ("0/000.p/1", "0/000.p/2", "entries/000.p/2")] == [200, 404, 404]


async def test_ca_154_a_consistency_proof_proves_that_the_log_only_grew(logged):
    for number in range(6):
        await logged.logged(f"n{number}.localhost")

    for first, second in ((1, 7), (3, 5), (4, 7), (6, 7)):
        answer = await logged.get(f"consistency-proof?from={first}&to={second}")
        found = answer.json
        assert (found["fromSize"], found["toSize"], answer.headers["Cache-Control"]) == (first, second, FOREVER)
        merkle.verify_consistency(
            SHA256, 0, first, second,
            subtree=bytes.fromhex(found["fromRoot"]), root=bytes.fromhex(found["toRoot"]), proof=hashes(found["proof"]),
        )  # fmt: skip
    for query in (
        "", "?from=1", "?to=2", "?from=0&to=2", "?from=2&to=2", "?from=3&to=2", "?from=1&to=8", "?from=1&to=999999999999999",
        "?from=a&to=2", "?from=1&from=1&to=2", "?from=-1&to=2", "?from=1.0&to=2", "?from=01&to=2", "?from=1&to=18446744073709551616",
    ):  # fmt: skip
        answer = await logged.get(f"consistency-proof{query}")
        assert (answer.status, answer.headers["Content-Type"]) == (400, "application/problem+json"), query


async def test_ca_155_the_root_of_a_subtree_with_its_proof(logged):
    for number in range(6):
        await logged.logged(f"n{number}.localhost")
    leaves = [await logged.log.log.leaf(index) for index in range(7)]

    for start, end in ((0, 1), (0, 7), (2, 4), (4, 7), (6, 7), (0, 5)):
        found = (await logged.get(f"subtree-root?start={start}&end={end}&size=7")).json
        assert found["rootHash"] == merkle.root(SHA256, leaves[start:end]).hex()
        root = merkle.root(SHA256, leaves)
        merkle.verify_consistency(
            SHA256, start, end, 7, subtree=bytes.fromhex(found["rootHash"]), root=root, proof=hashes(found["consistencyProof"])
        )
    assert (await logged.get("subtree-root?start=0&end=4")).json.keys() == {"start", "end", "rootHash"}
    for query in (
        "start=1&end=3",
        "start=4&end=8",
        "start=2&end=2",
        "start=3&end=2",
        "start=0",
        "end=2",
        "start=0&end=4&size=3",
        "start=0&end=4&size=8",
    ):
        assert (await logged.get(f"subtree-root?{query}")).status == 400, query


async def test_ca_156_revoked_ranges_are_half_open_ranges_of_indices(logged):
    issued = [await logged.logged(f"n{number}.localhost") for number in range(4)]
    assert (await logged.get("revoked-ranges")).json == []
    indices = []
    for id, _ in issued[1:3]:
        indices.append((await logged.get(f"inclusion-proof/{id}")).json["leafIndex"])
        certificate = await logged.client.get(f"{logged.site.url}/acme/cert/{id}")
        leaf = x509.load_pem_x509_certificates(certificate.body)[0]
        await logged.client.post(logged.client.directory["revokeCert"], {"certificate": b64url(leaf.public_bytes(Encoding.DER))})

    assert (await logged.get("revoked-ranges")).json == [[min(indices), max(indices) + 1]]


async def test_a_tlog_proof_of_a_certificate_is_checked_without_the_service(logged):
    id, certificate = await logged.logged("a.localhost")
    assert (await logged.get(f"tlog-proof/{id}")).status == 404, "no checkpoint has it"
    await logged.checkpoint()

    answer, keys = await logged.get(f"tlog-proof/{id}"), await logged.get("tlog/vkey")

    operator = NoteKey.parse(keys.body.decode().splitlines()[0])
    assert LogProof.parse(answer.body).verify(entry_of(certificate), [operator]).size == 2


async def test_ca_138_the_paths_are_get_alone_and_404_without_a_log(logged, start_service):
    paths = (
        "tree-size",
        "root",
        "landmark-list",
        "landmarks",
        "tlog/checkpoint",
        "tlog/vkey",
        "ca-cert",
        "revoked-ranges",
        "tlog/tile/0/000",
    )
    for path in paths:
        url = f"{logged.base}/{path}"
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert (await logged.client.get(url, method=method)).status == 405, (method, path)
        head = await logged.client.get(url, method="HEAD")
        assert head.body == b""
        assert head.status in {200, 404, 503}
        preflight = await logged.client.get(
            url, method="OPTIONS", headers={"Origin": "https://a.example", "Access-Control-Request-Method": "GET"}
        )
        assert preflight.headers["Access-Control-Allow-Origin"] == "*"
    for sections in ({}, {"mtc": {"enabled": False, "trust_anchor_id": ANCHOR}}):
        without = await start_service("ca", "mtc", **sections)
        for path in paths:
            assert (await logged.client.get(f"{without.url}/acme/mtc/{path}")).status == 404, path


async def test_each_ca_has_its_log_below_its_own_path(start_service):
    cas = [
        {"id": "main", "is_default": True, "mtc": {"trust_anchor_id": "32473.7"}},
        {"id": "other", "mtc": {"trust_anchor_id": "32473.8"}},
        {"id": "bare", "mtc": {"enabled": False}},
    ]
    async with logged_site(start_service, ca=cas, profiles={"logged": {"validity_days": 47}}) as site:
        url = site.site.url
        for path, anchor in (("acme/mtc", "32473.7"), ("acme/main/mtc", "32473.7"), ("acme/other/mtc", "32473.8")):
            certificate = await site.client.get(f"{url}/{path}/ca-cert")
            assert PLANTS_05.issuer(TrustAnchorId(anchor)) == x509.load_der_x509_certificate(certificate.body).subject.public_bytes()
        for path in ("acme/bare/mtc", "acme/none/mtc"):
            assert (await site.client.get(f"{url}/{path}/tree-size")).status == 404
        id, _ = await site.logged("a.localhost")
        assert (await site.client.get(f"{url}/acme/other/mtc/inclusion-proof/{id}")).status == 404, "it is in the log of the other CA"
        for log in site.plugin.logs.open_logs.values():
            await log.checkpoints.run()
        note = await site.client.get(f"{url}/acme/other/mtc/tlog/checkpoint")
        assert note.body.decode().splitlines()[0] == f"{url}/acme/other/mtc/tlog"


async def test_an_alternate_of_acme_is_202_until_a_landmark_covers_it_and_both_have_properties(quick):
    listed = {"Accept": "application/pem-certificate-chain-with-properties"}
    for profile in ("logged", "tree"):
        id, certificate = await quick.logged(f"{profile}.localhost", profile=profile)
        url = f"{quick.site.url}/acme/cert/{id}"

        plain = await quick.client.get(url)
        assert plain.links["acme-optional-alternate"] == f"{url}/landmark"
        waiting = await quick.client.post(f"{url}/landmark")
        assert (waiting.status, int(waiting.headers["Retry-After"]) >= 60, waiting.body) == (202, True, b"")
        await quick.landmark()
        there, with_properties = await quick.client.post(f"{url}/landmark"), await quick.client.get(f"{url}/landmark", headers=listed)
        assert (there.status, there.headers["Content-Type"]) == (200, DER)
        assert entry_of(there.body) == entry_of(certificate)
        assert there.body == (await quick.get(f"cert/{id}/landmark?form=relative")).body
        assert with_properties.body.startswith(b"-----BEGIN CERTIFICATE PROPERTIES-----\n")
        own = await quick.client.get(url, headers=listed)
        expected = listed["Accept"] if profile == "tree" else "application/pem-certificate-chain"
        assert own.headers["Content-Type"] == expected
