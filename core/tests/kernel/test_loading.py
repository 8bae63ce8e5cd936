"""Plugins are found through entry points, and whatever is wrong with one is named with its cure."""

import sys

import pytest

from greatseal.api.problems import StartProblem
from greatseal.kernel.kernel import Kernel
from greatseal.testing.distributions import install

GOOD = "class Plugin:\n    pass\n"
BASE = {"server": {"base_url": "http://localhost:8080"}}


def problems(document: dict) -> list[str]:
    with pytest.raises(StartProblem) as caught:
        Kernel({**BASE, **document})
    return list(caught.value.messages)


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_only_the_named_plugins_are_imported(site):
    install(site, "greatseal-good-one", GOOD)
    install(site, "greatseal-bad-one", "raise RuntimeError('imported')\n")

    kernel = Kernel({**BASE, "plugins": {"enabled": ["good-one"]}})

    assert list(kernel.plugins) == ["good-one"]
    assert kernel.plugins["good-one"].distribution == "greatseal-good-one"
    assert "greatseal_bad_one" not in sys.modules


def test_an_unknown_plugin_is_named_with_the_nearest_installed_one(site):
    install(site, "greatseal-good-one", GOOD)

    (problem,) = problems({"plugins": {"enabled": ["god-one"]}})

    assert "'god-one' is not installed; did you mean 'good-one'? If not, install greatseal-god-one" in problem


def test_two_distributions_with_one_feature_are_both_named(site):
    install(site, "greatseal-a", GOOD, feature="same")
    install(site, "greatseal-b", GOOD, feature="same")

    (problem,) = problems({"plugins": {"enabled": ["same"]}})

    assert "greatseal-a 1.0 and greatseal-b 1.0; uninstall one" in problem


def test_two_bundles_of_one_name_are_both_named(site):
    install(site, "greatseal-a", "Plugin = ()\n", feature="same", group="greatseal.sets")
    install(site, "greatseal-b", "Plugin = ()\n", feature="same", group="greatseal.sets")

    assert problems({"plugins": {"sets": ["same"]}}) == [
        "bundle 'same' is provided by greatseal-a 1.0 and greatseal-b 1.0; uninstall one of them"
    ]


def test_a_bundle_that_is_none_names_its_distribution(site):
    install(site, "greatseal-a", "import no_such_module_at_all\n", feature="absent", group="greatseal.sets")
    install(site, "greatseal-b", "Plugin = 3\n", feature="three", group="greatseal.sets")

    absent, three, twice = problems({"plugins": {"sets": ["absent", "three", "three"]}})[:3]

    assert "bundle 'absent' of greatseal-a 1.0 cannot be imported: ModuleNotFoundError" in absent
    assert three == "bundle 'three' of greatseal-b 1.0 is no list of feature ids; greatseal_b:Plugin must be one"
    assert three == twice


def test_a_plugin_of_a_bundle_that_is_not_installed_is_told_of_the_bundle(site):
    install(site, "greatseal-good-one", GOOD)
    install(site, "greatseal-pair", "Plugin = ('good-one', 'gone')\n", feature="pair", group="greatseal.sets")

    assert problems({"plugins": {"sets": ["pair"]}}) == [
        "[plugins] sets: 'pair' brings 'gone', which is not installed; install greatseal-gone"
    ]


def test_every_feature_to_come_is_planned(site):
    for name in ("webui", "spiffe"):
        assert problems({"plugins": {"enabled": [name]}}) == [f"[plugins] enabled: {name!r} is planned, not built yet; take the name out"]


def test_what_the_plugin_that_is_missing_may_know_is_not_told(site):
    """One misspelt name is one line."""
    sections = {"oauth": {"min_client_secret_length": 30}, "colours": {"sky": "blue"}, "server": {**BASE["server"], "website_url": "x"}}

    (problem,) = problems({"plugins": {"sets": ["ipd"]}, **sections})
    others = problems(sections)

    assert problem.startswith("[plugins] sets: 'ipd' is not an installed bundle")
    assert len(others) == 3


def test_settings_that_fail_name_the_plugin(site):
    install(
        site,
        "greatseal-odd",
        "from greatseal import hookimpl\nclass Plugin:\n    @hookimpl\n    def settings(self): raise ValueError('oh')\n",
    )

    assert problems({"plugins": {"enabled": ["odd"]}}) == ["plugin 'odd': hook settings failed: ValueError: oh"]


def test_a_plugin_that_cannot_be_imported_names_its_distribution(site):
    install(site, "greatseal-bad-one", "import no_such_module_at_all\n")

    (problem,) = problems({"plugins": {"enabled": ["bad-one"]}})

    assert "'bad-one' of greatseal-bad-one 1.0 cannot be imported: ModuleNotFoundError" in problem


