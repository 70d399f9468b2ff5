//! A coordinator that runs many cases holds no more descriptors, threads, zombies and memory at the
//! end than at the beginning.

use std::path::PathBuf;
use std::process::Command;

use fathom_analysis::statistics;
use fathom_cli::interrupt::Interrupt;
use fathom_cli::live::LiveMachine;
use fathom_engine::worker::Workers;
use fathom_engine::{
    Audience, CoordinatorProgress, EngineOutcome, Plan, RunSetup, VisitRequest, coordinate,
};
use fathom_measure::clock::{CalibrationWatch, monotonic_raw_ns};
use fathom_measure::sampler::Resources;
use fathom_measure::{affinity, host};
use fathom_record::{Document, Effort, Host, Protocol, Record, RunState, State, Tool};
use fathom_store::Store;

use crate::{is_soak, scaled, text, write_section};

/// Set in the process that is the coordinator: the number of cases.
const CASES: &str = "FATHOM_TEST_CASES";

/// The prefix of lines for the other process.
const MARK: &str = "usage: ";

/// After this many cases, in `make test` and in `make soak`, all that is created once exists.
const WARM_UP: [usize; 2] = [1, 4];

/// The share of the cases in which the allocator's arenas reach their size.
const SETTLING: f64 = 0.6;

/// The trend of the memory is fitted to this many means, since successive values are correlated.
const BLOCKS: usize = 8;

/// The resources of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LeakUsage {
    descriptors: usize,
    threads: usize,
    zombies: usize,
    resident_bytes: usize,
}

