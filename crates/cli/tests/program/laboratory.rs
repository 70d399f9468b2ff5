//! What a laboratory imposes is seen: in the numbers, in their verdicts, and in what a run says of
//! itself.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fathom_lab::strace;
use fathom_measure::{affinity, clock};
use fathom_record::{Agreement, Cause, Document, Record, State};
use rustix::time::{ClockId, Timespec, clock_settime};

use super::group::{group, skipped};
use super::place::{document, json, median, of_metric};
use super::{Place, is_refused, text};

/// A quick run of one metric with this imposed.
fn imposed(metric: &str, name: &str, value: &str) -> Document {
    let place = Place::new();
    let arguments = ["run", "--quick", "--json", metric];
    document(&place.fathom(&arguments).env(name, value).output().expect("the program starts"))
}

/// The median of a case over that of the undisturbed loop, so that a slow machine cancels out.
fn relative(document: &Document) -> f64 {
    let frequency = of_metric(document, "cpu.frequency")[0];
    of_metric(document, "cpu.call").iter().map(|record| median(record)).sum::<f64>()
        * median(frequency)
}

#[test]
fn a_hidden_spin_is_measured_told_and_makes_predictions_differ() {
    let dosed = |dose: &str| {
        let document = imposed("cpu.call", "FATHOM_SPIN", &format!("cpu.call={dose}"));
        assert!(document.run.imposed[0].starts_with("FATHOM_SPIN=cpu.call="));
        document
    };
    // The core of a guest may slow down between two runs: a pair that met the same core is enough.
    let mut factors = Vec::new();
    let doubled = loop {
        let [plain, doubled] = ["0%", "100%"].map(dosed);
        let factor = relative(&doubled) / relative(&plain);
        factors.push(factor);
        if (1.6..2.4).contains(&factor) {
            break doubled;
        }
        assert!(factors.len() < 4, "a dose of 100 % made it {factors:.2?} times as dear");
    };
    let modelled = |record: &&&Record| record.prediction.is_some();
    let calls = of_metric(&doubled, "cpu.call");
    for record in calls.iter().filter(modelled) {
        assert!(!record.agreement.is_some_and(Agreement::holds), "{}", record.name());
    }
    let frequency = of_metric(&doubled, "cpu.frequency")[0];
    assert!(!frequency.agreement.is_some_and(Agreement::fails), "only the named metric is dosed");
}

#[test]
fn with_a_wrong_row_of_the_table_what_depends_on_it_differs() {
    let place = Place::new();
    let run = |row: &str| -> Document {
        let mut run = place.asked("run --quick --json cpu.loop.iteration");
        json(&run.env("FATHOM_UARCH", row).output().expect("the program starts"))
    };
    // One of the two is wrong on any core: a counter in memory costs 5 cycles, or at most 2.
    let differing = |row: &str| {
        let document = run(row);
        assert!(document.run.imposed[0].contains(row));
        let in_memory = of_metric(&document, "cpu.loop.iteration")[1].agreement;
        !in_memory.is_some_and(Agreement::holds)
    };
    assert!(differing("broadwell") || differing("zen4"));
}

#[test]
fn a_dose_that_cannot_be_is_refused() {
    let place = Place::new();
    for (dose, part) in [("cpu.cal=1%", "no such metric"), ("cpu.call=x", "no percentage")] {
        let mut run = place.asked("run --quick cpu.call");
        let output = run.env("FATHOM_SPIN", dose).output().expect("the program starts");
        is_refused(&output, &["FATHOM_SPIN", dose, part]);
    }
}

fn names(record: &Record, cause: Cause) -> bool {
    record.verdict.reasons.iter().any(|reason| reason.cause == cause)
}

#[test]
fn work_that_grows_over_a_visit_is_called_drift() {
    let document = imposed("cpu.call", "FATHOM_SPIN", "cpu.call=0..80%");
    let calls = of_metric(&document, "cpu.call");
    let drifting = calls.iter().filter(|record| names(record, Cause::Drift)).count();
    assert!(2 * drifting > calls.len(), "{drifting} of {} drift", calls.len());
}

