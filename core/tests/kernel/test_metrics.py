"""Counters and histograms, and who may read them."""

import re

import aiohttp
import pytest

from greatseal.api.problems import StartProblem
from greatseal.kernel.exposition import text_of
from greatseal.kernel.kernel import Kernel
from greatseal.kernel.metrics import MOST, Metrics
from greatseal.testing.distributions import install
from greatseal.testing.service import document

COUNTING = """
from greatseal import hookimpl
from greatseal.api.http import Reply, Route

class Plugin:
    @hookimpl
    def routes(self, host):
        asked = host.metrics.counter("greatseal_counting_asked_total", "Asked.", ("whom",))
        async def ask(call):
            asked.add(1, call.path["whom"])
            await host.db.write(lambda tx: None)
            return Reply.empty()
        return [Route("GET", "/ask/{whom}", ask)]
"""


def test_the_text_is_that_of_the_exposition_format():
    metrics = Metrics()
    asked = metrics.counter("asked_total", "How often.", ("whom",))
    took = metrics.histogram("took_seconds", "How long.", bounds=(1, 0.5))
    asked.add(1, "b")
    asked.add(2, 'a"\\\n')
    for value in (0.5, 0.75, 7):
        took.observe(value)

    assert text_of(metrics)[0].splitlines() == [
        "# HELP asked_total How often.",
        "# TYPE asked_total counter",
        'asked_total{whom="a\\"\\\\\\n"} 2.0',
        'asked_total{whom="b"} 1.0',
        "# HELP took_seconds How long.",
        "# TYPE took_seconds histogram",
        'took_seconds_bucket{le="0.5"} 1.0',
        'took_seconds_bucket{le="1.0"} 2.0',
        'took_seconds_bucket{le="+Inf"} 3.0',
        "took_seconds_count 3.0",
        "took_seconds_sum 8.25",
    ]


@pytest.mark.parametrize(("name", "labels"), [("Bad-Name", ()), ("good", ("le",)), ("good", ("a b",)), ("taken", ())])
def test_a_name_that_is_none_or_taken_is_a_mistake(name, labels):
    metrics = Metrics()
    metrics.counter("taken", "Taken.")

    with pytest.raises(ValueError, match=f"metric {name}"):
        metrics.histogram(name, "x", labels)


def test_labels_that_do_not_fit_are_a_mistake():
    metrics = Metrics()

    with pytest.raises(ValueError, match="has the labels"):
        metrics.counter("a", "x", ("one",)).add(1)
    with pytest.raises(ValueError, match="has the labels"):
        metrics.histogram("b", "x").observe(1, "one")


def test_a_label_that_anybody_may_choose_does_not_fill_the_memory():
    metrics = Metrics()
    counter, histogram = metrics.counter("a", "x", ("who",)), metrics.histogram("b", "x", ("who",))

    for number in range(MOST + 100):
        counter.add(1, str(number))
        histogram.observe(1, str(number))
    assert len(re.findall("^a_total{", text_of(metrics)[0], re.MULTILINE)) == MOST
    assert len(re.findall("^b_count", text_of(metrics)[0], re.MULTILINE)) == MOST


@pytest.fixture
def feature(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    return install(tmp_path, "greatseal-counting", COUNTING)


async def get(url, **headers):
    async with aiohttp.ClientSession() as http, http.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


async def test_the_kernel_and_plugins_count_and_the_admin_listener_shows(start_service, feature):
    service = await start_service(feature, admin={"listen": "127.0.0.1:0"})
    for path in ("/ask/ann", "/ask/ann", "/no/such", "/no/other"):
        await get(service.url + path)

    status, text = await get(f"http://{service.addresses['admin']}/metrics")

    assert status == 200
    assert 'greatseal_counting_asked_total{whom="ann"} 2.0\n' in text
    assert 'greatseal_request_seconds_count{method="GET",route="/ask/{whom}",status="204"} 2.0\n' in text
    assert 'greatseal_request_seconds_count{method="",route="unmatched",status="404"} 2.0\n' in text
    assert re.search(r'greatseal_write_seconds_count{outcome="committed"} [1-9]', text)
    assert 'greatseal_job_seconds_count{job="core-clock",outcome="done"} 1.0\n' in text
    assert (await get(f"{service.url}/metrics"))[0] == 404


async def test_on_another_address_a_scraper_proves_itself(start_service, feature, tmp_path):
    trustme = pytest.importorskip("trustme")
    issued = trustme.CA().issue_cert("localhost")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(0o600)
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    tls = {"tls_cert_file": str(tmp_path / "cert.pem"), "tls_key_file": str(tmp_path / "key.pem")}
    service = await start_service(feature, admin={"listen": "0.0.0.0:0", "metrics_token": "scraper", **tls})
    url = f"https://127.0.0.1:{service.addresses['admin'].rpartition(':')[2]}/metrics"

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as http:
        for headers, status in (({}, 401), ({"Authorization": "Bearer other"}, 401), ({"Authorization": "Bearer scraper"}, 200)):
            async with http.get(url, headers=headers) as answer:
                assert answer.status == status


def test_a_plain_admin_listener_that_others_reach_is_refused(tmp_path):
    with pytest.raises(StartProblem, match=r"\[admin\] listen: others reach '0\.0\.0\.0:9000', without TLS"):
        Kernel(document(tmp_path, [], admin={"listen": "0.0.0.0:9000"}))
