"""The authenticators that Chromium pretends to have (WebAuthn s11, domain WebAuthn of the DevTools protocol)."""

from typing import Any

from rig.browser import Page


class Authenticator:
    """One of a window."""

    def __init__(self, page: Page, id: str) -> None:
        self._page = page
        self._id = id

    async def answers(self, at_once: bool) -> None:
        """Whether its person touches it as soon as they are asked, or never."""
        await self._page.call("WebAuthn.setAutomaticPresenceSimulation", authenticatorId=self._id, enabled=at_once)

    async def recognises(self, person: bool) -> None:
        """Whether finger, face or PIN is right."""
        await self._page.call("WebAuthn.setUserVerified", authenticatorId=self._id, isUserVerified=person)

    async def credentials(self) -> list[dict[str, Any]]:
        """What it holds, with private keys."""
        found: list[dict[str, Any]] = (await self._page.call("WebAuthn.getCredentials", authenticatorId=self._id))["credentials"]
        return found

    async def set_counter(self, count: int) -> None:
        """Put another signature counter into its only credential, as a copy has one."""
        (credential,) = await self.credentials()
        await self._page.call("WebAuthn.removeCredential", authenticatorId=self._id, credentialId=credential["credentialId"])
        await self._page.call("WebAuthn.addCredential", authenticatorId=self._id, credential={**credential, "signCount": count})

    async def remove(self) -> None:
        """Take it away."""
        await self._page.call("WebAuthn.removeVirtualAuthenticator", authenticatorId=self._id)


async def attach(page: Page, **options: Any) -> Authenticator:
    """A new one: built into the machine, with discoverable credentials, and it knows its person; ``options`` are those of the protocol."""
    await page.call("WebAuthn.enable", enableUI=False)
    whole = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
        **options,
    }
    made = await page.call("WebAuthn.addVirtualAuthenticator", options=whole)
    return Authenticator(page, made["authenticatorId"])
