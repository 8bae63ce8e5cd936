"""EABKEYS: what other plugins ask of the keys."""

import hmac
from typing import Any

from greatseal.api.services import EABKEYS
from greatseal_eab import tables as t
from greatseal_eab.keys import NewKey, OldKey


async def test_a_key_proves_who_asks_and_is_not_used_up(shared: Any) -> None:
    keys = shared.service.kernel.service(EABKEYS)
    data, key = b"one\ntwo", bytes(range(32))
    mac = hmac.digest(key, data, "sha256")

    async def verified(kid: str, *given: bytes) -> bool:
        found: bool = await shared.db.read(keys.verifies, kid, *given)
        return found

    assert [await verified("kid-1", data, mac) for _ in range(2)] == [True, True]
    for kid, said, code in (("kid-1", b"other", mac), ("kid-1", data, mac[:16]), ("kid-1", data, b""), ("kid-2", data, mac)):
        assert not await verified(kid, said, code)
    await shared.bind(shared.sent())
    assert await verified("kid-1", data, mac)
    assert await shared.db.read(keys.find, "kid-2") is None
    sealed = shared.host.keys.seal(b"not base64!", table="eab_key", row="kid-1", field="hmac_key_b64u")
    await shared.db.write(lambda tx: tx.put(t.KEY, "kid-1", hmac_key_b64u=sealed))
    assert not await verified("kid-1", data, mac)


async def test_a_key_that_was_made_anew_is_another_one(shared: Any) -> None:
    keys = shared.service.kernel.service(EABKEYS)
    before = await shared.db.read(keys.find, "kid-1")
    await shared.db.write(shared.keys.delete, OldKey(kid="kid-1", by="ann"))
    await shared.db.write(shared.keys.create, NewKey(kid="kid-1", hmac_key_b64u="A" * 43, by="ann", bound_principal="alice@EXAMPLE.COM"))
    after = await shared.db.read(keys.find, "kid-1")

    assert after.made_at != before.made_at
    assert (before.principal, after.principal) == (None, "alice@EXAMPLE.COM")