impl LeakUsage {
    fn now() -> Self {
        let count = |folder: &str| std::fs::read_dir(folder).map_or(0, Iterator::count);
        let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        let dead = |pid: &&str| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.contains(") Z ")
        };
        // Without file pages, which are mapped when code is first used.
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

/// Stores the records, as the program does.
struct StoreWriter {
    store: Store,
    run_id: String,
}

impl Audience for StoreWriter {
    fn begins(&mut self, document: &Document, _: Option<(&Plan, f64)>) {
        self.store.begin(document).expect("a run");
    }
    fn progress(&mut self, _: &CoordinatorProgress) {}
    fn measured(&mut self, records: &[Record]) {
        self.store.replace_records(&self.run_id, records).expect("records");
    }
    fn finished(&mut self, _: &Document, records: &[Record], _: bool) {
        self.measured(records);
    }
    fn ends(&mut self, document: &Document) {
        self.store.update_run(&document.run).expect("an end");
    }
    fn has_left(&self) -> bool {
        false
    }
}

/// The coordinator; does nothing unless [`CASES`] is set.
#[test]
fn coordinator() {
    let Ok(cases) = std::env::var(CASES) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let host = host::read();
    let watch = CalibrationWatch::begin(&host).expect("a clock");
    let interrupt = Interrupt::listen().expect("signal handlers");
    let begun_ns = monotonic_raw_ns();
    let mut machine = LiveMachine::new(workers(&[]), watch, interrupt, begun_ns);
    for case in 0..cases.parse().expect("a number") {
        let store = Store::open(&folder.path().join("fathom.db")).expect("a store");
        let writer = StoreWriter { store, run_id: format!("{case:016x}") };
        run_case(&host, &mut machine, writer);
        run_bad_worker(&machine, case);
        let LeakUsage { descriptors, threads, zombies, resident_bytes } = LeakUsage::now();
        println!("\n{MARK}{descriptors} {threads} {zombies} {resident_bytes}");
    }
}

/// Workers that are this program, or a script.
fn workers(script: &[&str]) -> Workers {
    let (program, arguments) = match script {
        [] => (env!("CARGO_BIN_EXE_fathom"), &["worker"][..]),
        [program, arguments @ ..] => (*program, arguments),
    };
    Workers {
        program: PathBuf::from(program),
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        grace_ns: 1e10,
    }
}

fn run_case(host: &Host, machine: &mut LiveMachine, mut writer: StoreWriter) {
    let metrics = vec!["cpu.frequency".to_owned()];
    let (registry, protocol) = (&fathom_probes::REGISTRY, Protocol::Median);
    let mut plan = Plan::new(registry, metrics, Effort::Quick, protocol, 7, host).expect("a plan");
    plan.processes = Some(3);
    let setup = RunSetup {
        tool: Tool::fixture(),
        host: host.clone(),
        id: writer.run_id.clone(),
        label: None,
        cpu: affinity::allowed()[0],
        cpu_reason: "the first".to_owned(),
        clock: machine.watch.facts(),
        folder: None,
        tuned: Vec::new(),
        imposed: Vec::new(),
        notes: Vec::new(),
        priority: false,
        resources: Resources::none(),
        far: Vec::new(),
        earlier: None,
    };
    let document = coordinate(&plan, setup, machine, &mut writer);
    assert_eq!(document.run.state, RunState::Complete);
    assert_ne!(document.records[0].verdict.state, State::Failed);
}

/// Runs a worker that fails in one of several ways.
fn run_bad_worker(machine: &LiveMachine, case: usize) {
    let scripts: [&[&str]; 4] = [
        &["/nonexistent/fathom"],
        &["/bin/sh", "-c", "exit 7"],
        &["/bin/sh", "-c", "cat >/dev/null; echo nonsense"],
        &["/bin/sh", "-c", "sleep 100 >/dev/null & kill -KILL $$"],
    ];
    let request: VisitRequest = crate::worker_calls::request(("cpu.frequency", "", 0));
    let outcome = workers(scripts[case % scripts.len()]).visit(&request, &machine.interrupt);
    assert!(matches!(outcome, EngineOutcome::Failed(_)), "{outcome:?}");
}

#[test]
fn coordinator_does_not_leak() {
    // After the warm-up each kind of bad worker once.
    let cases = scaled(WARM_UP[0] + 5, 1000);
    let this = std::env::current_exe().expect("the path of this program");
    let output = Command::new(this)
        .args(["leaks::coordinator", "--exact", "--nocapture", "--test-threads=1"])
        .env(CASES, cases.to_string())
        // Freed memory is returned, so that resident memory is used memory.
        .envs([("MALLOC_TRIM_THRESHOLD_", "0"), ("MALLOC_TOP_PAD_", "0")])
        .output()
        .expect("it starts");
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", text(&output.stderr));
    let usages: Vec<LeakUsage> = stdout.lines().filter_map(parsed).collect();
    assert_eq!(usages.len(), cases);
    let (first, last) = (usages[scaled(WARM_UP[0], WARM_UP[1])], usages[cases - 1]);
    let countable = |usage: LeakUsage| (usage.descriptors, usage.threads, usage.zombies);
    assert_eq!(countable(last), countable(first));
    assert_eq!(last.zombies, 0);
    if is_soak() {
        check_memory(&usages);
    }
}

/// The resident memory does not grow.
fn check_memory(usages: &[LeakUsage]) {
    let (cases, [_, warm_up]) = (usages.len(), WARM_UP);
    let last = usages[cases - 1];
    let warm = &usages[(SETTLING * cases as f64) as usize..];
    let at: Vec<f64> = (0..warm.len()).map(|case| case as f64).collect();
    let bytes: Vec<f64> = warm.iter().map(|usage| usage.resident_bytes as f64).collect();
    let means = |values: &[f64]| statistics::block_means(values, BLOCKS);
    let trend = statistics::theil_sen(&means(&at), &means(&bytes)).expect("a trend");
    let page = format!(
        "## Leaks\n\n\
         | cases | descriptors | threads | zombies | resident bytes per case | 95 % interval |\n\
         |---|---|---|---|---|---|\n\
         | {cases} | +0 | +0 | +0 | {:+.0} | {:+.0} to {:+.0} |\n\n\
         Changes in the coordinator from case {warm_up} on; at the end it has {} \
         descriptors, {} threads, {} zombies and {} KiB.\n",
        trend.slope,
        trend.low,
        trend.high,
        last.descriptors,
        last.threads,
        last.zombies,
        last.resident_bytes >> 10,
    );
    write_section("8-leaks", &page);
    assert!(trend.low <= 0.0, "memory grows by {:.0} bytes per case", trend.slope);
}

fn parsed(line: &str) -> Option<LeakUsage> {
    let mut words = line.strip_prefix(MARK)?.split(' ').map(|word| word.parse().expect("a number"));
    let mut next = || words.next().expect("four numbers");
    Some(LeakUsage {
        descriptors: next(),
        threads: next(),
        zombies: next(),
        resident_bytes: next(),
    })
}
