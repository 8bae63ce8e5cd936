"""What a client could make a person read, or make of the page, by authorization details (RFC 9396 s13)."""

import json
from pathlib import Path

from security.idp_desk import open_desk

TYPE = {"type": "transfer", "sentence": "Send {amount} to {to}", "lines": ["Reference: {note}"]}
MEMBERS = {"amount": {"type": "decimal", "required": True}, "to": {"required": True}, "note": {}}
PLAIN = {"type": "transfer", "amount": "1", "to": "Bob"}


async def test_s071_details_are_text_on_the_consent_page_and_no_template(tmp_path: Path) -> None:
    async with open_desk(tmp_path, "rar", oauth={"authorization_details": [{**TYPE, "members": MEMBERS}]}) as desk:
        client, cookie = await desk.registered(consent="explicit", authorization_details_types=["transfer"]), await desk.cookie("ann")

        async def page(**members: str) -> str:
            asked = {"client_id": client["client_id"], "authorization_details": json.dumps([{**PLAIN, **members}])}
            return (await desk.consent(cookie, **asked))[0].text

        async def status(**members: object) -> int:
            return (await desk.push(by=client, authorization_details=json.dumps([{**PLAIN, **members}]))).status

        script = await page(to='<script>alert(1)</script>"><img src=x onerror=alert(1)>', note="</small></li></ul><h1>Approved")
        assert "Send 1 to “&lt;script&gt;alert(1)&lt;/script&gt;" in script
        assert "<script>alert" not in script
        assert "<img src=x" not in script
        assert "<h1>Approved" not in script
        template = await page(to="{{ 7*7 }} {% raw %} {amount} {to.__class__} ${7*7}", note="{to}")
        assert "“{{ 7*7 }} {% raw %} {amount} {to.__class__} ${7*7}”" in template
        assert "Reference: “{to}”" in template
        imitated = await page(to="Bob” and nothing to “Eve")
        assert "Send 1 to “Bob&#34; and nothing to &#34;Eve”" in imitated, "a value ends where its quotes end"
        for hidden in ("Bob\u202eevE", "Bob\nSend 0 to yourself", "Bob\u200b", "Bob\u2028x", "\ufeffBob", "Bob\u00a0"):
            assert await status(to=hidden) == 400
        for amount in ("1 or 1000", "0x10", "\uff11", "1,000", " 1", "+1", 1, ["1"], {"amount": "1"}, None, True):
            assert await status(amount=amount) == 400
        assert await status() == 201
