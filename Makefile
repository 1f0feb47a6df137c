# One place for the commands of this repository; `make help` lists them.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo 0.0.0-dev)
BIN     := build/bin
# The command line's own manual generator is not needed in the binaries. The second
# tag is the version that an older updater reads in the build information of a
# newer one.
TAGS    := urfave_cli_no_docs,release_$(subst -,_,$(VERSION:v%=%))
LDFLAGS := -s -w -X main.releaseVersion=$(VERSION) -X main.version=$(VERSION)
export CGO_ENABLED = 0

.PHONY: help build packages repository test test-packages test-hosts test-faults test-nightly test-mutants lint demo bench bench-backup fuzz clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

build: ## build both programs into build/bin
	$(GO) build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -o $(BIN)/teleport-update ./cmd/teleport-update
	$(GO) build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -o $(BIN)/teleport-find ./cmd/teleport-find

packages: ## deb, rpm and bare programs, amd64 and arm64, into build/packages
	$(GO) run ./packaging/mkpackages

repository: packages ## signed apt and yum repositories of the packages, in build/repository (KEY=FILE or GPG_KEY=FINGERPRINT, URL=…)
	$(GO) build -trimpath -ldflags '-s -w' -o $(BIN)/mkrepository ./packaging/mkrepository
	$(BIN)/mkrepository $(if $(KEY),--key '$(KEY)') $(if $(GPG_KEY),--gpg-key '$(GPG_KEY)') $(if $(URL),--url '$(URL)') $(REPOSITORY_FLAGS)

test: test-packages test-hosts ## everything: packages, then real hosts (as root; installs what it needs)

# What the tests of packages and lint run, where it is missing. Hosts install theirs.
TOOLS := sqlite3 shellcheck busybox gpg gpg-agent gpgv
.PHONY: tools
tools:
	@missing=; for t in $(TOOLS); do command -v $$t >/dev/null || missing="$$missing $$t"; done; \
	  [ -z "$$missing" ] || { apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing >/dev/null; } || \
	  echo "*** not everything is tested: apt-get install$$missing"

test-packages: tools ## the packages alone
	$(GO) test ./...

test-hosts: ## real systemd hosts in containers (as root)
	@[ "$$(id -u)" = 0 ] || printf '\n*** NOT TESTED: real hosts need root; run "make test" as root ***\n\n'
	$(GO) test -tags hosts -count=1 -p 1 -timeout 40m ./integration/...

CAMPAIGN := FAULTS=all $(GO) test -tags hosts -count=1 -v
test-faults: ## the whole campaigns of faults (as root), each of them whatever the one before found
	@failed=0; \
	$(CAMPAIGN) -timeout 60m -run 'TestASwitchKilledAtEveryCall|TestPowerCutsOfWholeHosts' ./integration || failed=1; \
	$(CAMPAIGN) -timeout 40m ./integration/faults || failed=1; \
	$(CAMPAIGN) -timeout 40m -run TestAPowerCut ./integration/power || failed=1; \
	$(CAMPAIGN) -timeout 20m ./integration/walks || failed=1; \
	$(CAMPAIGN) -timeout 15m ./integration/hostile || failed=1; \
	exit $$failed

test-nightly: ## take-overs of packages, every state that a recorded disk went through, other dnf (as root)
	@failed=0; \
	$(CAMPAIGN) -timeout 30m -run 'TestATakeOverKilledAtEveryCall|TestPowerCutsOfTakeOvers' ./integration || failed=1; \
	$(CAMPAIGN) -timeout 4h -run TestEveryState ./integration/power || failed=1; \
	$(CAMPAIGN) -timeout 30m ./integration/repository || failed=1; \
	FAULTS=all $(GO) test -count=1 -timeout 30m -run TestAPublicationCutOff ./integration/repository || failed=1; \
	exit $$failed

test-mutants: ## remove each sync and journal write, swap each pair of steps: is it caught? (as root)
	$(GO) run ./integration/mutants

lint: tools ## formatting, vet, staticcheck, shell scripts
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not formatted: $$out"; exit 1; }
	$(GO) vet -tags hosts ./...
	$(GO) tool -modfile=tools.mod staticcheck -tags hosts ./...
	shellcheck -s sh packaging/*/deb/* packaging/*/rpm/* packaging/*/*.sh

demo: ## the whole story on a real host, step by step (as root)
	$(GO) run ./integration/demo

bench: ## updates and no-ops against other designs, as ratios
	$(GO) run ./integration/bench

bench-backup: ## database backups against the sqlite3 shell
	$(GO) run ./integration/backupbench

fuzz: ## each fuzz target for a minute
	@for p in $$($(GO) list ./...); do for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	  $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 60s $$p || exit 1; done; done

clean: ## remove what was built
	rm -rf build
