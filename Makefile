# `make run` and `make test` are the two main targets. The others are parts of them, or take longer.

CARGO ?= cargo
FATHOM := target/release/fathom

.PHONY: run build web test golden flaky docs bench bench-memory bench-file bench-load bench-serve bench-fetch bench-network bench-store bench-build bench-import bench-page repeatability compare-check simulate typical lab soak http-peers fuzz mutants kmod kmod-test kmod-soak kmod-mutants kmod-transfer zoo zoo-quick install dist dist-check clean needs needs-lab

run: build ## build, measure at quick effort, print the table, store the run, write report.html
	$(FATHOM) run --quick
	$(FATHOM) report

build: needs ## build the program, with the packaged page of `fathom report`
	@scripts/web.sh; case $$? in \
	0) ;; \
	3) echo "web: using web/packaged/report.html" >&2 ;; \
	*) exit 1 ;; esac
	$(CARGO) build --release --locked

web: ## build and package the page of `fathom report`: types, check, bundle; needs Node
	scripts/web.sh

test: ## run everything that continuous integration runs
	@scripts/needs.sh tests page
	$(CARGO) run --quiet --locked --package xtask -- test

flaky: needs ## run `make test` five times under a CONDITION (loaded, stranger, twice), or the tests whose names begin with REPEATED 50 times beside each other; goes on where it ended; writes docs/evidence/FLAKY.md; needs root
	@scripts/needs.sh lab
	$(CARGO) run --quiet --locked --package xtask -- flaky $(if $(REPEATED),repeated "$(REPEATED)",$(or $(CONDITION),loaded))

golden: ## write the golden files anew: screens, predictions, host facts; look at the difference before you commit it
	SNAPSHOTS=overwrite $(CARGO) test --quiet --locked --package fathom --test program golden::
	SNAPSHOTS=overwrite $(CARGO) test --quiet --locked --package fathom-probes --lib models::
	SNAPSHOTS=overwrite $(CARGO) test --quiet --locked --package fathom-measure --test host golden::

docs: ## regenerate docs/METRICS.md and the JSON schemas
	$(CARGO) run --quiet --locked --package xtask -- docs

bench: build needs-lab ## compare with perf bench, fio, stress-ng, sysbench and others, in turn
	$(FATHOM) crosscheck --verbose

bench-memory: build needs-lab ## compare memory results with the programs in lab/bench/peers, in turn
	lab/bench/memory.sh $(FATHOM)

bench-file: build needs-lab ## compare file reading with dd, xxhsum, b3sum and fio, in turn
	lab/bench/file.sh $(FATHOM)

bench-load: build needs-lab ## compare the client CPU of a load with wrk, hey, oha and h2load, against nginx
	lab/bench/load.sh $(FATHOM)

bench-serve: build needs-lab ## compare CPU per request and per GB with nginx, in turn; needs root, wrk and nginx
	lab/bench/serve.sh $(FATHOM)

bench-profiles: build ## compare every number of a quick run by the program of `make run` and by that of `make dist`, in turn, in ROUNDS (default 2); writes docs/evidence/PROFILES.md
	$(CARGO) build --quiet --locked --profile dist --package fathom
	lab/bench/profiles.sh $(FATHOM) target/dist/fathom $(or $(ROUNDS),2)

bench-fetch: build needs-lab ## compare downloads with curl and wget from nginx and fathom serve, in turn; needs root
	lab/bench/fetch.sh $(FATHOM)

bench-network: build needs-lab ## compare connect with a C loop, and iperf3, sockperf and ping by crosscheck, in turn
	lab/bench/network.sh $(FATHOM)

bench-build: needs ## time a build from nothing, again, and after a changed line in each of three crates
	scripts/bench-build.sh

bench-store: build ## time the commands that read a store of RUNS (default 1000) synthetic runs; writes 2 GB to /var/tmp, less for more runs, which have no samples
	$(CARGO) run --quiet --release --locked --package xtask -- \
		bench-store $(FATHOM) $(or $(RUNS),1000)

bench-import: build ## time the import of the worst files of each format, in s a MB; target 1 (a small file: the start)
	$(CARGO) test --quiet --release --locked --package fathom --test program -- --nocapture \
		import_is_bounded_by_the_size_of_its_file

bench-page: build ## time the first tile and the first chart of the last run's page in Chromium
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	$(FATHOM) report -o "$$folder/report.html" && \
	node web/bench/first-tile.mjs "$$folder/report.html"

