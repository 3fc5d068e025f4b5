# Targets for people; .ci/run calls `make test` and nothing else.

CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto

.PHONY: help test fmt lint unit doc deny load bless

help: ## Show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

test: fmt lint unit doc ## Everything: formatting, lints, all tests, documentation

fmt: ## Formatting
	$(CARGO) fmt --check

lint: ## Lints of Cargo.toml and clippy.toml
	$(CARGO) clippy --all-targets --locked -- -D warnings

unit: ## Unit, property and end-to-end tests
	$(CARGO) test --locked

doc: ## Documentation
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --locked --document-private-items

deny: ## Licences, bans and sources of dependencies (needs cargo-deny)
	$(CARGO) deny --locked check bans licenses sources

load: ## The tests of replacement and of hostile clients, ten times as long, with their figures
	MESHGATE_LOAD_FACTOR=10 $(CARGO) test --locked --test it -- --nocapture --test-threads 1 replacement:: hostile::

bless: ## Write the shipped JSON Schema and snapshots anew
	MESHGATE_BLESS=1 $(CARGO) test --locked schema
