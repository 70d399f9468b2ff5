//! Imposed disturbances show in the numbers, in their verdicts, and in the facts of the run.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fathom_lab::strace;
use fathom_measure::{affinity, clock};
use fathom_record::{Agreement, Cause, Document, Record, State};
use rustix::time::{ClockId, Timespec, clock_settime};

use crate::group::{group, skipped};
use crate::test_env::{document, json, median, of_metric};
use crate::{ProgramTestEnv, text};

/// A quick run of one metric with an environment variable.
fn run_with(metric: &str, name: &str, value: &str) -> Document {
    let env = ProgramTestEnv::new();
    let arguments = ["run", "--quick", "--json", metric];
    document(&env.fathom(&arguments).env(name, value).output().expect("the program starts"))
}

/// The sum of the medians of `cpu.call` in cycles, so that a slow CPU cancels out.
fn relative(document: &Document) -> f64 {
    let frequency = of_metric(document, "cpu.frequency")[0];
    of_metric(document, "cpu.call").iter().map(|record| median(record)).sum::<f64>()
        * median(frequency)
}

#[test]
#[ignore = "lab: compares times of two runs"]
fn injected_spin_violates_predictions() {
    let dosed = |dose: &str| {
        let document = run_with("cpu.call", "FATHOM_SPIN", &format!("cpu.call={dose}"));
        assert!(document.run.imposed[0].starts_with("FATHOM_SPIN=cpu.call="));
        document
    };
    // The CPU of a guest may slow down between two runs: one pair at the same speed is enough.
    let mut factors = Vec::new();
    let doubled = loop {
        let [plain, doubled] = ["0%", "100%"].map(dosed);
        let factor = relative(&doubled) / relative(&plain);
        factors.push(factor);
        if (1.6..2.4).contains(&factor) {
            break doubled;
        }
        assert!(factors.len() < 4, "a spin of 100 % gave factors of {factors:.2?}");
    };
    let modelled = |record: &&&Record| record.prediction.is_some();
    let calls = of_metric(&doubled, "cpu.call");
    for record in calls.iter().filter(modelled) {
        assert!(!record.agreement.is_some_and(Agreement::holds), "{}", record.name());
    }
    let frequency = of_metric(&doubled, "cpu.frequency")[0];
    assert!(!frequency.agreement.is_some_and(Agreement::fails), "only the named metric spins");
}

#[test]
#[ignore = "lab: asserts verdicts on times"]
fn wrong_uarch_row_violates_predictions() {
    let env = ProgramTestEnv::new();
    let run = |row: &str| -> Document {
        let mut run = env.command("run --quick --json cpu.loop.iteration");
        json(&run.env("FATHOM_UARCH", row).output().expect("the program starts"))
    };
    // One of them is wrong on any CPU: a counter in memory costs 5 cycles, or about 1.
    let violates = |row: &str| {
        let document = run(row);
        assert!(document.run.imposed[0].contains(row));
        let in_memory = of_metric(&document, "cpu.loop.iteration")[1].agreement;
        in_memory.is_some_and(Agreement::fails)
    };
    assert!(violates("skylake") || violates("zen4"));
}

/// ext4 without a journal skips inodes that were freed a short time ago: creating a file took ever
/// longer the more Fathom had deleted.
#[test]
#[ignore = "lab: compares times of three runs"]
fn file_cases_are_the_same_first_and_last() {
    let env = ProgramTestEnv::new();
    let run = |what: &str| -> Document {
        json(&env.command(&format!("run --quick --json {what}")).output().expect("it starts"))
    };
    let first = run("file.create file.delete");
    run("file");
    let last = run("file.create file.delete");
    assert_eq!(first.records.len(), last.records.len());
    for (first, last) in first.records.iter().zip(&last.records) {
        let ratio = median(last) / median(first);
        assert!((0.5..2.0).contains(&ratio), "{}: last {ratio:.2} × first", first.name());
    }
}

fn names(record: &Record, cause: Cause) -> bool {
    record.verdict.reasons.iter().any(|reason| reason.cause == cause)
}

#[test]
#[ignore = "lab: asserts verdicts on times"]
fn growing_work_is_drift() {
    let document = run_with("cpu.call", "FATHOM_SPIN", "cpu.call=0..80%");
    let calls = of_metric(&document, "cpu.call");
    let drifting = calls.iter().filter(|record| names(record, Cause::Drift)).count();
    assert!(2 * drifting > calls.len(), "{drifting} of {} drift", calls.len());
}

#[test]
#[ignore = "lab: throttling of a real group"]
fn cpu_quota_is_throttling_with_its_time() {
    let limits = [("cpu.cfs_period_us", 10_000), ("cpu.cfs_quota_us", 3_000)];
    let Some(group) = group("cpu", "lab-quota", &limits) else { return };
    let env = ProgramTestEnv::new();
    let document: Document = json(&env.exec_in(&group, "run --quick --json cpu.call"));
    for record in of_metric(&document, "cpu.call") {
        assert!(names(record, Cause::Throttled), "{}: {:?}", record.name(), record.verdict);
        assert!(record.disturbance.throttled_ns.is_some_and(|ns| ns > 0));
    }
}

