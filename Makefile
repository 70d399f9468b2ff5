# Two commands do everything: `make run` and `make test`. The rest are parts of them, or longer.

CARGO ?= cargo
FATHOM := target/release/fathom

.PHONY: run build web test docs bench bench-memory bench-file bench-store bench-page repeatability compare-check simulate lab soak install clean needs

run: build ## build, measure at quick effort, show the table, keep the run, write report.html
	$(FATHOM) run --quick
	@if scripts/web.sh 2>/dev/null; then $(FATHOM) report; fi

build: needs ## the program; with the page of `fathom report` where Node can build it
	@scripts/web.sh; case $$? in \
	0) $(CARGO) build --release --locked --features page ;; \
	3) echo "web: fathom is built without the page of its report" >&2; \
	   $(CARGO) build --release --locked ;; \
	*) exit 1 ;; esac

web: ## the page of `fathom report`: types from the schema, checked, bundled; needs Node
	scripts/web.sh

test: ## everything that continuous integration runs
	@scripts/needs.sh tests
	$(CARGO) run --quiet --locked --package xtask -- test

docs: ## regenerate docs/METRICS.md and the schemas
	$(CARGO) run --quiet --locked --package xtask -- docs

bench: build ## figures side by side with trusted tools, in turn
	$(FATHOM) crosscheck --verbose

bench-memory: build ## memory side by side with programs of lab/bench/peers, in turn
	lab/bench/memory.sh $(FATHOM)

bench-file: build ## reading a file side by side with dd, xxhsum, b3sum, fio, in turn
	lab/bench/file.sh $(FATHOM)

bench-store: build ## how long history and compare take in a store of RUNS (default 1000) made-up runs; writes 2 GB to /var/tmp
	$(CARGO) run --quiet --release --locked --package xtask -- \
		bench-store $(FATHOM) $(or $(RUNS),1000)

bench-page: build ## how soon the page of the last run shows its first chart in Chromium
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	$(FATHOM) report -o "$$folder/report.html" && \
	node web/bench/first-chart.mjs "$$folder/report.html"

repeatability: build ## RUNS (default 20) quick runs, of METRICS or all: how well results repeat and how often compare finds a change, as docs/REPEATABILITY.md
	$(CARGO) run --quiet --locked --package xtask -- \
		repeatability $(FATHOM) $(or $(RUNS),20) $(METRICS)

compare-check: build ## PAIRS (default 10) of runs, the second with more work or huge pages: does compare find it?
	$(CARGO) run --quiet --locked --package xtask -- \
		compare-check $(FATHOM) $(or $(PAIRS),10)

simulate: ## RUNS (default 10000) simulated runs a figure: do intervals and alarms keep their word?
	$(CARGO) run --quiet --release --locked --package xtask -- \
		simulate $(or $(RUNS),10000) $(or $(SEED),20260101)

lab: build ## spoils runs on purpose, RUNS (default 10) by SEED, as docs/SABOTAGE.md; as root
	$(CARGO) test --quiet --locked --package fathom-lab --bins -- \
		--ignored --test-threads 1 nothing_stays
	$(CARGO) run --quiet --locked --package fathom-lab -- \
		$(FATHOM) $(or $(RUNS),10) $(or $(SEED),1)

soak: needs ## the tests of faults with their full counts, as docs/FAULTS.md; needs strace, fuse
	$(CARGO) run --quiet --locked --package xtask -- soak

install: build ## program, completions and man pages under PREFIX (default /usr/local)
	scripts/install.sh $(FATHOM) $(or $(PREFIX),/usr/local)

clean:
	$(CARGO) clean

needs: ## a C compiler (for SQLite) and the tools the tests call
	@scripts/needs.sh
