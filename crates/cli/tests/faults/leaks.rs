//! A coordinator that takes case after case: it holds no more descriptors, threads, zombies and
//! memory in the end than in the beginning.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use fathom_analysis::statistics;
use fathom_engine::coordinate;
use fathom_engine::worker::Workers;
use fathom_engine::{Audience, Machine, Outcome, Plan, Progress, RunSetup, VisitRequest};
use fathom_measure::clock::{Specification, Watch, WholeRun, monotonic_raw_ns};
use fathom_measure::sampler::{LoopTime, Resources, calibration};
use fathom_measure::{affinity, host};
use fathom_record::{Document, Effort, Host, Protocol, Record, Tool};
use fathom_store::Store;

use crate::{count, write_section};

/// Set where this program is the coordinator: how many cases it takes.
const CASES: &str = "FATHOM_TEST_CASES";

/// Begins the lines that are meant for the other process.
const MARK: &str = "held: ";

/// What is made once is there after so many cases.
const WARM_UP: usize = 4;

/// The share of the cases in which the allocator's arenas find their size. A hundred cases are too
/// few for the last pages: there the memory may still grow by so many bytes a case.
const SETTLING: f64 = 0.6;
const GROWTH_MAX_BYTES: [usize; 2] = [1024, 0];

/// The memory's trend is taken through so many means, since neighbours are alike.
const BLOCKS: usize = 8;

/// What the process holds after a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    threads: usize,
    zombies: usize,
    resident_bytes: usize,
}

impl Held {
    fn now() -> Self {
        let count = |folder: &str| std::fs::read_dir(folder).map_or(0, Iterator::count);
        let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        let dead = |pid: &&str| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.contains(") Z ")
        };
        // Without pages of files, which come as code is first used.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mut words = status.split_whitespace().skip_while(|word| *word != "RssAnon:");
        let kib: Option<usize> = words.nth(1).and_then(|kib| kib.parse().ok());
        Self {
            descriptors: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
            zombies: children.split_whitespace().filter(dead).count(),
            resident_bytes: kib.expect("a size") << 10,
        }
    }
}

/// This machine, with real workers.
struct Real {
    workers: Workers,
    watch: Watch,
    begun_ns: u64,
    stop: UnixStream,
}

impl Machine for Real {
    fn visit(&mut self, request: &VisitRequest) -> Outcome {
        self.workers.visit(request, &self.stop)
    }
    fn calibrate(&mut self, cpu: u32) -> Vec<LoopTime> {
        calibration(self.clock(), cpu)
    }
    fn elapsed_ns(&self) -> u64 {
        monotonic_raw_ns() - self.begun_ns
    }
    fn timestamp(&self) -> String {
        "2026-02-03T04:05:06.789Z".to_owned()
    }
    fn clock_check(&self) -> WholeRun {
        self.watch.end()
    }
    fn clock(&self) -> Specification {
        self.watch.clock().specification()
    }
    fn interrupted(&self) -> bool {
        false
    }
}

/// Keeps what it is told, as the program does.
struct Keeper {
    store: Store,
    run_id: String,
}

impl Audience for Keeper {
    fn begins(&mut self, document: &Document, _: Option<(&Plan, f64)>) {
        self.store.begin(document).expect("a run");
    }
    fn progress(&mut self, _: &Progress) {}
    fn block(&mut self, records: &[Record]) {
        records.iter().for_each(|one| self.store.add(&self.run_id, one).expect("a record"));
    }
    fn revised(&mut self, document: &Document, _: &[Record], _: usize) {
        self.store.replace_records(&self.run_id, &document.records).expect("records");
    }
    fn ends(&mut self, document: &Document) {
        self.store.update_run(&document.run).expect("an end");
    }
    fn has_left(&self) -> bool {
        false
    }
}

/// The coordinator. Without a number of cases it is an empty test.
#[test]
fn coordinator() {
    let Ok(cases) = std::env::var(CASES) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let host = host::read();
    let watch = Watch::begin(&host).expect("a clock");
    let (stop, _never) = UnixStream::pair().expect("a pair");
    let mut machine = Real { workers: workers(&[]), watch, begun_ns: monotonic_raw_ns(), stop };
    for case in 0..cases.parse().expect("a number") {
        let run_id = format!("{case:016x}");
        let store = Store::open(&folder.path().join("fathom.db")).expect("a store");
        take_case(&host, &mut machine, Keeper { store, run_id: run_id.clone() });
        take_bad_cases(&mut machine, &run_id);
        let Held { descriptors, threads, zombies, resident_bytes } = Held::now();
        println!("\n{MARK}{descriptors} {threads} {zombies} {resident_bytes}");
    }
}

