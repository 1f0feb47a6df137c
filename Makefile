# One place for the commands of this repository; `make help` lists them.

GO      ?= go
# The toolchain of go.mod, for everything that make runs: its library has no hole that is known and on our
# paths. The line in go.mod alone is ignored if the environment says GOTOOLCHAIN=local.
export GOTOOLCHAIN := $(shell sed -n 's/^toolchain //p' go.mod)
# The version that packages of the commit have, see packaging/version.go.
COMMITS := v=$$(cat packaging/VERSION); \
	case $$v in *-dev) id=$$(TZ=UTC0 git log -1 --abbrev=12 --date=format-local:%Y%m%d%H%M%S --format=git%cd.g%h 2>/dev/null) && v=$${v%dev}$$id; esac; \
	[ -z "$$(git status --porcelain --untracked-files=no 2>/dev/null)" ] || case $$v in *-*) v=$$v.dirty;; *) v=$$v-dirty; esac; echo "$$v"
VERSION ?= $(shell $(COMMITS))
BIN     := build/bin
# The command line's own manual generator is not needed in the binaries. The second
# tag is the version that an older updater reads in the build information of a
# newer one.
TAGS    := urfave_cli_no_docs,release_$(subst -,_,$(VERSION:v%=%))
LDFLAGS := -s -w -X main.releaseVersion=$(VERSION:v%=%) -X main.version=$(VERSION:v%=%)
export CGO_ENABLED = 0

.PHONY: help build packages repository publishers test test-packages test-hosts test-faults test-fleet test-nightly test-rollouts test-cluster test-mutants lint vulncheck demo recording bench bench-find bench-fleet bench-backup figures fuzz clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

build: ## build both programs into build/bin
	$(GO) build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -o $(BIN)/teleport-update ./cmd/teleport-update
	$(GO) build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -o $(BIN)/teleport-find ./cmd/teleport-find

# Says which version was built into build/packages last.
BUILT = build/packages/.built-$(VERSION)
packages: ## deb, rpm and bare programs, amd64 and arm64, into build/packages (KEY=… signs them with a key of gpg's)
	$(GO) run ./packaging/mkpackages
	$(if $(KEY),packaging/sign.sh '$(KEY)')
	@rm -f build/packages/.built-*; touch '$(BUILT)'

# Packages of the commit that are there are not built again.
repository: publishers $(if $(findstring dirty,$(VERSION)),packages,$(if $(wildcard $(BUILT)),,packages)) ## signed apt and yum repositories of the packages, in build/repository (KEY=…, a key of gpg's, URL=…)
	packaging/publish.sh --key '$(KEY)' $(if $(URL),--url '$(URL)')

# Before a minute is spent on packages; publish.sh looks, too.
PUBLISHERS := apt-ftparchive createrepo_c rpmsign gpg gpg-agent
IN_PACKAGES := s/apt-ftparchive/apt-utils/; s/createrepo_c/createrepo-c/; s/rpmsign/rpm/; s/systemd-analyze/systemd/; s/mkfs.ext4/e2fsprogs/; s/mkfs.xfs/xfsprogs/
publishers:
	@[ -n '$(KEY)' ] || { echo "make repository needs KEY=…, a secret key of gpg's that signs, best its fingerprint"; exit 1; }
	@missing=; for t in $(PUBLISHERS); do command -v $$t >/dev/null || missing="$$missing $$t"; done; \
	  [ -z "$$missing" ] || { echo "make repository needs$$missing: apt-get install$$(echo "$$missing" | sed '$(IN_PACKAGES)')"; exit 1; }

# Runs go test and shows what runs and how far it is. PART=NAME runs one part, as in
# PART=backup or PART=database; V=1 shows all that the tests print.
RUNTESTS = $(GO) build -trimpath -o build/tools/runtests ./tools/runtests && build/tools/runtests $(if $(PART),-part $(PART)) $(if $(V),-v)

test: needed ## everything: packages, then real hosts (as root; installs what it needs); PART=NAME: one part
	@$(RUNTESTS) packages hosts

# What the tests of packages and lint run, where it is missing. Hosts install theirs.
NEEDED := sqlite3 shellcheck busybox curl wget gpgv systemd-analyze zsh fish mkfs.ext4 mkfs.xfs $(PUBLISHERS)
# prometheus is unpacked, and not installed: no service is started.
PROMETHEUS := build/prometheus/usr/bin
.PHONY: needed
needed:
	@missing=; for t in $(NEEDED); do command -v $$t >/dev/null || missing="$$missing $$t"; done; \
	  missing=$$(echo "$$missing" | sed '$(IN_PACKAGES)'); \
	  [ -z "$$missing" ] || { echo "Installing what tests run, up to a minute:$$missing"; apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing >/dev/null; } || \
	  echo "*** not everything is tested: apt-get install$$missing"
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql >/dev/null; } || \
	  echo "*** the store in PostgreSQL is not tested: apt-get install postgresql"
	@command -v chromium >/dev/null || \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
	  echo "*** the page is not tested in a browser: apt-get install chromium"
	@command -v npm >/dev/null || \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends npm >/dev/null; } || \
	  echo "*** the page is not tested by axe-core: apt-get install npm"
	@command -v promtool $(PROMETHEUS)/promtool >/dev/null || \
	  { mkdir -p build/prometheus && cd build/prometheus && apt-get update -qq && apt-get download -qq prometheus && \
	    dpkg -x prometheus_*.deb . && rm prometheus_*.deb; } || \
	  echo "*** alerts are not tested, for promtool cannot be had: apt-get install prometheus"

test-packages: needed ## the packages alone
	@$(RUNTESTS) packages