repeatability: build ## measure how well RUNS (default 20) quick runs of METRICS (default all) repeat, and count false alarms of compare; writes docs/evidence/REPEATABILITY.md
	$(CARGO) run --quiet --locked --package xtask -- \
		repeatability $(FATHOM) $(or $(RUNS),20) $(METRICS)

compare-check: build ## count how often compare finds what was changed, in PAIRS (default 10) of runs
	$(CARGO) run --quiet --locked --package xtask -- \
		compare-check $(FATHOM) $(or $(PAIRS),10)

simulate: ## check intervals and alarms with RUNS (default 10000) simulated runs per figure; writes docs/evidence/SIMULATION.md, or prints the part ONLY
	$(CARGO) run --quiet --release --locked --package xtask -- \
		simulate $(or $(RUNS),10000) $(or $(SEED),20260101) $(if $(ONLY),"$(ONLY)")

typical: ## add the machines in FILES (rows of `fathom export --format typical`) to the collection of typical values, and print counts
	$(CARGO) run --quiet --locked --package xtask -- typical $(FILES)

# Each takes at most half an hour.
LAB_PARTS := answers ci cost differences dist import sabotage-processor sabotage-program sabotage-memory sabotage-slope load-fixed load-random load-nginx load-theory load-fleet fleet-members fleet-engines fleet-pairs fleet-odd recipes-prometheus recipes-grafana recipes-nagios recipes-slurm recipes-kubernetes recipes-notebook questions remedies labs-1 labs-2 labs-3 labs-4 labs-5 labs-teacher tutorials
LAB_CHOSEN = $(addprefix lab-,$(filter $(PART)%,$(LAB_PARTS)))

lab: build needs-lab ## known answers on this machine, in PARTs of up to 30 minutes (answers, cost, sabotage, sabotage-memory, load, labs, tutorials, ...: see LAB_PARTS), with RUNS and SEED; writes docs/evidence/ANSWERS.md, COST.md or COST-SHARED.md, DIFFERENCES.md, DIST.md, SABOTAGE.md, LOAD-LAB.md, QUESTIONS.md, REMEDIES.md and FLEET.md; needs root
	+@$(MAKE) --no-print-directory --jobs=1 --keep-going $(or $(LAB_CHOSEN),$(error PART=$(PART) is none of $(LAB_PARTS)))

lab-answers:
	$(CARGO) run --quiet --locked --package xtask -- lab $(TEST)

lab-ci:
	@scripts/needs.sh tests ci
	lab/ci.sh $(FATHOM)

lab-cost:
	@scripts/needs.sh cost
	$(CARGO) run --quiet --locked --package fathom-lab -- \
		cost $(FATHOM) $(or $(RUNS),30) "$(BUSY)" "$(ONLY)"

lab-dist:
	@scripts/needs.sh dist lab-dist
	lab/dist.sh

lab-differences:
	$(CARGO) run --quiet --locked --package fathom-lab -- differences $(FATHOM) "$(ONLY)"

lab-remedies:
	$(CARGO) run --quiet --locked --package fathom-lab -- remedies $(FATHOM) $(or $(RUNS),10) "$(ONLY)"

lab-import:
	lab/import.sh $(FATHOM)

lab-sabotage-%:
	$(CARGO) run --quiet --locked --package fathom-lab -- \
		sabotage $(FATHOM) $(or $(RUNS),10) $(or $(SEED),1) $*

lab-load-%:
	$(CARGO) run --quiet --locked --package fathom-lab -- \
		load $(FATHOM) $(or $(RUNS),20) $(or $(SEED),1) $*

lab-questions:
	$(CARGO) run --quiet --locked --package fathom-lab -- questions $(FATHOM)

lab-fleet-engines:
	@scripts/needs.sh fleet
	lab/fleet/engines.sh $(FATHOM)

lab-fleet-pairs:
	@scripts/needs.sh fleet
	$(CARGO) build --quiet --locked --package fathom-lab
	lab/fleet/ssh.sh lab/fleet/answers.sh $(FATHOM) target/debug/fathom-lab

lab-fleet-odd:
	@scripts/needs.sh fleet
	lab/fleet/ssh.sh lab/fleet/odd.sh $(FATHOM) $(or $(SEED),1) $(or $(RUNS),10)

