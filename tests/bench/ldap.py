"""``python -m bench.ldap`` in tests: sign-ins with a directory of 100,000 people and 10,000 groups in slapd, and tokens while it hangs.

It takes about two minutes and is not part of `make bench`.
"""

import argparse
import base64
import hashlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import requests
from bench.wrk import Target, Workload, installed, run
from rig.provider import Provider
from rig.slapd import DATA, REALM, SERVICE, SERVICE_PASSWORD, SUFFIX, Slapd

GROUPS_OF_ONE = 10
SIGN_INS = 300
SECONDS = 5
ROUNDS = 3
USERS, GROUPS = f"cn=users,cn=accounts,{SUFFIX}", f"cn=groups,cn=accounts,{SUFFIX}"
PASSWORD = "password of everybody"


def entries(people: int, groups: int) -> Iterator[str]:
    """LDIF of people, each in some groups, and of groups with those members."""
    digest = base64.b64encode(hashlib.sha1(PASSWORD.encode(), usedforsecurity=False).digest()).decode()
    members: dict[int, list[int]] = {group: [] for group in range(groups)}
    for number in range(people):
        own = sorted({(number * 7919 + place * 104_729) % groups for place in range(GROUPS_OF_ONE)})
        for group in own:
            members[group].append(number)
        named = "".join(f"memberOf: cn=group{group:05},{GROUPS}\n" for group in own)
        yield (
            f"dn: uid=user{number:06},{USERS}\nobjectClass: inetOrgPerson\nobjectClass: inetUser\nobjectClass: posixAccount\n"
            f"objectClass: krbPrincipalAux\nuid: user{number:06}\ncn: User {number}\nsn: {number}\nmail: user{number}@chancery.test\n"
            f"uidNumber: {200_000 + number}\ngidNumber: {200_000 + number}\nhomeDirectory: /home/{number}\n"
            f"krbPrincipalName: user{number:06}@{REALM}\nkrbCanonicalName: user{number:06}@{REALM}\n"
            f"userPassword: {{SHA}}{digest}\n{named}\n"
        )
    for group, inside in members.items():
        those = "".join(f"member: uid=user{number:06},{USERS}\n" for number in inside)
        yield (
            f"dn: cn=group{group:05},{GROUPS}\nobjectClass: groupOfNames\nobjectClass: nestedGroup\nobjectClass: ipaUserGroup\n"
            f"cn: group{group:05}\n{those or f'member: uid=admin,{USERS}{chr(10)}'}\n"
        )


def configured(provider: Provider, slapd: Slapd) -> None:
    text = provider.configuration.read_text().replace("[server]\n", f'[server]\nrealm = "{REALM}"\nauth_rate_limit = 0\n')
    ipa = f'[ipa]\nldap_uri = "{slapd.uri}"\nbase_dn = "{SUFFIX}"\nstart_tls = false\nbind_dn = "{SERVICE}"\n'
    provider.configuration.write_text(f'{text}\n{ipa}bind_password = "{SERVICE_PASSWORD}"\n')


def sign_in(provider: Provider, name: str) -> float:
    """Milliseconds of one."""
    begun = time.perf_counter()
    answer = requests.post(f"{provider.issuer}/api/auth/login", json={"username": name, "password": PASSWORD}, timeout=30)
    took = time.perf_counter() - begun
    answer.raise_for_status()
    return took * 1000


def told(what: str, figures: list[float]) -> None:
    ordered = sorted(figures)
    print(f"{what}: p50 {statistics.median(ordered):.1f} ms, p99 {ordered[int(len(ordered) * 0.99) - 1]:.1f} ms")


def tokens(provider: Provider, pid: int, folder: Path, slapd: Slapd) -> None:
    """client_credentials, with the directory answering and hanging by turns; somebody signs in all the time."""
    registered = provider.register()
    login = registered["client_id"], registered["client_secret"]
    workload = Workload(path="/token", expected="access_token", bodies=["grant_type=client_credentials"], login=login)
    run(Target(provider.base_url, pid), workload, 1, folder)
    found: dict[str, list[tuple[float, float]]] = {"answers": [], "hangs": []}
    for _ in range(ROUNDS):
        for state, measured in found.items():
            if state == "hangs":
                slapd.pause()
                requests.post(f"{provider.issuer}/api/auth/login", json={"username": "user000001", "password": PASSWORD}, timeout=30)
            _, figures = run(Target(provider.base_url, pid), workload, SECONDS, folder)
            slapd.resume()
            measured.append((figures.p50_ms, figures.p99_ms))
    for state, measured in found.items():
        p50, p99 = (statistics.median(one) for one in zip(*measured, strict=True))
        print(f"client_credentials, 32 connections, the directory {state}: p50 {p50:.2f} ms, p99 {p99:.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--groups", type=int, default=10_000)
    asked = parser.parse_args()
    if missing := Slapd.missing():
        sys.exit(f"slapd cannot run: apt install {missing}")
    with tempfile.TemporaryDirectory(prefix="gs-ldap-", dir="/tmp") as name:
        folder = Path(name)
        (folder / "slapd").mkdir()
        (folder / "provider").mkdir()
        seed = folder / "seed.ldif"
        with seed.open("w") as file:
            file.write((DATA / "seed.ldif").read_text() + "\n")
            file.writelines(entries(asked.people, asked.groups))
        slapd = Slapd(folder / "slapd", seed=seed, max_size=4 * 1024**3, loading=900)
        begun = time.perf_counter()
        with slapd.running():
            print(f"{asked.people} people and {asked.groups} groups, loaded in {time.perf_counter() - begun:.0f} s")
            provider = Provider(folder / "provider")
            configured(provider, slapd)
            with provider.running() as process:
                step = max(1, asked.people // SIGN_INS)
                told(
                    "sign-in, each of another person",
                    [sign_in(provider, f"user{number:06}") for number in range(0, asked.people, step)][1:],
                )
                told("sign-in, of one person", [sign_in(provider, "user000007") for _ in range(SIGN_INS)][1:])
                if installed():
                    tokens(provider, process.pid, folder, slapd)
                else:
                    print("wrk is not installed (apt install wrk): no figures of tokens")


if __name__ == "__main__":
    main()
