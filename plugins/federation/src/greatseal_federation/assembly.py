"""The parts of the plugin, put together."""

from collections.abc import Sequence

from greatseal.api.components import Component
from greatseal.api.http import Route
from greatseal.api.services import AUTHORIZATIONS, DIRECTORIES, LOGIN, PAGES
from greatseal.host import Host
from greatseal_federation.admin import AccountsAdmin
from greatseal_federation.callback import Callback
from greatseal_federation.checks import UpstreamCheck
from greatseal_federation.discovered import DiscoveredAdmin
from greatseal_federation.exchange import Exchange
from greatseal_federation.flow import Flows
from greatseal_federation.id_tokens import IdTokens
from greatseal_federation.links import Links
from greatseal_federation.logouts import Logouts
from greatseal_federation.mapping import Mapping
from greatseal_federation.metadata import MetadataStore
from greatseal_federation.options import FederationLogin
from greatseal_federation.overrides import Overrides
from greatseal_federation.page import ConnectionsPage, ConnectionsPart
from greatseal_federation.pages import Refusals
from greatseal_federation.proof import Proofs
from greatseal_federation.sessions import Sessions
from greatseal_federation.sign_out import UpstreamSignOut
from greatseal_federation.start import Start
from greatseal_federation.upstreams import Upstreams
from greatseal_federation.wire import Wire


class Assembly:
    """What the hooks of one kernel share."""

    def __init__(self, host: Host) -> None:
        login, pages, directories = host.service(LOGIN), host.service(PAGES), host.service(DIRECTORIES)
        self.upstreams = Upstreams(host)
        self.proofs = Proofs(host)
        self.sessions = Sessions(host, login)
        links = Links(host, self.upstreams, self.sessions)
        self.mapping = Mapping(host, self.upstreams, directories, links)
        self.options = FederationLogin(host, self.upstreams, directories)
        wire, flows, refusals = Wire(host), Flows(host), Refusals(host, login, pages)
        metadata = self.metadata = MetadataStore(host, wire)
        tokens = IdTokens(host, wire)
        overrides = Overrides(host)
        self.check = UpstreamCheck(self.upstreams, metadata)
        start = Start(
            host,
            self.upstreams,
            login=login,
            authorizations=host.service(AUTHORIZATIONS),
            flows=flows,
            metadata=metadata,
            proofs=self.proofs,
            wire=wire,
            refusals=refusals,
        )
        callback = Callback(
            host,
            self.upstreams,
            login=login,
            pages=pages,
            flows=flows,
            metadata=metadata,
            exchange=Exchange(host, wire, self.proofs, tokens),
            mapping=self.mapping,
            overrides=overrides,
            sessions=self.sessions,
            refusals=refusals,
        )
        sign_out = UpstreamSignOut(host, self.upstreams, pages=pages, metadata=metadata, sessions=self.sessions)
        self.components: Sequence[Component] = (sign_out, ConnectionsPart(host, self.upstreams))
        self.routes: Sequence[Route] = [
            *start.routes(),
            *callback.routes(),
            *AccountsAdmin(host, self.upstreams, directories, links).routes(),
            *DiscoveredAdmin(self.upstreams, overrides).routes(),
            *Logouts(host, self.upstreams, metadata=metadata, tokens=tokens, sessions=self.sessions).routes(),
            *sign_out.routes(),
            *ConnectionsPage(host, self.upstreams, login=login, pages=pages, start=start, links=links, refusals=refusals).routes(),
        ]