#[test]
fn a_quota_is_named_with_the_time_that_it_took() {
    let limits = [("cpu.cfs_period_us", 10_000), ("cpu.cfs_quota_us", 3_000)];
    let Some(group) = group("cpu", "lab-quota", &limits) else { return };
    let place = Place::new();
    let document: Document = json(&place.ask_within(&group, "run --quick --json cpu.call"));
    for record in of_metric(&document, "cpu.call") {
        assert!(names(record, Cause::Throttled), "{}: {:?}", record.name(), record.verdict);
        assert!(record.disturbance.throttled_ns.is_some_and(|ns| ns > 0));
    }
}

/// Another thread on a CPU, which takes turns with whoever wants it, until it is dropped.
struct Busy(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Busy {
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

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().map(JoinHandle::join);
    }
}

#[test]
fn a_neighbour_on_the_same_cpu_is_named_with_the_time_that_it_took() {
    let place = Place::new();
    let cpu = affinity::allowed()[0];
    let _busy = Busy::on(cpu);
    let run = format!("run --quick --json cpu.call --cpu {cpu}");
    let document: Document = json(&place.ask(&run));
    for record in of_metric(&document, "cpu.call") {
        assert!(names(record, Cause::Contention), "{}: {:?}", record.name(), record.verdict);
        assert!(record.disturbance.run_queue_ns.is_some_and(|ns| ns > 0));
    }
}

#[test]
fn a_system_call_that_answers_wrongly_is_invalid_and_its_number_is_not_shown() {
    if let Some(why) = strace::obstacle() {
        return skipped(&why);
    }
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_fathom");
    let mut traced = Command::new("strace");
    let calls = "/^epoll_p?wait$";
    let (trace, wrong) = (format!("trace={calls}"), format!("inject={calls}:retval=0:when=9+"));
    traced.args(["-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", &trace, "-e", &wrong]);
    traced.args([program, "run", "--quick", "--jsonl", "os.poll", "os.epoll"]);
    let output = traced.env("FATHOM_STORE", place.store()).output().expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document = place.latest();
    for (metric, is_wrong) in [("os.poll", false), ("os.epoll", true)] {
        let records = of_metric(&document, metric);
        assert!(!records.is_empty(), "{metric}");
        for record in records {
            assert_eq!(names(record, Cause::WrongWork), is_wrong, "{}", record.name());
            assert_eq!(record.verdict.shows_number(), !is_wrong, "{}", record.name());
        }
    }
    let shown = text(&place.run(&["show"]).stdout);
    let below = shown.lines().skip_while(|line| !line.starts_with("os.epoll"));
    let rows: Vec<&str> = below.filter(|line| line.contains("fds=")).collect();
    assert!(!rows.is_empty(), "{shown}");
    for row in rows {
        assert!(row.contains("invalid") && !row.contains(" ns"), "{row}");
    }
}

#[test]
fn a_digit_that_changed_in_the_store_is_noticed_and_no_table_is_printed() {
    let place = Place::new();
    place.short_run();
    let shown = place.run(&["show"]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let mut bytes = std::fs::read(place.store()).expect("a store");
    let name = br#""median":"#;
    // Everywhere: where a page was split a copy is left that nobody reads.
    let places: Vec<usize> = bytes
        .windows(name.len())
        .enumerate()
        .filter(|(_, one)| one == name)
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty(), "a record");
    for at in places {
        let digit = &mut bytes[at + name.len()];
        *digit = if *digit == b'9' { b'1' } else { *digit + 1 };
    }
    std::fs::write(place.store(), bytes).expect("a store");
    let shown = place.run(&["show"]);
    assert_eq!(shown.status.code(), Some(1));
    assert!(text(&shown.stderr).contains("is damaged"), "{}", text(&shown.stderr));
    assert!(shown.stdout.is_empty(), "{}", text(&shown.stdout));
}

#[test]
fn a_wall_clock_that_was_set_is_told_and_spoils_nothing() {
    let place = Place::new();
    let mut command = place.asked("run --quick --json cpu.call");
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut set = Ok(());
    // Again and again, to what it is: some of it falls into the run.
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
    let told = document.run.clock.wall_step_ns.is_some();
    assert!(told, "{:?}", document.run.notes);
    assert_ne!(document.run.verdict.state, State::Invalid, "{:?}", document.run.verdict);
}