test-hosts: ## real systemd hosts in containers (as root)
	@$(RUNTESTS) hosts

test-faults: ## the whole campaigns of faults (as root), each of them whatever the one before found
	@$(RUNTESTS) faults

test-fleet: ## all stories of a rollout over seven hosts (as root)
	@$(RUNTESTS) fleet

test-nightly: ## the guide of production, take-overs of packages, and every state that a recorded disk went through, other dnf, SELinux labels, a unit that hangs, the page in all its looks, the store behind pgbouncer (as root)
	@command -v pgbouncer >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends pgbouncer >/dev/null; } || \
	  echo "*** the store behind a pooler is not tested: apt-get install pgbouncer"
	@$(RUNTESTS) nightly

test-rollouts: ## 100,000 random histories of rollouts, 20,000 beside a second model of the rules, and 1,000 of two servers that are paused, with another time, or whose store is lost
	ROLLOUT_HISTORIES=100000 RULES_HISTORIES=20000 SERVER_RUNS=1000 $(GO) test -count=1 -timeout 60m -v -run 'TestWhatHoldsOfEveryHistory|TestASecondModel|TestAHistoryOfTwoServers' ./find/... ./integration/rules

# A rollout over a cluster takes ten seconds, most of it waiting: four clusters at once take less than four seconds for each. CLUSTER_MINUTES bounds when the last one begins.
test-cluster: needed ## 1,000 random histories of changes on PostgreSQL that fails, each checked to be linearizable; 1,000 rollouts over three servers and two databases that fail, up to three hours (as root)
	CI=true CLUSTER_RUNS=1000 $(GO) test -count=1 -timeout 120m -v -run 'TestChangesAreLinearizable' ./find/store/postgres
	CI=true CLUSTER_RUNS=1000 CLUSTER_MINUTES=180 CLUSTER_WORLDS=4 $(GO) test -tags hosts -count=1 -timeout 200m -parallel 4 -v ./integration/clusterfaults

test-mutants: ## remove each sync and journal write, swap each pair of steps: is it caught? (as root)
	$(GO) run ./tools/mutants

lint: needed ## formatting, vet, staticcheck, ceilings of functions and lines, shell scripts, subjects of commits
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not formatted: $$out"; exit 1; }
	$(GO) vet -tags hosts ./...
	$(GO) tool -modfile=tools.mod staticcheck -checks inherit,ST1016 -tags hosts ./...
	$(GO) run ./tools/ceilings .
	$(GO) test -run TestLinesAreShortAndNotDense ./cmd/teleport-update
	$(GO) test -run "TestNothingElseWritesToATerminal|TestWaysAreFound" ./internal/console
	@long=$$(git log --no-merges --format=%s 9b4eb5b..HEAD 2>/dev/null | grep -E '^.{73}'); [ -z "$$long" ] || { echo "subjects of more than 72 characters: $$long"; exit 1; }
	shellcheck -s sh packaging/*.sh packaging/*/deb/* packaging/*/rpm/* packaging/*/*.sh packaging/*/examples/*.sh findings/*.sh

# The database is a module, pinned in tools.mod: what is green turns red by a commit alone.
vulncheck: ## known holes on the paths of both programs, in the library and in modules
	@$(GO) mod download -modfile=tools.mod golang.org/x/vulndb
	$(GO) run ./tools/vulndb "$$($(GO) list -modfile=tools.mod -m -f '{{.Dir}}' golang.org/x/vulndb)" build/vulndb
	$(GO) tool -modfile=tools.mod govulncheck -db 'file://$(CURDIR)/build/vulndb' ./cmd/...

demo: ## the whole story on a real host, step by step (as root)
	@mkdir -p build/tools; echo "Compiling the demo: up to a minute the first time."
	@$(GO) build -trimpath -o build/tools/demo ./tools/demo & i=0; \
	  while kill -0 $$! 2>/dev/null; do sleep 1; i=$$((i + 1)); [ $$((i % 8)) != 0 ] || echo "compiling … $$i s"; done; wait $$!
	@build/tools/demo

recording: ## the demo's first act as a picture that moves, docs/demo.svg (as root)
	$(GO) run ./tools/recording

bench: ## updates and no-ops against other designs, as ratios
	$(GO) run ./tools/bench

# nginx is unpacked, and not installed: no service is started. Without it, the others are measured.
NGINX := build/nginx/usr/sbin
bench-find: ## the find server against a constant handler and nginx, and its engine, as ratios
	@command -v nginx $(NGINX)/nginx >/dev/null || \
	  { mkdir -p build/nginx && cd build/nginx && apt-get update -qq && apt-get download -qq nginx && dpkg -x nginx_*.deb .; } || \
	  echo "*** nginx is not measured, for its package cannot be had: apt-get install nginx-light"
	PATH="$$PATH:$(CURDIR)/$(NGINX)" $(GO) run ./tools/benchfind $(BENCHFIND)

bench-fleet: needed ## a rollout of a million hosts over three servers on PostgreSQL, and the same with SQLite as ratios; up to an hour
	$(GO) run ./tools/benchfleet $(BENCHFLEET)

bench-backup: ## database backups against the sqlite3 shell
	$(GO) run ./tools/bench -only backup

figures: ## measure, and write what was measured into docs/development/figures.json and the docs; BENCH=0: take what others left
	@[ "$(BENCH)" = 0 ] || $(MAKE) -j1 bench bench-backup bench-find
	$(GO) run ./tools/figures

fuzz: ## each fuzz target for a minute
	@for p in $$($(GO) list ./...); do for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	  $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 60s -fuzzminimizetime 20x $$p || exit 1; done; done

clean: ## remove what was built
	rm -rf build