@pytest.mark.parametrize(
    ("hook", "reason"),
    [
        ("def routes(self, hots): return []", "hots"),
        ("def rutes(self, host): return []", "unknown hook 'rutes'; did you mean 'routes'?"),
        ("def xyzzy(self, host): return []", "unknown hook 'xyzzy'; greatseal.hookspecs"),
    ],
)
def test_a_hook_that_does_not_fit_is_named(site, hook, reason):
    install(site, "greatseal-odd", f"from greatseal import hookimpl\nclass Plugin:\n    @hookimpl\n    {hook}\n")

    (problem,) = problems({"plugins": {"enabled": ["odd"]}})

    assert "'odd' of greatseal-odd 1.0 has a hook that does not fit" in problem
    assert reason in problem
    assert " object at " not in problem


def test_three_mistakes_give_three_messages(site):
    install(site, "greatseal-good-one", GOOD)

    found = problems(
        {"plugins": {"enabled": ["good-one", "nothing"]}, "server": {"base_url": "http://localhost", "lisen": "x"}, "databse": {}}
    )

    assert len(found) == 3
    assert any("'nothing' is not installed" in problem for problem in found)
    assert any("[server] lisen: unknown key; did you mean 'listen'?" in problem for problem in found)
    assert any("[databse]: unknown section; did you mean 'database'?" in problem for problem in found)


OWNER = """
import msgspec
from greatseal import hookimpl
from greatseal.api.declarations import Owns, Reads
class Settings(msgspec.Struct, frozen=True, kw_only=True):
    colour: {type} = {default}
class Plugin:
    @hookimpl
    def settings(self):
        return [{word}("paint", Settings)]
"""


def test_two_owners_of_one_key_are_named(site):
    install(site, "greatseal-red", OWNER.format(type="str", default="'x'", word="Owns"))
    install(site, "greatseal-blue", OWNER.format(type="str", default="'x'", word="Owns"))

    (problem,) = problems({"plugins": {"enabled": ["red", "blue"]}})

    assert problem == "[paint] colour is owned by red and by blue; one of them must read it"


def test_a_reader_that_disagrees_with_the_owner_is_named(site):
    install(site, "greatseal-red", OWNER.format(type="str", default="'x'", word="Owns"))
    install(site, "greatseal-blue", OWNER.format(type="str", default="'y'", word="Reads"))

    (problem,) = problems({"plugins": {"enabled": ["red", "blue"]}})

    assert "blue reads it as" in problem
    assert "they must agree" in problem


SERVICE = """
from greatseal import hookimpl
from greatseal.api.services import ServiceKey
MINE, OTHER = ServiceKey("{mine}"), ServiceKey("{other}")
class Plugin:
    requires = (OTHER,)
    @hookimpl
    def services(self, host):
        return {{MINE: lambda: "made"}}
"""


def test_a_circle_of_services_is_named(site):
    install(site, "greatseal-hen", SERVICE.format(mine="egg", other="hen"))
    install(site, "greatseal-egg", SERVICE.format(mine="hen", other="egg"))

    found = problems({"plugins": {"enabled": ["hen", "egg"]}})

    assert any("in a circle: hen -> egg -> hen" in problem for problem in found)


def test_a_service_without_provider_is_named(site):
    install(site, "greatseal-hen", SERVICE.format(mine="egg", other="seed"))

    (problem,) = problems({"plugins": {"enabled": ["hen"]}})

    assert "'hen' requires the service 'seed', which no enabled plugin provides" in problem


ROUTE = """
from greatseal import hookimpl
from greatseal.api.http import Route, Reply, Session
async def answer(call):
    return Reply.text("x")
class Plugin:
    @hookimpl
    def routes(self, host):
        return [Route("GET", "/same", answer{extra})]
"""


def test_a_route_claimed_twice_names_both(site):
    install(site, "greatseal-red", ROUTE.format(extra=""))
    install(site, "greatseal-blue", ROUTE.format(extra=""))

    (problem,) = problems({"plugins": {"enabled": ["red", "blue"]}})

    assert "/same" in problem
    assert "red" in problem
    assert "blue" in problem


def test_a_route_whose_rule_has_no_scheme_stops_the_start(site):
    install(site, "greatseal-red", ROUTE.format(extra=", auth=Session()"))

    (problem,) = problems({"plugins": {"enabled": ["red"]}})

    assert "Session" in problem


def test_stevedore_does_not_choose_from_its_cache(site, monkeypatch, tmp_path):
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    install(site, "greatseal-good-one", GOOD)

    Kernel({**BASE, "plugins": {"enabled": ["good-one"]}})

    assert not cache.exists()
