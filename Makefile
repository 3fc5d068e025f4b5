# Targets for people; .ci/run calls `make test` and nothing else.

CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto

.PHONY: help lab lab-shell test test-no-lab fmt lint unit doc load faults fidelity bench-decision bench bench-peers bench-view bench-audit bench-cluster bench-ha bench-wake fuzz deny compat bless

help: ## Show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

test: fmt lint doc lab unit ## Everything: formatting, lints, all tests, documentation (needs Go 1.26)

test-no-lab: fmt lint doc ## The same without the tests against a real control plane; needs no Go
	@echo 'left out: every test below lab:: (make test has them)'
	$(CARGO) test --workspace --locked -- --skip lab::
	$(CARGO) test --locked --bench decision

lab: ## Build the programs of a real control plane into target/lab, those that are missing (needs Go 1.26)
	@tests/lab/build $(PROGRAMS)

lab-shell: lab ## A shell with kubectl, a cluster of its own and a meshgate of three replicas; CMD='kubectl get nodes' runs that instead
	@$(CARGO) build --locked --bins --example lab --example kubelet --example injector --example load
	@target/debug/examples/lab shell --network $(if $(CMD),-c "$$LAB_COMMAND")
lab-shell: PROGRAMS = kubernetes nft helm
lab-shell: export LAB_COMMAND = $(value CMD)

fmt: ## Formatting
	$(CARGO) fmt --all --check

lint: ## Clippy, with the lints in Cargo.toml and clippy.toml
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# One after the other: hostile clients and a control plane together are too much for two cores.
unit: ## Unit, property and end-to-end tests
	$(CARGO) test --workspace --locked -- --skip lab::
	$(CARGO) test --locked --test it -- lab::
	$(CARGO) test --locked --bench decision

doc: ## Documentation
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --document-private-items

bench-decision: ## What a decision costs, against skipping the same JSON
	$(CARGO) bench --locked --bench decision

bench: ## What a request costs, against a no-op server (needs h2load, curl, taskset)
	$(CARGO) build --locked --profile dist --bins --example bench-http --example noop
	target/dist/examples/bench-http

bench-peers: ## The same beside a controller-runtime handler (needs Go as well)
	cd benches/peers && CGO_ENABLED=0 go build -trimpath -o ../../target/peers/controller-runtime .
	$(CARGO) build --locked --profile dist --bins --example bench-http --example noop
	target/dist/examples/bench-http --peer target/peers/controller-runtime

bench-view: lab ## What the view of a large cluster costs in memory
	$(CARGO) build --locked --profile dist --bins
	MESHGATE_PROGRAM=$(CURDIR)/target/dist/meshgate $(CARGO) test --locked --test it -- --ignored --nocapture lab::view_memory lab::wake::memory

bench-audit: lab ## What an audit of PODS=100000 pods takes in time and memory
	$(CARGO) build --locked --profile dist --bins
	MESHGATE_PROGRAM=$(CURDIR)/target/dist/meshgate MESHGATE_AUDIT_PODS=$(or $(PODS),100000) \
	  $(CARGO) test --locked --test it -- --ignored --nocapture lab::audit

bench-cluster: lab ## What meshgate costs a cluster's API server, and how soon after its injector a pod comes
	$(CARGO) build --locked --profile dist --bins
	$(CARGO) build --locked --example lab --example injector --example bench-cluster
	target/debug/examples/bench-cluster target/dist/meshgate

bench-ha: lab ## What a restart, a rotation, a lost node and a cold start cost those who create pods, beside a plain webhook
	$(CARGO) build --locked --bins
	$(CARGO) test --locked --test it -- --ignored --nocapture --test-threads 1 lab::availability::bench

bench-wake: lab ## When the pods of 300 owners come that were refused for three minutes, with wake and without
	$(CARGO) build --locked --bins --examples
	$(CARGO) test --locked --test it -- --ignored --nocapture --test-threads 1 lab::wake::bench

fuzz: ## Every fuzz target for SECONDS=60 each (needs cargo-fuzz)
	SECONDS_EACH=$(or $(SECONDS),60) fuzz/run

# Offline is no fault of the dependencies; an advisory that was found is.
deny: ## Licences, bans, sources and advisories of dependencies (needs cargo-deny)
	$(CARGO) deny --locked check bans licenses sources
	@if $(CARGO) deny --locked fetch db; \
	then $(CARGO) deny --frozen check advisories; \
	else echo 'deny: warning: the database of advisories was not reachable, so advisories are unchecked; all else passed' >&2; fi

# What of the lab depends on the API server's version.
COMPAT = lab::control_plane lab::registration lab::enforcement lab::break_glass lab::rights::fence lab::held_back \
  lab::switching lab::uninstall lab::view:: lab::chart::applied lab::fidelity::rendered

compat: lab ## Kubernetes 1.30, 1.33 and 1.36, Helm 3, the image's root and kube-score; the first time builds for an hour
	for version in 1.30 1.33 1.36; do \
	  echo "Kubernetes $$version"; \
	  MESHGATE_LAB_KUBERNETES=$$version $(CARGO) test --locked --test it -- $(COMPAT) || exit; \
	done
	MESHGATE_LAB_HELM=helm-3 $(CARGO) test --locked --test it -- lab::chart
	$(CARGO) build --locked --profile dist --bins
	MESHGATE_PROGRAM=$(CURDIR)/target/dist/meshgate $(CARGO) test --locked --test it -- --ignored image::
	# docs/install.md says why these three are as they are.
	target/lab/bin/kube-score score manifests/install.yaml --ignore-test container-security-context-user-group-id \
	  --ignore-test pod-networkpolicy --ignore-test container-image-pull-policy
compat: PROGRAMS = kubernetes kwok helm compat

faults: lab ## The test of what fails around a registered meshgate with etcd stopped for a whole minute, and its figures
	MESHGATE_LOAD_FACTOR=4 $(CARGO) test --locked --test it -- --nocapture lab::faults

load: ## The tests of replacement and of hostile clients, ten times as long, with their figures
	MESHGATE_LOAD_FACTOR=10 $(CARGO) test --locked --test it -- --nocapture --test-threads 1 replacement:: hostile::

fidelity: lab ## What injectors do against what profiles say, on PAIRS=20000 random pairs each, with the counts
	MESHGATE_FIDELITY_PAIRS=$(or $(PAIRS),20000) $(CARGO) test --locked --test it -- --nocapture lab::fidelity

bless: ## Write the shipped JSON Schema, manifests and snapshots anew (needs `make lab PROGRAMS=helm`)
	MESHGATE_BLESS=1 $(CARGO) test --locked --package meshgate-core --test it -- schema
	MESHGATE_BLESS=1 INSTA_UPDATE=always $(CARGO) test --locked --test it -- schema cli::help render::every_preset lab::chart::rendered
