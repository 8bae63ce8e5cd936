"""The contract of grants, for those that the identity provider brings. What each gives over HTTP has files of its own."""

from typing import Any

import pytest

from greatseal.api.clients import ClientMatch, ProvenRequest
from greatseal.api.http import Parameters
from greatseal.api.store import Database
from greatseal.api.tokens import Grant
from greatseal.testing.calls import FakeCall
from greatseal.testing.tokens import GrantContract


class ShippedGrant(GrantContract):
    """A grant of a running service, and its client."""

    grant_type: str

    @pytest.fixture(autouse=True)
    def _desk(self, desk: Any, client: Any) -> None:
        self.desk, self.client = desk, client

    def grant(self) -> Grant[Any]:
        grant: Grant[Any] = self.desk.host.components(Grant)[self.grant_type]
        return grant

    def database(self) -> Database:
        database: Database = self.desk.host.db
        return database

    def asked(self, **form: str) -> ProvenRequest:
        """A request of the client, which was proven."""
        sent = Parameters([("grant_type", self.grant_type), *form.items()])
        match = ClientMatch(subject=self.client.client_id)
        return ProvenRequest(call=FakeCall("POST", f"{self.desk.url}/token"), form=sent, client=self.client, match=match)


class TestAuthorizationCode(ShippedGrant):
    grant_type = "authorization_code"

    async def request(self) -> ProvenRequest:
        return self.asked(code=await self.desk.code(self.client), redirect_uri=self.client.redirect_uris[0])


class TestRefreshToken(ShippedGrant):
    grant_type = "refresh_token"

    async def request(self) -> ProvenRequest:
        return self.asked(refresh_token=(await self.desk.tokens(self.client))["refresh_token"])


class TestRefreshTokenWithGrace(TestRefreshToken):
    """A retry within the grace gets the successor once more."""

    @pytest.fixture(autouse=True)
    async def _desk(self, start_desk: Any) -> None:
        self.desk = await start_desk(tokens={"refresh_grace_seconds": 10})
        self.client = await self.desk.client()

    async def later(self) -> None:
        self.desk.clock.advance(10)


class TestClientCredentials(ShippedGrant):
    grant_type = "client_credentials"

    async def request(self) -> ProvenRequest:
        return self.asked(scope="api")
