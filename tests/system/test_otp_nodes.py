"""One-time codes on two nodes: the node that the person's name gives decides what was used."""

import asyncio
from pathlib import Path
from typing import Any

import pyotp
from rig.people import write_users
from security.idp_desk import PASSWORD

from greatseal.api.otp import CodeStore, Holder, NewToken
from greatseal_idp import tables as idp
from greatseal_otp import tables as t
from greatseal_otp.arithmetic import spelt

KEY = b"12345678901234567890"


async def test_a_code_at_two_nodes_at_once_is_good_once(start_nodes: Any, tmp_path: Path) -> None:
    users = write_users(tmp_path / "users.toml", PASSWORD, {"ann": {}})
    collections = [t.TOKEN, t.RECOVERY, idp.SESSION]
    nodes, services = await start_nodes("idp", "users-file", "otp", collections=collections, users={"file": str(users)})
    parts = {label: service.kernel.hooks.instances["otp"].parts(service.host("otp")) for label, service in services.items()}
    for label, service in services.items():
        nodes.serve(label, *parts[label].local.operations, *parts[label].recovery.operations)
        assert service.host("otp").components(CodeStore)["local"] is parts[label].local
    for subject in (f"person{number}@LOCALHOST" for number in range(6)):
        holder = Holder(subject=subject, user=None)
        token = await parts["n1"].local.add(holder, NewToken(label="x", key=KEY, algorithm="sha1", digits=6, period=30))
        await nodes.settle()
        code = pyotp.TOTP(spelt(KEY).replace(" ", "")).now()

        good = await asyncio.gather(*(parts[label].codes.confirm(holder, token.token_id, code) for label in ("n1", "n2") for _ in range(3)))
        assert sum(good) == 1
        (recovery, *_) = await parts["n2"].recovery.make(subject)
        await nodes.settle()
        digits = recovery.replace("-", "")
        assert sum(await asyncio.gather(*(parts[label].recovery.use(holder, digits) for label in ("n1", "n2") for _ in range(3)))) == 1
        await nodes.settle()
        assert [(await parts[label].recovery.state(subject)).remaining for label in ("n1", "n2")] == [9, 9]
        assert [await parts[label].local.remove(holder, token.token_id) for label in ("n2", "n1")] == [True, False]
    assert nodes.forwarded > 0
