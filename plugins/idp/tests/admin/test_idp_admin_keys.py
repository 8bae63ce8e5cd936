"""Signing keys and the cluster key over the admin API (document, "Signing keys and cluster key"; rulings R3, R40 to R42)."""

import asyncio
import base64
import json
import uuid

import pytest

from greatseal.testing.store import key

MEMBERS = {"kid", "alg", "kty", "use", "status", "created_at", "node_id"}


async def published(admin):
    return [one["kid"] for one in (await admin.desk.get("/jwks")).json["keys"]]


async def active(admin, alg="ES256"):
    (found,) = [one for one in (await admin.get("keys")).json if one["alg"] == alg and one["status"] == "active"]
    return found


def header_of(token):
    head = token.partition(".")[0]
    return json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))


async def test_idp_107_idp_132_the_list_holds_every_live_key_with_its_algorithm(admin):
    answer = await admin.get("keys")

    assert answer.status == 200
    assert [(one["alg"], one["kty"], one["use"], one["status"], one["node_id"]) for one in answer.json] == [
        ("ES256", "EC", "sig", "active", "n1"),
        ("RS256", "RSA", "sig", "active", "n1"),
    ]
    assert answer.json[0].keys() == MEMBERS | {"crv"}
    assert answer.json[1].keys() == MEMBERS


async def test_idp_114_idp_133_rotate_makes_a_new_active_key_and_retains_the_old_one(admin):
    before = await active(admin)

    answer = await admin.post("keys/rotate")

    assert (answer.status, answer.json.keys()) == (201, {"kid", "alg", "status", "created_at", "previous_kid"})
    assert (answer.json["alg"], answer.json["status"], answer.json["previous_kid"]) == ("ES256", "active", before["kid"])
    assert (await active(admin))["kid"] == answer.json["kid"]
    states = {one["kid"]: one["status"] for one in (await admin.get("keys")).json}
    assert states[before["kid"]] == "retained"
    assert {before["kid"], answer.json["kid"]} <= set(await published(admin))


async def test_r03_the_body_of_rotate_names_the_algorithm(admin):
    es256 = await active(admin, "ES256")

    assert (await admin.post("keys/rotate", {"alg": "RS256"})).json["alg"] == "RS256"
    assert (await admin.post("keys/rotate", {})).json["alg"] == "ES256"

    assert (await active(admin, "ES256"))["kid"] != es256["kid"]
    for body in ({"alg": "none"}, {"alg": "HS256"}, {"alg": 1}, {"algorithm": "ES256"}, []):
        assert (await admin.post("keys/rotate", body)).status == 400


async def test_a_token_of_the_old_key_is_good_after_a_rotation_and_new_ones_are_signed_by_the_new_key(admin):
    signing = admin.desk.provider.signing
    token = await signing.jwt("at+jwt", {"iss": admin.desk.url})
    made = (await admin.post("keys/rotate")).json

    assert signing.verify(token, typ=frozenset({"at+jwt"})) == {"iss": admin.desk.url}
    assert header_of(await signing.jwt("at+jwt", {}))["kid"] == made["kid"]


async def test_idp_115_idp_134_delete_revokes_a_key_and_takes_it_from_the_key_set_at_once(admin):
    old = await active(admin)
    token = await admin.desk.provider.signing.jwt("at+jwt", {"iss": admin.desk.url})
    await admin.post("keys/rotate")

    answer = await admin.delete(f"keys/{old['kid']}")

    assert (answer.status, answer.text) == (204, "")
    assert old["kid"] not in await published(admin)
    assert old["kid"] not in [one["kid"] for one in (await admin.get("keys")).json]
    assert admin.desk.provider.signing.verify(token, typ=frozenset({"at+jwt"})) is None
    rows = {row.kid: row for row in await admin.desk.rows(key)}
    assert (rows[old["kid"]].state, rows[old["kid"]].private) == ("revoked", None)


async def test_idp_117_revoking_the_active_key_warns_and_a_successor_signs(admin, capsys):
    old = await active(admin)

    assert (await admin.delete(f"keys/{old['kid']}")).status == 204

    warning = next(line for line in capsys.readouterr().out.splitlines() if "warning" in line)
    assert "the active signing key is revoked" in warning
    assert old["kid"] in warning
    assert [event.event_type for event in await admin.desk.events("key_rotated", "key_revoked")] == ["key_rotated", "key_revoked"]
    new = await active(admin)
    assert new["kid"] != old["kid"]
    assert header_of(await admin.desk.provider.signing.jwt("at+jwt", {}))["kid"] == new["kid"]
    assert old["kid"] not in await published(admin)


