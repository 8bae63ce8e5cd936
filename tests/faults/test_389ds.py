"""FreeIPA's own server: what differs from slapd must not be seen. Every test of the directory over slapd runs here too."""

import pytest
from rig.directory import Parts
from rig.ds389 import MANAGER, MANAGER_PASSWORD
from rig.slapd import REALM, SUFFIX
from system import test_ldap_access_rules as rules
from system import test_ldap_directory as common
from system import test_ldap_passkeys as passkeys
from system import test_ldap_sign_in as sign_in
from system import test_ldap_tokens as tokens

from greatseal.api.declarations import Secret
from greatseal.api.identity import Denied, Password
from greatseal.testing.logins import AuthenticatorContract, DirectoryContract, context_of
from greatseal.testing.subjects import ClaimsProviderContract
from greatseal_ipa.access import IpaRules
from greatseal_ipa.directory import IpaClaims, IpaDirectory
from greatseal_ipa.library import UNWILLING, Query
from greatseal_ipa.password import IpaPassword

OF_SLAPD = {
    "test_an_outage_is_no_answer",
    "test_without_the_right_to_read_keys_nobody_is_let_in_on_no_code",
    "test_a_write_that_the_directory_refuses_is_told_and_nothing_is_noted",
}
RULES = ("test_the_rules_of_the_seed_say_what_freeipa_says", "test_a_rule_as_it_is_read")
SHARED = {**vars(common), **vars(tokens), **vars(passkeys)}
globals().update({name: test for name, test in SHARED.items() if name.startswith("test_") and name not in OF_SLAPD})
globals().update({name: vars(rules)[name] for name in RULES})


@pytest.fixture
def slapd(ds389):
    """The server of the tests that are shared."""
    return ds389


@pytest.fixture
def parts(ds389):
    made = Parts(ds389.uri)
    yield made
    made.close()


@pytest.fixture
def directory(parts):
    return IpaDirectory(parts.reader)


@pytest.fixture
def source(parts):
    return IpaRules(parts.pool, SUFFIX)


def as_manager(link):
    """Rights are the matter of ``greatseal ipa setup``, and tried there."""
    return link.bind(MANAGER, MANAGER_PASSWORD)


@pytest.fixture
def place(ds389):
    made = tokens.Place(ds389, bind=as_manager)
    yield made
    made.restore()
    made.parts.close()


@pytest.fixture
def home(ds389):
    made = passkeys.Home(ds389, bind=as_manager)
    yield made
    made.restore()
    made.parts.close()


class TestTokens(tokens.TestIpaTokens):
    """The fixture has another server."""


class TestPasskeys(passkeys.TestIpaPasskeys):
    """The fixture has another server."""


class TestDirectory(DirectoryContract):
    username, group = "alice", "ops"

    @pytest.fixture(autouse=True)
    def _parts(self, parts):
        self.parts = parts

    def directory(self):
        return IpaDirectory(self.parts.reader)


class TestClaims(ClaimsProviderContract):
    subject = f"alice@{REALM}"

    @pytest.fixture(autouse=True)
    def _parts(self, parts):
        self.parts = parts

    def provider(self):
        return IpaClaims(self.parts.reader)


class TestPassword(AuthenticatorContract):
    username, password, realm = "alice", "alicepw", REALM

    @pytest.fixture(autouse=True)
    def _parts(self, parts):
        self.parts = parts

    def authenticator(self):
        return IpaPassword(self.parts.reader, "bind", None)


@pytest.mark.parametrize(
    ("username", "password"), [("alice", "bobpw"), ("carol", "wrong"), ("dave", "davepw"), ("frank", "wrong"), ("frank", "frankpw")]
)
async def test_a_cell_of_the_table_by_bind_that_lets_nobody_in(parts, username, password):
    """A locked account gives result 53 here, right password or not, and slapd lets it bind: the entry refuses it there."""
    with pytest.raises(Denied):
        await attempt(parts, username, password)


async def test_an_expired_password_is_proven_although_the_bind_succeeds(parts):
    assert await attempt(parts, "carol", "carolpw") == sign_in.EXPIRED


async def test_a_locked_account_is_known_by_an_attribute_that_must_be_asked_for(parts):
    dn = f"uid=frank,cn=users,cn=accounts,{SUFFIX}"
    (whole,) = (await parts.pool.search(Query(base=dn, attributes=("*",)))).entries
    (named,) = (await parts.pool.search(Query(base=dn, attributes=("nsAccountLock",)))).entries
    outcome = await parts.pool.as_user(dn, "frankpw", lambda _link, bound: bound)

    assert (whole.text("nsAccountLock"), named.text("nsAccountLock")) == (None, "TRUE")
    assert outcome.code == UNWILLING
    assert parts.reader.schema.refused_as(outcome.code, outcome.message, outcome.policy) == "disabled"


async def test_names_come_in_the_case_in_which_they_were_stored(parts, source):
    (entry,) = (await parts.pool.search(Query(base=f"cn=hbac,{SUFFIX}", filter="(cn=devs_on_web)", attributes=("cn",)))).entries

    assert entry.dn.startswith("ipauniqueid=")
    assert len((await source.read()).rules) == 4


async def test_memberof_of_the_server_itself_counts_at_once(directory, slapd):
    group, carol = f"cn=devs,cn=groups,cn=accounts,{SUFFIX}", f"uid=carol,cn=users,cn=accounts,{SUFFIX}"
    slapd.modify(f"dn: {group}\nchangetype: modify\nadd: member\nmember: {carol}\n-\n")
    try:
        assert set((await directory.user("carol")).groups) == {"devs", "ipausers", "ops"}
    finally:
        slapd.modify(f"dn: {group}\nchangetype: modify\ndelete: member\nmember: {carol}\n-\n")
    assert (await directory.user("carol")).groups == ("ipausers",)


async def test_the_service_reads_what_freeipa_lets_it_read_and_no_secrets(parts):
    async def seen(base, filter_, *attributes):
        found = await parts.pool.search(Query(base=f"{base},{SUFFIX}", filter=filter_, attributes=attributes))
        return {name for entry in found.entries for name in entry.values}

    assert "ipaidpclientsecret" in await seen("cn=idp", "(cn=keycloak)", "cn", "ipaIdpClientSecret")
    assert await seen("cn=otp", "(objectClass=ipaToken)", "ipatokenOTPkey", "ipatokenUniqueID") == set()
    assert await seen("cn=accounts", "(uid=alice)", "uid", "userPassword") == {"uid"}


async def attempt(parts, username, password):
    return await IpaPassword(parts.reader, "bind", None).attempt(Password(username=username, password=Secret(password)), context_of())
