"""The fakes of the testing kit: what asks for a service takes them as they are."""

from greatseal.api.acme import Accounts, Challenges, EabKeys, Examiner
from greatseal.api.authorization import Authorizations
from greatseal.api.clients import Clients
from greatseal.api.directory import Directories
from greatseal.api.http import Call
from greatseal.api.identity import Login
from greatseal.api.issuance import Issuance
from greatseal.api.kerberos import Negotiator, Tickets
from greatseal.api.nodes import Peers
from greatseal.api.notices import Notices
from greatseal.api.pages import Pages
from greatseal.api.services import Metadata, Resolver
from greatseal.api.tokens import Families, Tokens
from greatseal.testing.acme import FakeAccounts, FakeChallenges, FakeEabKeys, FakeExaminer
from greatseal.testing.calls import FakeCall
from greatseal.testing.clients import FakeClients
from greatseal.testing.directories import FakeDirectories
from greatseal.testing.extensions import FakeAuthorizations
from greatseal.testing.issuance import FakeIssuance
from greatseal.testing.logins import FakeLogin
from greatseal.testing.negotiate import FakeNegotiator, FakeTickets
from greatseal.testing.nodes import Nodes, Wire
from greatseal.testing.notices import FakeNotices
from greatseal.testing.pages import FakePages
from greatseal.testing.resolver import FakeResolver
from greatseal.testing.tokens import FakeFamilies, FakeMetadata, FakeTokens

CALL: Call = FakeCall()

ACCOUNTS: Accounts = FakeAccounts()
AUTHORIZATIONS: Authorizations = FakeAuthorizations()
CHALLENGES: Challenges = FakeChallenges()
CLIENTS: Clients = FakeClients()
DIRECTORIES: Directories = FakeDirectories()
EABKEYS: EabKeys = FakeEabKeys()
EXAMINER: Examiner = FakeExaminer()
FAMILIES: Families = FakeFamilies()
ISSUANCE: Issuance = FakeIssuance()
LOGIN: Login = FakeLogin()
METADATA: Metadata = FakeMetadata()
NEGOTIATE: Negotiator = FakeNegotiator()
TICKETS: Tickets = FakeTickets()
NOTICES: Notices = FakeNotices()
PAGES: Pages = FakePages()
PEERS: Peers = Wire(Nodes(()), "n1")
RESOLVER: Resolver = FakeResolver()
TOKENS: Tokens = FakeTokens()