async def test_idp_135_an_unknown_kid_is_404(admin):
    other = await admin.desk.service.host("idp").keys.ring("jwt-svid").make("ec:P-256")

    for kid in ("unknown", "..%2f..%2fdev%2fnull", "'%20OR%201=1--", other.info.kid):
        assert (await admin.delete(f"keys/{kid}")).status == 404


async def test_changes_of_keys_tell_who_made_them(admin):
    made = (await admin.post("keys/rotate")).json
    await admin.delete(f"keys/{made['previous_kid']}")

    rotated, revoked = await admin.desk.events("key_rotated", "key_revoked")
    assert (rotated.sub, made["kid"] in rotated.detail) == ("alice@LOCALHOST", True)
    assert (revoked.sub, made["previous_kid"] in revoked.detail) == ("alice@LOCALHOST", True)


async def test_rotations_at_the_same_time_leave_one_active_key(admin):
    answers = await asyncio.gather(*(admin.post("keys/rotate") for _ in range(20)))

    assert {answer.status for answer in answers} == {201}
    assert (await active(admin))["kid"] in {answer.json["kid"] for answer in answers}
    assert len(await admin.desk.events("key_rotated")) == len({answer.json["kid"] for answer in answers}) == 20


# ---- The cluster key


async def test_idp_136_get_shows_the_id_and_the_time_of_the_cluster_key(admin):
    answer = await admin.get("keys/cluster")

    assert (answer.status, answer.json.keys()) == (200, {"key_id", "rotated_at"})
    assert str(uuid.UUID(answer.json["key_id"])) == answer.json["key_id"]
    assert answer.json["rotated_at"] > 1_700_000_000


@pytest.mark.parametrize("body", [{}, {"key": base64.urlsafe_b64encode(b"k" * 32).decode().rstrip("=")}])
async def test_idp_138_put_sets_a_new_cluster_key_and_everything_still_opens(admin, body):
    before = (await admin.get("keys/cluster")).json
    signing = admin.desk.provider.signing

    answer = await admin.put("keys/cluster", body)

    assert (answer.status, answer.json) == (200, (await admin.get("keys/cluster")).json)
    assert answer.json["key_id"] != before["key_id"]
    assert answer.json["rotated_at"] >= before["rotated_at"]
    (event,) = await admin.desk.events("cluster_key_rotated")
    assert (event.sub, answer.json["key_id"] in event.detail) == ("alice@LOCALHOST", True)
    await admin.desk.service.host("idp").keys.load()
    assert header_of(await signing.jwt("at+jwt", {}))["alg"] == "ES256"


async def test_idp_137_the_raw_cluster_key_is_never_returned(admin):
    raw = base64.urlsafe_b64encode(b"0123456789abcdef" * 2).decode().rstrip("=")

    answers = [await admin.put("keys/cluster", {"key": raw}), await admin.get("keys/cluster"), await admin.get("audit")]

    assert all(raw not in answer.text for answer in answers)
    file = admin.desk.service.kernel.cluster.key_file
    assert raw in file.read_text()
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("key", ["", "AAAA", "A" * 42, "A" * 44, "A" * 43 + "=", "+" * 43, "not base64url!", 1, ["A" * 43]])
async def test_a_cluster_key_of_another_size_or_form_is_400_and_changes_nothing(admin, key):
    before = (await admin.get("keys/cluster")).json

    assert (await admin.put("keys/cluster", {"key": key})).status == 400

    assert (await admin.get("keys/cluster")).json == before
    assert not await admin.desk.events("cluster_key_rotated")


async def test_a_misspelt_member_does_not_make_a_random_cluster_key(admin):
    before = (await admin.get("keys/cluster")).json

    assert (await admin.put("keys/cluster", {"kye": "A" * 43})).status == 400

    assert (await admin.get("keys/cluster")).json == before


async def test_the_cluster_key_in_force_is_not_taken_again(admin):
    raw = base64.urlsafe_b64encode(b"k" * 32).decode().rstrip("=")
    assert (await admin.put("keys/cluster", {"key": raw})).status == 200

    assert (await admin.put("keys/cluster", {"key": raw})).status == 400


async def test_tokens_are_signed_while_the_cluster_key_rotates(admin):
    async def rotations():
        for _ in range(5):
            assert (await admin.put("keys/cluster", {})).status == 200

    async def requests():
        for number in range(20):
            client = await admin.client(
                token_endpoint_auth_method="client_secret_post", client_secret=f"chosen secret number {number}", scopes=["groups"]
            )
            form = {
                "grant_type": "client_credentials",
                "client_id": client["client_id"],
                "client_secret": f"chosen secret number {number}",
            }
            answer = await admin.desk.post("/token", data=form)
            assert answer.json.get("error") in {None, "unauthorized_client"}, answer.text

    await asyncio.gather(rotations(), requests())