/// A spinning thread on a CPU, until it is dropped.
struct BusyThread(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl BusyThread {
    fn on(cpu: u32) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&end);
        let spin = move || {
            affinity::pin(cpu).expect("an allowed CPU");
            while !ends.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        Self(end, Some(std::thread::spawn(spin)))
    }
}

impl Drop for BusyThread {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().map(JoinHandle::join);
    }
}

#[test]
#[ignore = "lab: contention by the scheduler"]
fn busy_thread_on_same_cpu_is_contention() {
    let env = ProgramTestEnv::new();
    let cpu = affinity::allowed()[0];
    let _busy = BusyThread::on(cpu);
    let run = format!("run --quick --json cpu.call --cpu {cpu}");
    let document: Document = json(&env.exec(&run));
    for record in of_metric(&document, "cpu.call") {
        assert!(names(record, Cause::Contention), "{}: {:?}", record.name(), record.verdict);
        assert!(record.disturbance.run_queue_ns.is_some_and(|ns| ns > 0));
    }
}

/// As two containers that choose one CPU: the mark of a run is an abstract socket, which they do
/// not share. The later run may end after the other.
#[test]
#[ignore = "lab: contention by the scheduler"]
fn runs_in_two_namespaces_on_one_cpu_are_contention() {
    let (env, cpu) = (ProgramTestEnv::new(), affinity::allowed()[0]);
    let start = |store: &str| {
        let mut command = Command::new("unshare");
        command.args(["-nmpiuf", "--mount-proc", env!("CARGO_BIN_EXE_fathom"), "run", "--quick"]);
        command.args(["--json", "cpu.call", "os.syscall", "--cpu", &cpu.to_string()]);
        command.args(["--store", &env.path_text(store)]).stdout(Stdio::piped());
        command.spawn().expect("unshare")
    };
    let both = ["a.db", "b.db"].map(start).map(|run| run.wait_with_output().expect("it ends"));
    let documents: [Document; 2] = both.each_ref().map(json);
    let contended = |it: &&Record| names(it, Cause::Contention);
    let counts = documents.each_ref().map(|it| it.records.iter().filter(contended).count());
    assert!(counts.iter().any(|count| *count > 0), "{counts:?}");
}

#[test]
fn wrong_system_call_result_is_invalid() {
    if let Some(why) = strace::obstacle() {
        return skipped(&why);
    }
    let env = ProgramTestEnv::new();
    let program = env!("CARGO_BIN_EXE_fathom");
    let mut traced = Command::new("strace");
    let calls = "/^epoll_p?wait$";
    let (trace, wrong) = (format!("trace={calls}"), format!("inject={calls}:retval=0:when=9+"));
    traced.args(["-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", &trace, "-e", &wrong]);
    traced.args([program, "run", "--quick", "--only", "--jsonl", "os.poll", "os.epoll"]);
    let output = traced.env("FATHOM_STORE", env.store()).output().expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document = env.latest();
    for (metric, is_wrong) in [("os.poll", false), ("os.epoll", true)] {
        let records = of_metric(&document, metric);
        assert!(!records.is_empty(), "{metric}");
        for record in records {
            assert_eq!(names(record, Cause::WrongWork), is_wrong, "{}", record.name());
            assert!(!is_wrong || !record.verdict.shows_number(), "{}", record.name());
        }
    }
    let shown = text(&env.run(&["show"]).stdout);
    let below = shown.lines().skip_while(|line| !line.starts_with("os.epoll"));
    let rows: Vec<&str> = below.filter(|line| line.trim_start().starts_with("{fds=")).collect();
    assert!(!rows.is_empty(), "{shown}");
    for row in rows {
        assert!(row.contains("invalid") && !row.contains(" ns"), "{row}");
    }
}

#[test]
#[ignore = "lab: sets the clock of the machine"]
fn wall_clock_step_is_recorded() {
    let env = ProgramTestEnv::new();
    let mut command = env.command("run --quick --json cpu.call");
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut set = Ok(());
    // Repeatedly, to its current value: some of these calls fall into the run.
    while set.is_ok() && child.try_wait().expect("a child").is_none() {
        let ns = clock::wall_ns();
        let (tv_sec, tv_nsec) = ((ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64);
        set = clock_settime(ClockId::Realtime, Timespec { tv_sec, tv_nsec });
        std::thread::sleep(Duration::from_millis(50));
    }
    let output = child.wait_with_output().expect("it ends");
    if let Err(error) = set {
        return skipped(&format!("setting the wall clock: {error}"));
    }
    let document: Document = json(&output);
    assert!(document.run.clock.wall_step_ns.is_some(), "{:?}", document.run.notes);
    assert_ne!(document.run.verdict.state, State::Invalid, "{:?}", document.run.verdict);
}