lab-recipes-%:
	@scripts/needs.sh fleet recipes
	lab/recipes/$*.sh $(FATHOM)

lab-labs-%:
	lab/course.py $(FATHOM) docs/labs/$*-*.md

lab-labs-teacher:
	lab/course.py $(FATHOM) docs/labs/README.md docs/labs/teacher.md

lab-tutorials:
	lab/course.py $(FATHOM) docs/tutorials/*-*.md

lab-fleet-members:
	$(CARGO) run --quiet --locked --package fathom-lab -- \
		fleet $(FATHOM) $(or $(MEMBERS),1000) $(or $(SEED),1)

soak: needs-lab ## run the fault tests with full counts, and write docs/evidence/FAULTS.md (TEST: only those of this name, no page); needs strace and fuse
	$(CARGO) run --quiet --locked --package xtask -- soak $(TEST)

http-peers: ## send the request corpus also to nginx, apache2, lighttpd and caddy; writes docs/evidence/HTTP-PEERS.md
	@scripts/needs.sh http-peers
	@folder=$$(mktemp -d -p /var/tmp) && trap 'rm -rf "$$folder"' EXIT && trap 'exit 130' INT TERM HUP && \
	PATH="$$PATH:/usr/sbin" FATHOM_PEERS="$$folder" $(CARGO) test --quiet --locked --package fathom-service \
		--test service -- --ignored --exact peers::differences_from_peers_are_explained

fuzz: ## fuzz each parser of what other ends send for SECONDS (default 900), JOBS (2) at a time, or TARGETS only; writes docs/evidence/FUZZ.md; needs a C++ compiler
	JOBS=$(or $(JOBS),2) $(CARGO) run --quiet --locked --package xtask -- fuzz $(or $(SECONDS),900) $(TARGETS)

mutants: needs ## change SAMPLE (default 100) places of the code (of PACKAGES only), one at a time: which do tests miss? about an hour
	PACKAGES="$(PACKAGES)" scripts/mutants.sh $(or $(SAMPLE),100) $(or $(SHARD),0)

kmod: ## build the kernel devices for the running kernel; needs linux-headers
	kmod/build.sh /lib/modules/$$(uname -r)/build target/kmod/running

kmod-test: ## test the kernel devices on Linux 6.1 and 6.12 in QEMU, and `fathom transfer` by them; needs qemu-system-x86
	@scripts/needs.sh kmod
	kmod/test/run.sh
	kmod/test/transfer.sh

kmod-soak: ## random operations of four processes on the kernel devices for SECONDS (default 1800) per kernel
	@scripts/needs.sh kmod
	kmod/test/run.sh soak=$(or $(SECONDS),1800)

kmod-mutants: ## break the kernel devices line by line (NAMES: only these): does kmod-test notice? about 25 minutes
	@scripts/needs.sh kmod
	kmod/test/mutants.sh $(NAMES)

kmod-transfer: ## `fathom transfer` by the kernel devices in QEMU, RUNS (default 20) repetitions; ratios beside the published ones
	@scripts/needs.sh kmod
	kmod/test/transfer.sh $(or $(RUNS),20)

zoo: ## boot about 30 emulated machines (ONLY: those whose name contains it), run the static programs X86_64 and AARCH64 (default: of `make dist`), compare the facts found with those given; writes docs/evidence/ZOO.md; about 20 minutes
	@scripts/needs.sh zoo
	$(CARGO) run --quiet --locked --package fathom-lab -- \
		zoo "$(or $(X86_64),$(wildcard dist/fathom-*-x86_64))" \
		"$(or $(AARCH64),$(wildcard dist/fathom-*-aarch64))" $(ONLY)

zoo-quick: ## the same for five machines, without a page; about 3 minutes
	@$(MAKE) --no-print-directory zoo ONLY=quick

install: build ## install program, completions and man pages under PREFIX (default /usr/local)
	scripts/install.sh $(FATHOM) $(or $(PREFIX),/usr/local)

dist: needs ## build static programs, packages, images and tarballs for ARCH (default x86_64 and aarch64) in dist/
	scripts/dist.sh $(ARCH)

dist-check: needs ## build dist for ARCH here and in a clone elsewhere, and compare byte for byte
	scripts/dist.sh --check $(ARCH)

clean:
	$(CARGO) clean

needs: ## install a C compiler (for SQLite)
	@scripts/needs.sh

needs-lab:
	@scripts/needs.sh tests lab
