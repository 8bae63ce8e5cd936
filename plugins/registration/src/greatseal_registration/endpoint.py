"""POST /register (RFC 7591): a client registers itself."""

from greatseal.api.clients import Clients
from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.host import Host
from greatseal_registration.access import Access
from greatseal_registration.answers import told
from greatseal_registration.bodies import body_of, completed
from greatseal_registration.records import TOKEN, keeping
from greatseal_registration.settings import Registration
from greatseal_registration.statements import Statements

PATH = "/register"


class RegistrationEndpoint:
    """The endpoint. With ``managed`` the answer has a token for the registration (RFC 7592)."""

    def __init__(
        self, host: Host, clients: Clients, access: Access, statements: Statements, settings: Registration, *, managed: bool
    ) -> None:
        self._host = host
        self._clients = clients
        self._access = access
        self._statements = statements
        self._settings = settings
        self._managed = managed

    def routes(self) -> list[Route]:
        rule = Handler("the registration token, or the session of a service; without either the path is not there")
        # Scripts send the token; a session from another origin is refused by Access.
        return [Route("POST", PATH, self.register, style="oauth", auth=rule, cors=True, summary="Register a client (RFC 7591)")]

    async def register(self, call: Call) -> Reply:
        by = await self._access.admit(call)
        sent = await body_of(call)
        asked = completed(await self._statements.counted(sent), self._settings)
        token = self._host.handles.mint(TOKEN) if self._managed else None
        made = await self._clients.register_body(asked, open=True, by=by, also=keeping(token, self._settings.max_clients))
        members = told(made.client, issuer=self._host.issuer, secret=made.client_secret, token=token)
        return Reply.json(members | self._statements.repeated(sent), status=201, headers={"Pragma": "no-cache"})
