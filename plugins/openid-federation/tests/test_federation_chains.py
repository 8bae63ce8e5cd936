"""Entity statements and trust chains: what is found, what each rule refuses, and how far a search goes."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict
from rig.federation import Entity, Program

from greatseal.api.problems import Problem, Unavailable, Unreachable
from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import b64url_encode, sign_compact
from greatseal.jose.jwk import jwk_of
from greatseal.jose.keysets import read_key_set
from greatseal.net import Fetched
from greatseal_openid_federation import resolution
from greatseal_openid_federation.chains import Chain, is_within
from greatseal_openid_federation.entities import configuration_url, fetch_url, is_entity
from greatseal_openid_federation.problems import InvalidMetadata, InvalidTrustAnchor, InvalidTrustChain
from greatseal_openid_federation.resolution import Gone, Walk
from greatseal_openid_federation.statements import MEDIA_TYPE, Names, read

NOW = 1_800_000_000
A, M, L = "https://anchor.example", "https://mid.example", "https://rp.example/app"


class Web:
    """What is behind URLs: a text, or a whole answer. ``asked`` are the URLs, in order."""

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {}
        self.asked: list[str] = []

    def publish(self, *entities: Entity) -> None:
        """Configurations, and statements of superiors that are among them."""
        for one in entities:
            self.pages[one.configuration_url()] = one.configuration(now=NOW)
            for superior in entities:
                if superior.id in one.superiors:
                    self.pages[superior.fetch_url(one)] = superior.about(one, now=NOW)

    async def get(self, url: str) -> Fetched:
        self.asked.append(url)
        page = self.pages.get(url)
        if isinstance(page, Exception):
            raise page
        if isinstance(page, Fetched):
            return page
        return answer(page, 404 if page is None else 200)


def answer(page: str | None, status: int = 200, content_type: str = MEDIA_TYPE) -> Fetched:
    headers = CIMultiDict({"Content-Type": content_type})
    return Fetched(url="", address="", status=status, headers=headers, body=(page or "").encode(), redirects=0)


class Tree:
    """A federation of three: anchor, intermediate, relying party."""

    def __init__(self) -> None:
        self.anchor, self.web = Entity(A), Web()
        self.mid = Entity(M, A)
        self.leaf = Program(L, M)
        self.web.publish(self.anchor, self.mid, self.leaf)
        self.anchors = {A: read_key_set(self.anchor.jwks)}

    def walk(self) -> Walk:
        return Walk(self.web.get, self.anchors, NOW)

    async def chain(self) -> Chain:
        return await self.walk().chain_of(L)

    async def refusal(self) -> Problem:
        with pytest.raises(Problem) as refused:
            await self.chain()
        assert refused.value.detail.isascii()
        return refused.value

    def says(self, issuer: Entity, subject: Entity, **changes: Any) -> None:
        """Another statement of a superior."""
        self.web.pages[issuer.fetch_url(subject)] = issuer.about(subject, now=NOW, **changes)

    def is_(self, entity: Entity, **changes: Any) -> None:
        """Another configuration."""
        self.web.pages[entity.configuration_url()] = entity.configuration(now=NOW, **changes)


@pytest.fixture
def tree() -> Tree:
    return Tree()


async def test_a_chain_of_three_entities_is_found_and_nothing_is_fetched_twice(tree: Tree) -> None:
    tree.says(tree.anchor, tree.mid, exp=NOW + 60)
    chain = await tree.chain()

    assert chain.entities == (L, M, A)
    assert chain.expires == NOW + 60
    assert chain.metadata == tree.leaf.metadata
    assert [key.kid for key in chain.keys] == [tree.leaf.kid]
    assert tree.web.asked == [
        configuration_url(L), configuration_url(M), configuration_url(A), tree.anchor.fetch_url(tree.mid), tree.mid.fetch_url(tree.leaf),
    ]  # fmt: skip


async def test_the_client_may_stand_right_below_the_anchor(tree: Tree) -> None:
    tree.leaf = Program(L, A)
    tree.web.publish(tree.anchor, tree.leaf)

    assert (await tree.chain()).entities == (L, A)


async def test_metadata_of_the_superior_the_allowed_types_and_the_policies_in_that_order(tree: Tree) -> None:
    tree.leaf.metadata |= {"oauth_client": {}, "federation_entity": {"organization_name": "RP"}}
    tree.is_(tree.leaf)
    party = {"client_name": "Renamed", "contacts": ["it@mid.example"]}
    tree.says(tree.mid, tree.leaf, metadata={"openid_relying_party": party, "openid_provider": {"issuer": L}, "oauth_client": {"p": 1}})
    tree.says(
        tree.anchor,
        tree.mid,
        metadata={"openid_relying_party": {"client_name": "not of the immediate superior"}},
        constraints={"allowed_entity_types": ["openid_relying_party", "openid_provider"]},
        metadata_policy={
            "openid_relying_party": {"contacts": {"add": ["help@anchor.example"]}},
            "oauth_client": {"q": {"essential": True}},
        },
    )
    metadata = (await tree.chain()).metadata

    assert metadata.keys() == {"openid_relying_party", "federation_entity"}
    assert metadata["openid_relying_party"]["client_name"] == "Renamed"
    assert metadata["openid_relying_party"]["contacts"] == ["it@mid.example", "help@anchor.example"]


async def test_keys_of_an_anchor_roll_over(tree: Tree) -> None:
    """Its configuration has a new key, by which it signs statements, and is signed by the old one, which is configured here."""
    new = Entity(A)
    tree.is_(tree.anchor, jwks={"keys": [*tree.anchor.jwks["keys"], *new.jwks["keys"]]})
    tree.web.pages[new.fetch_url(tree.mid)] = new.about(tree.mid, now=NOW)

    assert (await tree.chain()).entities == (L, M, A)


STRANGER = Entity("https://stranger.example")
ONE = Program(L, M)


def fetching_at(endpoint: object) -> dict[str, Any]:
    return {"metadata": {"federation_entity": {"federation_fetch_endpoint": endpoint}}}


@pytest.mark.parametrize(
    ("who", "changes", "said"),
    [
        ("leaf", {"sub": M}, "iss or sub"),
        ("leaf", {"iss": M}, "iss or sub"),
        ("leaf", {"iss": None}, "iss"),
        ("leaf", {"exp": NOW}, "exp has passed"),
        ("leaf", {"exp": None}, "exp"),
        ("leaf", {"exp": "soon"}, "exp"),
        ("leaf", {"exp": True}, "exp"),
        ("leaf", {"iat": NOW + 61}, "iat lies in the future"),
        ("leaf", {"iat": None}, "iat"),
        ("leaf", {"jwks": None}, "jwks"),
        ("leaf", {"jwks": {"keys": []}}, "jwks"),
        ("leaf", {"jwks": {"keys": [{"kty": "oct", "k": "AAAA", "kid": "k"}]}}, "jwks"),
        ("leaf", {"authority_hints": []}, "authority_hints"),
        ("leaf", {"authority_hints": ["http://anchor.example"]}, "authority_hints"),
        ("leaf", {"authority_hints": M}, "authority_hints"),
        ("leaf", {"trust_anchor_hints": []}, "trust_anchor_hints"),
        ("leaf", {"metadata": {"openid_relying_party": []}}, "metadata"),
        ("leaf", {"metadata": {"openid_relying_party": {"client_name": None}}}, "null"),
        ("leaf", {"crit": ["jti"], "jti": "1"}, "crit"),
        ("leaf", {"crit": []}, "crit"),
        ("leaf", {"constraints": {"max_path_length": 1}}, "constraints has no place"),
        ("leaf", {"metadata_policy": {}}, "metadata_policy has no place"),
        ("leaf", {"source_endpoint": "https://x.example"}, "source_endpoint has no place"),
        ("leaf", {"trust_anchor": A}, "trust_anchor has no place"),
        ("leaf", {"trust_marks": [{"trust_mark_type": "t"}]}, "trust_mark"),
        ("leaf", {"trust_marks": [{"trust_mark_type": "t", "trust_mark": "a.b.c"}]}, "trust_mark_type"),
        ("leaf", {"trust_mark_issuers": {"t": ["x"]}}, "trust_mark_issuers"),
        ("leaf", {"trust_mark_owners": {"t": {"sub": A}}}, "a claim is missing"),
        ("leaf", {"header": {"typ": "JWT"}}, "typ"),
        ("leaf", {"header": {"typ": None}}, "typ"),
        ("leaf", {"header": {"kid": None}}, "the header has no kid"),
        ("leaf", {"header": {"kid": ""}}, "the header has no kid"),
        ("leaf", {"header": {"kid": 1}}, "the header has no kid"),
        ("leaf", {"header": {"kid": "another"}}, "signature"),
        ("leaf", {"header": {"alg": "none"}}, "alg"),
        ("leaf", {"header": {"alg": "HS256"}}, "alg"),
        ("leaf", {"header": {"alg": "RS256"}}, "signature"),
        ("leaf", {"header": {"crit": ["exp"]}}, "crit"),
        ("leaf", {"header": {"trust_chain": ["a.b.c"]}}, "trust chain"),
        ("leaf", {"header": {"peer_trust_chain": ["a.b.c"]}}, "trust chain"),
        ("leaf", {"jwks": STRANGER.jwks}, "signature"),
        ("leaf", {"jwks": {"keys": [*STRANGER.jwks["keys"], {**STRANGER.jwks["keys"][0]}]}}, "kid of its own"),
        ("leaf", {"jwks": {"keys": [*STRANGER.jwks["keys"], jwk_of(ONE.key.public_key())]}}, "kid of its own"),
        ("mid", {"exp": NOW - 1}, "exp has passed"),
        ("mid", {"jwks": STRANGER.jwks}, "signature"),
        ("mid", fetching_at("http://mid.example/fetch"), "federation_fetch_endpoint"),
        ("mid", fetching_at("https://mid.example/fetch#x"), "federation_fetch_endpoint"),
        ("mid", fetching_at(7), "federation_fetch_endpoint"),
        ("mid", {"metadata": {}}, "federation_fetch_endpoint"),
        ("anchor", {"exp": NOW - 1}, "exp has passed"),
        ("anchor", {"jwks": STRANGER.jwks}, "signature"),
    ],
)  # fmt: skip
async def test_a_configuration_that_breaks_a_rule_is_refused_with_it(tree: Tree, who: str, changes: Any, said: str) -> None:
    tree.is_(getattr(tree, who), **changes)
    refused = await tree.refusal()

    assert isinstance(refused, InvalidTrustChain)
    assert said in refused.detail


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sub": A}, "iss or sub"),
        ({"iss": A}, "iss or sub"),
        ({"exp": NOW}, "exp has passed"),
        ({"iat": NOW + 61}, "iat lies in the future"),
        ({"jwks": None}, "jwks"),
        ({"jwks": STRANGER.jwks}, "signature"),
        ({"crit": ["x"]}, "crit"),
        ({"metadata_policy_crit": ["regexp"]}, "metadata_policy_crit"),
        ({"metadata_policy_crit": []}, "metadata_policy_crit"),
        ({"metadata_policy_crit": ["value"]}, "metadata_policy_crit"),
        ({"metadata_policy": {"openid_relying_party": {"p": "x"}}}, "metadata_policy"),
        ({"metadata": {"openid_relying_party": {"p": None}}}, "null"),
        ({"authority_hints": [A]}, "authority_hints has no place"),
        ({"trust_marks": []}, "trust_marks has no place"),
        ({"trust_anchor": A}, "trust_anchor has no place"),
        ({"constraints": {"max_path_length": -1}}, "constraints"),
        ({"constraints": {"max_path_length": "1"}}, "constraints"),
        ({"constraints": {"max_path_length": None}}, "constraints"),
        ({"constraints": []}, "constraints"),
        ({"constraints": {"allowed_entity_types": ["federation_entity"]}}, "allowed_entity_types"),
        ({"constraints": {"naming_constraints": {"permitted": "x"}}}, "constraints"),
        ({"header": {"typ": "JWT"}}, "typ"),
        ({"header": {"alg": "none"}}, "alg"),
        ({"header": {"kid": "another"}}, "signature"),
    ],
)
@pytest.mark.parametrize("issuer", ["mid", "anchor"])
async def test_what_a_superior_says_and_may_not(tree: Tree, issuer: str, changes: Any, said: str) -> None:
    below = {"mid": tree.leaf, "anchor": tree.mid}[issuer]
    tree.says(
        getattr(tree, issuer), below, **{name: below.id if value == A and name == "iss" else value for name, value in changes.items()}
    )
    refused = await tree.refusal()

    assert isinstance(refused, InvalidTrustChain)
    assert said in refused.detail


async def test_a_key_of_the_intermediate_for_which_the_anchor_does_not_vouch_signs_nothing(tree: Tree) -> None:
    """Key confusion: the intermediate has another key beside the vouched one, in its own configuration alone."""
    other = Entity(M, A)
    tree.is_(tree.mid, jwks={"keys": [*tree.mid.jwks["keys"], *other.jwks["keys"]]})
    tree.web.pages[tree.mid.fetch_url(tree.leaf)] = other.about(tree.leaf, now=NOW)

    assert "signature" in (await tree.refusal()).detail


async def test_a_statement_by_a_key_that_the_intermediate_no_longer_has_is_refused(tree: Tree) -> None:
    other = Entity(M, A)
    tree.web.pages[tree.mid.configuration_url()] = other.configuration(now=NOW)
    tree.says(tree.anchor, tree.mid, jwks={"keys": [*tree.mid.jwks["keys"], *other.jwks["keys"]]})

    assert "signature" in (await tree.refusal()).detail


async def test_a_superior_signs_nothing_for_another_anchor(tree: Tree) -> None:
    """Whoever has the place of the anchor in DNS does not have its key."""
    liar = Entity(A)
    tree.web.publish(liar, tree.mid, tree.leaf)

    assert "signature" in (await tree.refusal()).detail


@pytest.mark.parametrize(
    ("issuer", "constraints", "good"),
    [
        ("anchor", {"max_path_length": 1}, True),
        ("anchor", {"max_path_length": 0}, False),
        ("mid", {"max_path_length": 0}, True),
        ("anchor", {"naming_constraints": {"permitted": [".example"]}}, True),
        ("anchor", {"naming_constraints": {"permitted": ["mid.example", "rp.example"]}}, True),
        ("anchor", {"naming_constraints": {"permitted": ["RP.example", "MID.example"]}}, True),
        ("anchor", {"naming_constraints": {"permitted": ["rp.example"]}}, False),
        ("mid", {"naming_constraints": {"permitted": ["rp.example"]}}, True),
        ("mid", {"naming_constraints": {"permitted": []}}, False),
        ("mid", {"naming_constraints": {"permitted": [".rp.example"]}}, False),
        ("anchor", {"naming_constraints": {"permitted": [".example"], "excluded": ["rp.example"]}}, False),
        ("anchor", {"naming_constraints": {"excluded": [".mid.example"]}}, True),
        ("anchor", {"something": "else"}, True),
    ],
)
async def test_constraints(tree: Tree, issuer: str, constraints: Any, *, good: bool) -> None:
    tree.says(getattr(tree, issuer), {"mid": tree.leaf, "anchor": tree.mid}[issuer], constraints=constraints)

    if good:
        assert (await tree.chain()).entities == (L, M, A)
    else:
        assert "max_path_length" in (words := (await tree.refusal()).detail) or "naming_constraints" in words


def test_names_of_rfc_5280() -> None:
    """The example of s6.2: a domain begins with a dot and is not the host of its name."""
    names = Names(permitted=(".example.com",), excluded=("east.example.com",))

    assert is_within("host.example.com", names)
    assert is_within("my.host.example.com", names)
    assert not is_within("example.com", names)
    assert not is_within("east.example.com", names)
    assert is_within("host.east.example.com", names)
    assert not is_within("hostexample.com", names)


async def test_policies_that_conflict_and_metadata_that_break_them_are_invalid_metadata(tree: Tree) -> None:
    party = "openid_relying_party"
    tree.says(tree.anchor, tree.mid, metadata_policy={party: {"client_name": {"value": "a"}}})
    tree.says(tree.mid, tree.leaf, metadata_policy={party: {"client_name": {"value": "b"}}})
    assert isinstance(conflict := await tree.refusal(), InvalidMetadata)
    assert "client_name" in conflict.detail
    tree.says(tree.mid, tree.leaf, metadata_policy={party: {"software_id": {"essential": True}}})
    assert isinstance(missing := await tree.refusal(), InvalidMetadata)
    assert "software_id is missing" in missing.detail


async def test_of_several_ways_the_shortest_valid_one_counts(tree: Tree) -> None:
    """One way is short and broken, one is long, one is longer still."""
    other = Entity("https://other.example", A)
    far = Entity("https://far.example", other)
    tree.leaf = Program(L, far, tree.mid, A)
    tree.web.publish(tree.anchor, tree.mid, other, far, tree.leaf)
    tree.says(tree.anchor, tree.leaf, exp=NOW - 1)

    assert (await tree.chain()).entities == (L, M, A)
    tree.says(tree.mid, tree.leaf, metadata_policy={"openid_relying_party": {"x": {"essential": True}}})
    assert (await tree.chain()).entities == (L, far.id, other.id, A)
    tree.says(tree.anchor, tree.leaf)
    assert (await tree.chain()).entities == (L, A)


async def test_an_anchor_below_another_one_is_an_intermediate_where_it_does_not_vouch(tree: Tree) -> None:
    tree.anchors[M] = read_key_set(tree.mid.jwks)
    assert (await tree.chain()).entities == (L, M)
    tree.anchors[M] = read_key_set(STRANGER.jwks)
    assert (await tree.chain()).entities == (L, M, A)


async def test_a_client_of_no_federation_here_is_told_so(tree: Tree) -> None:
    tree.anchors = {"https://elsewhere.example": read_key_set(STRANGER.jwks)}
    refused = await tree.refusal()

    assert isinstance(refused, InvalidTrustAnchor)
    assert (refused.status, refused.error) == (404, "invalid_trust_anchor")


async def test_an_entity_that_is_not_there_is_none(tree: Tree) -> None:
    del tree.web.pages[configuration_url(L)]

    with pytest.raises(Gone):
        await tree.chain()


@pytest.mark.parametrize(
    "page",
    [
        answer("no", 500),
        answer("no", 301),
        Unreachable("refused"),
    ],
)
@pytest.mark.parametrize("place", [configuration_url(L), configuration_url(M), configuration_url(A), fetch_url(f"{A}/fetch", M)])
async def test_an_outage_is_no_refusal(tree: Tree, place: str, page: Any) -> None:
    tree.web.pages[place] = page

    assert isinstance(await tree.refusal(), Unavailable)


@pytest.mark.parametrize("content_type", ["text/html", "application/jwt", "", "application/jose"])
async def test_a_page_of_another_type_is_no_statement(tree: Tree, content_type: str) -> None:
    page = tree.web.pages[configuration_url(L)]
    tree.web.pages[configuration_url(L)] = answer(page, content_type=content_type)
    assert "Content-Type" in (await tree.refusal()).detail
    tree.web.pages[configuration_url(L)] = answer(page, content_type="Application/Entity-Statement+JWT; charset=utf-8")
    assert (await tree.chain()).entities == (L, M, A)


async def test_entities_that_name_each_other_end_the_search(tree: Tree) -> None:
    circle = [Entity(f"https://c{n}.example", f"https://c{(n + 1) % 3}.example", L) for n in range(3)]
    tree.leaf = Program(L, circle[0], L)
    tree.web.publish(*circle, tree.leaf)

    assert isinstance(await tree.refusal(), InvalidTrustAnchor)
    assert len(tree.web.asked) == len(set(tree.web.asked)) == 4


async def test_ten_thousand_superiors_are_not_all_asked(tree: Tree) -> None:
    tree.leaf = Program(L, *(f"https://s{n}.example" for n in range(10_000)), A)
    tree.web.publish(tree.anchor, tree.leaf)

    assert (await tree.chain()).entities == (L, A)  # an anchor among them is found
    assert len(tree.web.asked) == 3
    tree.leaf.superiors.remove(A)
    tree.is_(tree.leaf)
    tree.web.asked.clear()
    assert "status 404" in (await tree.refusal()).detail
    assert len(tree.web.asked) == 1 + resolution.HINTS


async def test_a_web_of_superiors_is_searched_within_bounds(tree: Tree) -> None:
    """Layers in which each names all of the next: few entities, and thousands of ways."""
    layers = [[Entity(f"https://l{depth}n{n}.example") for n in range(5)] for depth in range(6)]
    for upper, lower in zip(layers[1:], layers[:-1], strict=True):
        for one in lower:
            one.superiors = [two.id for two in upper]
    tree.leaf = Program(L, *layers[0])
    tree.web.publish(*(one for layer in layers for one in layer), tree.leaf)

    await tree.refusal()
    assert len(tree.web.asked) <= resolution.FETCHES
    assert len(tree.web.asked) == len(set(tree.web.asked))


async def test_no_more_than_so_many_statements_and_bytes_are_read(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolution, "FETCHES", 4)
    assert "too many statements" in (await tree.refusal()).detail
    assert len(tree.web.asked) == 4
    monkeypatch.undo()
    monkeypatch.setattr(resolution, "BYTES", 500)
    assert "too many statements" in (await tree.refusal()).detail


async def test_a_chain_has_so_many_entities_at_most(tree: Tree) -> None:
    line = [tree.anchor]
    for n in range(resolution.ENTITIES - 1):
        line.append(Entity(f"https://e{n}.example", line[-1]))
    tree.leaf = Program(L, line[-2])
    tree.web.publish(*line, tree.leaf)
    assert len((await tree.chain()).entities) == resolution.ENTITIES
    tree.leaf = Program(L, line[-1])
    tree.web.publish(*line, tree.leaf)
    assert isinstance(await tree.refusal(), InvalidTrustAnchor)


@pytest.mark.parametrize("key", [ed25519.Ed25519PrivateKey.generate(), rsa.generate_private_key(65537, 2048)], ids=["Ed25519", "RSA"])
async def test_other_algorithms(tree: Tree, key: Any) -> None:
    """Those of one chain may differ (s3)."""
    alg = "Ed25519" if isinstance(key, ed25519.Ed25519PrivateKey) else "RS256"
    jwks = {"keys": [{**jwk_of(key.public_key()), "kid": "k"}]}
    claims = {"iss": A, "sub": A, "iat": NOW, "exp": NOW + 60, "jwks": jwks, "metadata": tree.anchor.metadata}
    about = {"iss": A, "sub": M, "iat": NOW, "exp": NOW + 60, "jwks": tree.mid.jwks}

    def signed(body: Mapping[str, Any]) -> str:
        header = {"typ": "entity-statement+jwt", "alg": alg, "kid": "k"}
        return sign_compact(header, json.dumps(body).encode(), lambda text: ALGORITHMS[alg].sign(key, text))

    tree.web.pages |= {configuration_url(A): signed(claims), tree.anchor.fetch_url(tree.mid): signed(about)}
    tree.anchors = {A: read_key_set(jwks)}

    assert (await tree.chain()).entities == (L, M, A)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("https://a.example", True),
        ("https://a.example/", True),
        ("https://a.example:8443/x/y", True),
        ("https://[::1]/x", True),
        ("http://a.example", False),
        ("https://", False),
        ("https:///x", False),
        ("https://A.example", False),
        ("https://a.example?x", False),
        ("https://a.example/#x", False),
        ("https://u@a.example", False),
        ("https://a.example/../x", False),
        ("https://a.example/%2e%2E", False),
        ("https://a.example/ x", False),
        ("https://a.example\n", False),
        ("https://a.example/" + "x" * 240, False),
        ("", False),
    ],
)
def test_what_may_be_an_entity(text: str, *, good: bool) -> None:
    assert is_entity(text) is good


def test_where_things_are() -> None:
    assert configuration_url("https://a.example/") == "https://a.example/.well-known/openid-federation"
    assert configuration_url("https://a.example/b") == "https://a.example/b/.well-known/openid-federation"
    assert fetch_url("https://a.example/f", "https://b.example/?") == "https://a.example/f?sub=https%3A%2F%2Fb.example%2F%3F"
    assert fetch_url("https://a.example/f?x=1", "https://b.example") == "https://a.example/f?x=1&sub=https%3A%2F%2Fb.example"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from([A, M, L, NOW, NOW + 60]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
CLAIMS = st.sampled_from(
    ["iss", "sub", "iat", "exp", "jwks", "metadata", "authority_hints", "trust_anchor_hints", "trust_marks", "trust_mark_issuers",
     "trust_mark_owners", "constraints", "metadata_policy", "metadata_policy_crit", "crit", "source_endpoint", "trust_anchor"]
)  # fmt: skip


@given(st.dictionaries(CLAIMS, JSON, max_size=4), st.booleans())
def test_any_claims_are_refused_or_read(changes: Any, configuration: Any) -> None:
    text = ONE.configuration(now=NOW, **changes) if configuration else STRANGER.about(ONE, now=NOW, **changes)
    try:
        outcome = read(text.encode(), issuer=L if configuration else STRANGER.id, subject=L, now=NOW).claims.sub
    except ValueError as refused:
        outcome = str(refused)
    assert outcome.isprintable()


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode) | st.builds(
    lambda header, payload: b".".join([b64url_encode(header).encode(), b64url_encode(payload).encode(), b"AA"]),
    st.sampled_from([b'{"alg":"ES256","typ":"entity-statement+jwt","kid":"k"}', b"{}", b"[]"]),
    st.binary(max_size=60),
))  # fmt: skip
def test_any_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read(body, issuer=L, subject=L, now=NOW)


@settings(max_examples=50)
@given(st.lists(st.sampled_from([A, M, L, "https://x.example"]), min_size=1, max_size=3), st.lists(st.integers(0, 3), max_size=6))
def test_any_web_of_superiors_has_an_end(hints: list[str], links: list[int]) -> None:
    async def search() -> None:
        tree = Tree()
        others = [Entity(f"https://x{n}.example", *(f"https://x{link}.example" for link in links), *hints) for n in range(4)]
        tree.leaf = Program(L, *others)
        tree.web.publish(tree.anchor, *others, tree.leaf)
        with suppress(Problem):
            assert (await tree.chain()).entities[-1] == A
        assert len(tree.web.asked) <= resolution.FETCHES

    asyncio.run(search())
