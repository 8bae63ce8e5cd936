"""The fakes of the testing kit: what asks for a service takes them as they are."""

from greatseal.api.acme import Accounts, Challenges
from greatseal.api.clients import Clients
from greatseal.api.http import Call
from greatseal.api.identity import Login
from greatseal.api.issuance import Issuance
from greatseal.api.services import Resolver
from greatseal.api.tokens import Tokens
from greatseal.testing.acme import FakeAccounts, FakeChallenges
from greatseal.testing.calls import FakeCall
from greatseal.testing.clients import FakeClients
from greatseal.testing.issuance import FakeIssuance
from greatseal.testing.logins import FakeLogin
from greatseal.testing.resolver import FakeResolver
from greatseal.testing.tokens import FakeTokens

ACCOUNTS: Accounts = FakeAccounts()
CALL: Call = FakeCall()
CHALLENGES: Challenges = FakeChallenges()
CLIENTS: Clients = FakeClients()
ISSUANCE: Issuance = FakeIssuance()
LOGIN: Login = FakeLogin()
RESOLVER: Resolver = FakeResolver()
TOKENS: Tokens = FakeTokens()
