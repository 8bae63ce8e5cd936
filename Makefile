# `make run` serves config/dev.toml; `make test` runs the tests. Nothing is installed on the machine, but by `make peers`; `make peers-all` builds
# clients in Go, Rust and Java too, and fetches Keycloak and a newer SSSD's.

PYTHON ?= python3
UV = .uv/bin/uv
SYNC = $(UV) sync --quiet --python $(PYTHON)
# The group kerberos builds the GSSAPI of Python: a machine that cannot do without. Under CI it has to.
KERBEROS := $(shell command -v krb5-config >/dev/null && command -v cc >/dev/null && echo yes)
SYNC_ALL = $(SYNC) --all-groups $(if $(KERBEROS),,--no-group kerberos)
NODE_PEERS = tests/peers/node
NODE_BENCH = tests/bench/peer
SOURCES = core/src $(if $(KERBEROS),plugins/*/src,$(filter-out plugins/gssapi/src,$(wildcard plugins/*/src))) examples/*/src
NEEDS_KERBEROS = plugins/gssapi tests/rig/initiator.py

export UV_SYSTEM_CERTS = 1
export UV_COMPILE_BYTECODE = 1
unexport PYTHONDONTWRITEBYTECODE VIRTUAL_ENV

.DEFAULT_GOAL = help
.PHONY: help kerberos run test test-faults mutants peers peers-all lint bench bench-peer bench-instructions docs messages lock clean

help:
	@echo 'make run | test | test-faults | mutants | peers | peers-all | lint | bench | bench-peer | bench-instructions | docs | messages | lock | clean'

run: $(UV)
	@$(SYNC) --inexact --no-default-groups
	@exec .venv/bin/greatseal serve -c config/dev.toml

kerberos:
ifeq ($(KERBEROS),)
	@echo 'krb5-config or cc is missing, so $(NEEDS_KERBEROS) are left out: apt install libkrb5-dev gcc python3-dev' >&2
	@test -z "$$CI"
endif

test: kerberos $(UV)
	@$(SYNC_ALL)
	@.venv/bin/pytest -n auto --maxschedchunk 2 $(ARGS)

# What reads bytes from outside, with 10,000 inputs for each test that draws them.
PARSERS := examples/email-reply-00/tests/test_mail_scripts.py core/tests/jose/test_jwe.py core/tests/test_principals.py $(wildcard $(patsubst %,plugins/*/tests/test_%.py,acme_jws acme_key_change \
	acme_renewal_info acme_revocation ca_admin_certificates ca_csr ca_ocsp caa ciba device_flow dns_01 dns_persist_01 dpop \
	eab_binding email_reply_00 federation_chains federation_clients federation_policy $(if $(KERBEROS),gssapi_doctor gssapi_keytab) hbac_evaluation \
	identity_api idp_ctl_keycloak ipa_names ipa_passkeys jwt_bearer mtc_anchors mtc_entries mtc_formats mtc_note mtc_structures mtc_tiles mtc_upload mtc_wire notices onion_csr_01 onions \
	otp_arithmetic passkey_attestation passkey_parts rar registration_rules request_objects san_kerberos tkauth_01 tls_alpn_01 token_authority token_exchange))

test-faults: $(UV)
	@$(SYNC_ALL)
	@GREATSEAL_ALL_FAULTS=1 .venv/bin/pytest -n auto --timeout 900 tests/faults $(PARSERS) $(ARGS)

mutants: $(UV)
	@$(SYNC_ALL)
	@.venv/bin/python tests/architecture/mutants.py $(ARGS)

peers: $(NODE_PEERS)/node_modules/.package-lock.json
	@tests/rig/install-debian.sh

peers-all: peers
	@tests/rig/install-debian.sh samba samba-ad-provision samba-dsdb-modules samba-vfs-modules
	@if command -v go >/dev/null; then cd tests/peers/go && go build -o bin/ ./... tool; else echo 'Go is not installed: the tests with its clients are skipped' >&2; fi
	@if command -v cargo >/dev/null; then for crate in tests/peers/rust/*/Cargo.toml; do cargo build --quiet --locked --manifest-path $$crate || exit; done; else echo 'Rust is not installed: the tests with its clients are skipped' >&2; fi
	@if command -v mvn >/dev/null; then for pom in tests/peers/java/*/pom.xml; do mvn -q -B -f $$pom package || exit; done && tests/rig/keycloak.sh tests/peers/java/keycloak/target; else echo 'Maven is not installed: the tests with Keycloak and with clients in Java are skipped' >&2; fi
	@tests/rig/oidc-child.sh tests/peers/sssd

$(NODE_PEERS)/node_modules/.package-lock.json $(NODE_BENCH)/node_modules/.package-lock.json: %/node_modules/.package-lock.json: %/package-lock.json $(UV)
	@$(SYNC_ALL)
	@PATH="$(CURDIR)/.venv/bin:$$PATH" npm ci --prefix $* --silent --ignore-scripts
	@touch $@

lint: kerberos $(UV)
	@$(SYNC_ALL)
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy $(wildcard $(SOURCES))
	for program in examples/email-reply-00/*.py; do .venv/bin/mypy $$program || exit; done
	.venv/bin/mypy $(if $(KERBEROS),,--exclude tests/rig/initiator.py) tests/bench tests/peers tests/rig tests/conftest.py tests/architecture/typing \
	  tests/architecture/tick.py tests/architecture/decisive.py tests/architecture/mutants.py tests/architecture/trials.py
	PYTHONPATH=plugins/gssapi/src:plugins/bundle-all/src .venv/bin/lint-imports
	.venv/bin/sphinx-build -q -W --keep-going docs docs/_build

bench: $(UV)
	@$(SYNC_ALL)
	@PYTHONPATH=tests .venv/bin/python -m bench $(ARGS)

bench-peer: $(NODE_BENCH)/node_modules/.package-lock.json
	@PATH="$(CURDIR)/.venv/bin:$$PATH" PYTHONPATH=tests .venv/bin/python -m bench.peer $(ARGS)

bench-instructions: $(UV)
	@$(SYNC_ALL)
	@PYTHONPATH=tests .venv/bin/python -m bench.instructions $(ARGS)

docs: $(UV)
	@$(SYNC_ALL)
	.venv/bin/sphinx-build -W --keep-going docs docs/_build

messages: $(UV)
	@$(SYNC_ALL)
	@.venv/bin/python tests/rig/messages.py $(ARGS)

lock: $(UV)
	@$(PYTHON) tests/rig/lock.py $(UV)

clean:
	rm -rf .venv .uv uv.lock docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# uv in a folder of its own: by venv, else by pip alone.
$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo 'Greatseal needs Python 3.11 or newer as python3; name another one with: make PYTHON=/path/to/python $(MAKECMDGOALS)' >&2; exit 2; }
	@rm -rf .uv
	@if $(PYTHON) -m venv .uv >/dev/null 2>&1; then .uv/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.13,<0.14'; \
	elif rm -rf .uv; $(PYTHON) -m pip --version >/dev/null 2>&1; then $(PYTHON) -m pip install --quiet --disable-pip-version-check --target .uv 'uv>=0.13,<0.14'; \
	else echo 'Python has neither venv nor pip: apt install python3-venv' >&2; exit 2; fi