fn workers(script: &[&str]) -> Workers {
    let program = match script {
        [] => PathBuf::from(env!("CARGO_BIN_EXE_fathom")),
        [program, ..] => PathBuf::from(program),
    };
    let arguments = script.get(1..).unwrap_or(&["worker"]);
    Workers {
        program,
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        grace_ns: 1e10,
    }
}

fn take_case(host: &Host, machine: &mut Real, mut keeper: Keeper) {
    let asked = vec!["cpu.frequency".to_owned()];
    let plan = Plan::new(&fathom_probes::REGISTRY, asked, Effort::Quick, Protocol::Median, 7, host)
        .expect("a plan");
    let setup = RunSetup {
        tool: Tool { name: "fathom".to_owned(), version: "0.1.0".to_owned() },
        host: host.clone(),
        id: keeper.run_id.clone(),
        label: None,
        cpu: affinity::allowed()[0],
        cpu_reason: "the first".to_owned(),
        clock: machine.watch.facts(),
        tuned: Vec::new(),
        imposed: Vec::new(),
        notes: Vec::new(),
        priority: false,
        resources: Resources::none(),
        far: Vec::new(),
        earlier: None,
    };
    let document = coordinate(&plan, setup, machine, &mut keeper);
    assert!(document.records[0].verdict.shows_number(), "{:?}", document.records[0].verdict);
}

/// Workers that do not do what they should: what is left of those is not left either.
fn take_bad_cases(machine: &mut Real, seed: &str) {
    let scripts: [&[&str]; 4] = [
        &["/nonexistent/fathom"],
        &["/bin/sh", "-c", "exit 7"],
        &["/bin/sh", "-c", "cat >/dev/null; echo nonsense"],
        &["/bin/sh", "-c", "sleep 100 >/dev/null & kill -KILL $$"],
    ];
    let at = usize::from_str_radix(seed, 16).expect("a number") % scripts.len();
    let request = VisitRequest {
        metric: "cpu.frequency".to_owned(),
        ..crate::worker_calls::request(("cpu.frequency", "", 0))
    };
    let outcome = workers(scripts[at]).visit(&request, &machine.stop);
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
}

#[test]
fn coordinator_does_not_leak() {
    let cases = count(100, 1000);
    let this = std::env::current_exe().expect("the path of this program");
    let output = Command::new(this)
        .args(["leaks::coordinator", "--exact", "--nocapture", "--test-threads=1"])
        .env(CASES, cases.to_string())
        // What is freed is given back, so that what is resident is what is held.
        .envs([("MALLOC_TRIM_THRESHOLD_", "0"), ("MALLOC_TOP_PAD_", "0")])
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let held: Vec<Held> = said.lines().filter_map(parsed).collect();
    assert_eq!(held.len(), cases);
    let (first, last) = (held[WARM_UP], held[cases - 1]);
    let warm = &held[(SETTLING * cases as f64) as usize..];
    let at: Vec<f64> = (0..warm.len()).map(|case| case as f64).collect();
    let bytes: Vec<f64> = warm.iter().map(|held| held.resident_bytes as f64).collect();
    let means = |values: &[f64]| statistics::block_means(values, BLOCKS);
    let trend = statistics::theil_sen(&means(&at), &means(&bytes)).expect("a trend");
    let delta = |of: fn(&Held) -> usize| of(&last) as i64 - of(&first) as i64;
    let page = format!(
        "## Leaks\n\n\
         | cases | descriptors | threads | zombies | resident bytes a case | 95 % interval |\n\
         |---|---|---|---|---|---|\n\
         | {cases} | {:+} | {:+} | {:+} | {:+.0} | {:+.0} to {:+.0} |\n\n\
         Differences of the coordinator from case {WARM_UP} on; at the end it holds {} \
         descriptors, {} threads, {} zombies and {} KiB.\n",
        delta(|held| held.descriptors),
        delta(|held| held.threads),
        delta(|held| held.zombies),
        trend.slope,
        trend.low,
        trend.high,
        last.descriptors,
        last.threads,
        last.zombies,
        last.resident_bytes >> 10,
    );
    write_section("8-leaks", &page);
    let countable = |held: Held| (held.descriptors, held.threads, held.zombies);
    assert_eq!(countable(last), countable(first));
    assert_eq!(last.zombies, 0);
    let growth_max = count(GROWTH_MAX_BYTES[0], GROWTH_MAX_BYTES[1]) as f64;
    assert!(trend.low <= growth_max, "memory grows by {:.0} bytes a case", trend.slope);
}

fn parsed(line: &str) -> Option<Held> {
    let mut words = line.strip_prefix(MARK)?.split(' ').map(|word| word.parse().expect("a number"));
    let mut next = || words.next().expect("four numbers");
    Some(Held { descriptors: next(), threads: next(), zombies: next(), resident_bytes: next() })
}
