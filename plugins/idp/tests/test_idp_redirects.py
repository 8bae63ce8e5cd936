"""Redirect URIs: which may be registered, and when a request's is a registered one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.clients import InvalidRedirectUri
from greatseal_idp.clients.redirects import check_redirect_uri, matches

GOOD = (
    "https://app.example/cb",
    "https://app.example",
    "https://app.example:8443/cb?x=1&y=%20",
    "https://[2001:db8::1]/cb",
    "http://localhost/cb",
    "http://localhost:3000",
    "http://127.0.0.1:65535/cb?a=b",
    "http://[::1]:1/cb",
    "https://xn--bcher-kva.example/cb",
)
BAD = (
    "",
    "/cb",
    "app.example/cb",
    "https:app.example",
    "https:///cb",
    "https://",
    "HTTPS://app.example/cb",
    "https://app.example/cb#top",
    "https://app.example/cb#",
    "https://*.app.example/cb",
    "https://app.example/*",
    "https://app.example:0/cb",
    "https://app.example:65536/cb",
    "https://app.example:/cb",
    "https://app.example:80:80/cb",
    "https://[::1",
    "https://[fe80::1%25eth0]/cb",
    "https://[1.2.3.4]/cb",
    "https://büchner.example/cb",
    "https://app.example/%zz",
    "https://app.example/%2",
    "https://app.example/a b",
    "https://app%2eexample/cb",
    "https://app.example%40evil.example/cb",
    "https://app.example/" + "a" * 2048,
)


@pytest.mark.parametrize("uri", GOOD)
def test_idp_022_https_and_http_loopback_uris_are_registered(uri: str) -> None:
    check_redirect_uri(uri)


@pytest.mark.parametrize("uri", BAD)
def test_idp_022_what_is_no_plain_absolute_uri_is_refused(uri: str) -> None:
    with pytest.raises(InvalidRedirectUri) as refusal:
        check_redirect_uri(uri)
    assert uri == "" or uri not in refusal.value.detail


@pytest.mark.parametrize(
    "uri",
    [
        "https://app.example@evil.example/",
        "https://a@b@app.example/cb",
        "https://user:pw@app.example/",
        "http://localhost@evil.example/",
        "https://app.example:x@evil.example/cb",
    ],
)
def test_s002_user_information_is_refused_at_the_registration(uri: str) -> None:
    with pytest.raises(InvalidRedirectUri):
        check_redirect_uri(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "https://app.example\\@evil.example/",
        "https:\\\\app.example/",
        "https://app.example/c\tb",
        "https://app.example/cb\n",
        "\x00https://app.example/cb",
        " https://app.example/cb",
        "https://app.example/cb ",
        "https://\uff41pp.example/cb",
        "https://app.example/cb\u2028",
    ],
)
def test_s003_backslashes_controls_blanks_and_full_width_letters_are_refused(uri: str) -> None:
    with pytest.raises(InvalidRedirectUri):
        check_redirect_uri(uri)
    assert not matches(["https://app.example/cb"], uri)


@pytest.mark.parametrize("path", ["/cb/..", "/cb/../x", "/%2e%2e/cb", "/cb/%2e%2e/x", "/cb/%2E./x", "/cb/./x", "/./cb"])
def test_s004_dot_segments_are_refused_and_never_match(path: str) -> None:
    with pytest.raises(InvalidRedirectUri):
        check_redirect_uri(f"https://app.example{path}")
    assert not matches(["https://app.example/cb", "https://app.example/x"], f"https://app.example{path}")


@pytest.mark.parametrize("suffix", ["/..;/", "//", "/", "?x=1", "?", "#x", "#", "%2f", "/x"])
def test_s001_only_the_same_string_matches(suffix: str) -> None:
    assert not matches(["https://app.example/cb"], f"https://app.example/cb{suffix}")


@pytest.mark.parametrize(
    "asked",
    [
        "https://app.example./cb",
        "https://app.example:443/cb",
        "https://APP.example/cb",
        "HTTPS://app.example/cb",
        "https://app.example/CB",
        "http://app.example/cb",
        "https://app.example/c%62",
        "https://app.example/c",
        "https://app.example",
        "https://app.example//cb",
        "https://app.example.evil.example/cb",
        "https://evilapp.example/cb",
    ],
)
def test_s001_nothing_is_normalised(asked: str) -> None:
    assert not matches(["https://app.example/cb"], asked)


@pytest.mark.parametrize(
    "uri",
    [
        "http://app.example/cb",
        "http://localhost.evil.example/cb",
        "http://127.0.0.1.nip.io/cb",
        "http://evil-localhost/cb",
        "http://localhost./cb",
        "http://[::2]/cb",
    ],
)
def test_s005_http_hosts_that_only_look_like_loopback_are_refused(uri: str) -> None:
    with pytest.raises(InvalidRedirectUri, match="http is for the hosts"):
        check_redirect_uri(uri)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "127.1", "2130706433", "127.0.0.2", "0x7f.1", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]", "LOCALHOST", "Localhost"]
)
def test_s006_http_is_for_the_three_literal_hosts_alone(host: str) -> None:
    with pytest.raises(InvalidRedirectUri, match="http is for the hosts"):
        check_redirect_uri(f"http://{host}/cb")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_s006_the_port_of_a_loopback_uri_may_vary_and_nothing_else(host: str) -> None:
    registered = [f"http://{host}:3000/cb?x=1"]

    assert matches(registered, f"http://{host}:51004/cb?x=1")
    assert matches(registered, f"http://{host}/cb?x=1")
    for other in (
        f"http://{host}:51004/cb",
        f"http://{host}:51004/cb?x=2",
        f"http://{host}:51004/CB?x=1",
        f"http://{host}:51004/cb/?x=1",
        f"http://{host}:x/cb?x=1",
        f"http://{host}:51004/cb?x=1#f",
        f"https://{host}:51004/cb?x=1",
        f"http://{host}:0/cb?x=1",
        f"http://{host}:65536/cb?x=1",
        f"http://{host}:51004\\@evil.example/cb?x=1",
        f"http://{host}:51004@evil.example/cb?x=1",
        f"http://{host}.evil.example/cb?x=1",
    ):
        assert not matches(registered, other), other


def test_s006_one_loopback_host_is_not_another() -> None:
    hosts = ("localhost", "127.0.0.1", "[::1]")
    assert [(a, b) for a in hosts for b in hosts if matches([f"http://{a}:3000/cb"], f"http://{b}:3000/cb")] == [(a, a) for a in hosts]


def test_b1_the_port_of_an_https_uri_is_part_of_it() -> None:
    assert not matches(["https://localhost:3000/cb"], "https://localhost:3001/cb")


@pytest.mark.parametrize(
    "uri",
    [
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        "myapp://cb",
        "com.example.app:/cb",
        "urn:ietf:wg:oauth:2.0:oob",
        "ftp://app.example/",
    ],
)
def test_s007_other_schemes_are_refused(uri: str) -> None:
    with pytest.raises(InvalidRedirectUri):
        check_redirect_uri(uri)


@pytest.mark.parametrize("uri", ["com.example.app:/cb", "com.example.app:cb", "com.example-2.app:/cb?x=1"])
def test_r33_private_use_schemes_only_with_their_switch(uri: str) -> None:
    check_redirect_uri(uri, private_use=True)
    assert matches([uri], uri)


@pytest.mark.parametrize(
    "uri",
    [
        "javascript:alert(1)",
        "myapp:/cb",
        "com.example.app://host/cb",
        "com..app:/cb",
        "com.example.app:",
        "data:x",
        "com.example.app:/cb#x",
    ],
)
def test_r33_a_private_use_scheme_is_a_reversed_domain_without_authority(uri: str) -> None:
    with pytest.raises(InvalidRedirectUri):
        check_redirect_uri(uri, private_use=True)


@given(st.text(max_size=200))
def test_any_text_is_accepted_or_refused_and_matches_itself_alone(text: str) -> None:
    try:
        check_redirect_uri(text, private_use=True)
    except InvalidRedirectUri:
        return
    assert text.isascii()
    assert text.isprintable()
    assert matches([text], text)
    assert not matches([text], f"{text}x")


@given(st.sampled_from(GOOD), st.integers(0, 60), st.characters())
def test_one_character_more_never_matches(uri: str, at: int, character: str) -> None:
    asked = uri[:at] + character + uri[at:]
    if matches([uri], asked):
        assert uri.startswith("http://")
        assert character.isdigit() or character == ":"
