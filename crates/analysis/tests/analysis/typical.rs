//! Typical ranges beside an independent computation, and hand-made cases.

use std::io::Write as _;
use std::process::{Command, Stdio};

use fathom_analysis::evidence;
use fathom_analysis::typical::{self, GROUP_MIN, machines};
use fathom_record::{
    Agreement, BETWEEN_LEVELS, Basis, Cause, Fact, Host, Interval, Params, Position, Record,
    Reference, State, Stratum, Unit, Verdict,
};

fn host(family: u32, model: u32, cpus: u32) -> Host {
    let mut host = Host::default();
    host.cpu.vendor = Some("AuthenticAMD".to_owned());
    (host.cpu.family, host.cpu.model_number) = (Some(family), Some(model));
    (host.cpu.logical, host.cpu.cores) = (cpus, Some(cpus));
    "AMD EPYC".clone_into(&mut host.cpu.model);
    host
}

fn genoa() -> Host {
    host(25, 17, 2)
}

fn latency(set: i64, ns: f64) -> Record {
    let params = Params::one("pattern", "random").and("page", "huge").and("set_bytes", set);
    record("memory.latency", Unit::Nanoseconds, ns).of_case(&params)
}

fn read_rate(threads: i64, rate: f64) -> Record {
    rate_of("read", threads, rate)
}

fn level(name: &str) -> Record {
    record(&format!("memory.latency.{name}"), Unit::Nanoseconds, 50.0)
}

fn rate_of(op: &str, threads: i64, rate: f64) -> Record {
    let params = Params::one("op", op).and("level", "dram").and("page", "huge");
    let params = params.and("threads", threads);
    record("memory.bandwidth", Unit::BytesPerSecond, rate).of_case(&params)
}

fn record(metric: &str, unit: Unit, value: f64) -> Record {
    Record::fixture(metric, unit).within(value, 0.01 * value)
}

/// Known from the published rows: 49 machine types, the slowest 139.8 ns.
#[test]
fn slow_memory_of_a_genoa_is_worse_than_all() {
    let found = typical::typical_of(&latency(128 << 20, 153.0), &genoa()).expect("a typical range");
    assert_eq!((found.n, found.better, found.worse), (49, 49, 0));
    assert_eq!(found.position, Position::Worse);
    assert_eq!(found.words(), "worse than all 49");
    assert_eq!(found.group(), "49 machine types with AMD EPYC Genoa and up to 4 CPUs");
    assert_eq!(
        format!("{:.1} {:.1} {:.1}", found.low, found.median, found.high),
        "96.5 109.6 128.3"
    );
}

#[test]
fn position_follows_the_number_and_the_direction() {
    let position =
        |record: &Record| typical::typical_of(record, &genoa()).expect("a range").position;
    assert_eq!(position(&latency(128 << 20, 109.6)), Position::Typical);
    assert_eq!(position(&latency(128 << 20, 109.6 * 1.5)), Position::Worse);
    assert_eq!(position(&latency(128 << 20, 80.0)), Position::Better);
    // The interval reaches into the range.
    assert_eq!(position(&latency(128 << 20, 129.0)), Position::Typical);
    let middle = typical::typical_of(&read_rate(2, 1e10), &genoa()).expect("a range").median;
    assert_eq!(position(&read_rate(2, middle)), Position::Typical);
    assert_eq!(position(&read_rate(2, 10.0 * middle)), Position::Better);
    assert_eq!(position(&read_rate(2, 0.1 * middle)), Position::Worse);
}

/// The same slow number is a finding only of a machine that was measured undisturbed.
#[test]
fn noisy_and_shared_numbers_are_not_judged() {
    let at = |ns| latency(128 << 20, ns).predicted(110.0, 0.0, 0.1);
    let slow = || at(153.0);
    let of = |record: &Record, clean: u32| {
        let core = Reference { visits: 200, clean, ..Reference::default() };
        let mut record = record.clone();
        typical::fill_record(&mut record, &genoa(), Some(&core));
        let agreement = evidence::shown_agreement(&record);
        let found = record.typical.expect("a range");
        // One judgement beside published machines and beside the prediction.
        assert_eq!(agreement == Some(Agreement::Outside), found.position == Position::Worse);
        (found.position, found.words())
    };
    assert_eq!(of(&slow(), 180), (Position::Worse, "worse than all 49".to_owned()));
    let mut noisy = slow();
    noisy.verdict = Verdict::because(State::Noisy, Cause::Spread, "why");
    assert_eq!(of(&noisy, 180), (Position::NotJudged, "not judged: noisy".to_owned()));
    let mut beside = slow();
    beside.verdict = Verdict::because(State::Valid, Cause::Steal, "CPU steal 12 %");
    assert_eq!(of(&beside, 180).1, "not judged: CPU steal 12 %");
    let mut single = slow();
    single.summary.as_mut().expect("a summary").interval = None;
    assert_eq!(of(&single, 180).1, "not judged: no interval");
    // Over all visits of a run whose core was shared.
    assert_eq!(of(&slow(), 1).1, "not judged: core shared, 0.50 % undisturbed");
    // What the range includes is typical, however it was measured.
    assert_eq!(of(&at(109.6), 1).0, Position::Typical);
    // Of the visits that had the core to themselves, as few as they are.
    let mut selected = slow();
    selected.summary.as_mut().expect("a summary").stratum = Stratum::ToItself;
    assert_eq!(of(&selected, 1).0, Position::Worse);
}

#[test]
fn rates_are_of_all_cores_and_of_machines_with_as_many_cpus() {
    assert_eq!(typical::typical_of(&read_rate(1, 1e10), &genoa()), None);
    let sizes = [2, 4].map(|cpus| {
        let found = typical::typical_of(&read_rate(cpus.into(), 1e10), &host(25, 17, cpus));
        found.and_then(|it| it.size).expect("a range of this size")
    });
    assert_eq!(sizes, ["2 CPUs", "4 CPUs"]);
    // Nobody measured one with 3.
    assert_eq!(typical::typical_of(&read_rate(3, 1e10), &host(25, 17, 3)), None);
}

#[test]
fn limits_between_two_levels_are_not_placed() {
    let mut record = latency(8 << 20, 50.0);
    assert!(typical::typical_of(&record, &genoa()).is_some());
    record.facts = vec![Fact::text(BETWEEN_LEVELS, "L3 and memory")];
    let summary = record.summary.as_mut().expect("a summary");
    summary.interval = Some(Interval::new([20.0, 120.0], 0.95, Basis::Processes));
    assert_eq!(typical::typical_of(&record, &genoa()), None);
}

#[test]
fn only_what_is_alike_is_placed() {
    let none = |record: &Record| assert_eq!(typical::typical_of(record, &genoa()), None);
    none(&latency(2 << 20, 10.0));
    none(&latency(100 << 20, 150.0));
    let mut small_pages = latency(128 << 20, 150.0);
    small_pages.params = small_pages.params.and("page", "4K");
    none(&small_pages);
    let mut invalid = latency(128 << 20, 150.0);
    invalid.verdict.state = fathom_record::State::Invalid;
    none(&invalid);
}

#[test]
fn cpu_and_size_choose_the_group() {
    let record = latency(64 << 20, 100.0);
    let group = |host: &Host| typical::typical_of(&record, host).map(|it| (it.cpu, it.size));
    let some = |cpu: &str, size: Option<&str>| Some((cpu.to_owned(), size.map(str::to_owned)));
    assert_eq!(group(&genoa()), some("AMD EPYC Genoa", Some("up to 4 CPUs")));
    assert_eq!(group(&host(25, 17, 16)), some("AMD EPYC Genoa", Some("5 to 16 CPUs")));
    assert_eq!(group(&host(25, 1, 2)), some("AMD EPYC Milan", Some("up to 4 CPUs")));
    // Fewer than 8 are known.
    assert_eq!(group(&host(23, 1, 2)), None);
    assert_eq!(group(&host(99, 1, 2)), None);
    let mut intel = host(6, 85, 2);
    intel.cpu.vendor = Some("GenuineIntel".to_owned());
    let of_stepping = |stepping| {
        let mut host = intel.clone();
        host.cpu.stepping = stepping;
        group(&host).map(|(cpu, _)| cpu)
    };
    assert_eq!(of_stepping(Some(4)).as_deref(), Some("Intel Xeon Skylake"));
    assert_eq!(of_stepping(Some(7)).as_deref(), Some("Intel Xeon Cascade Lake"));
    assert_eq!(of_stepping(None).as_deref(), Some("Intel Xeon Skylake to Cooper Lake"));
}

#[test]
fn unknown_cpu_is_said_with_its_nearest_kin_by_name() {
    assert_eq!(typical::absence(&genoa()), None);
    let mut unknown = host(77, 3, 2);
    "AMD EPYC 9V74 80-Core Processor rev 2".clone_into(&mut unknown.cpu.model);
    let text = typical::absence(&unknown).expect("no range");
    assert!(text.starts_with("no typical range for this CPU (AMD EPYC 9V74"), "{text}");
    assert!(text.ends_with("nearest by name: AMD EPYC Genoa"), "{text}");
    "Something else".clone_into(&mut unknown.cpu.model);
    let text = typical::absence(&unknown).expect("no range");
    assert_eq!(text, "no typical range for this CPU (Something else)");
}

#[test]
fn machine_types_are_found_by_name() {
    let machine = typical::find("aws/m9g.large").expect("in the collection");
    assert_eq!(machine.full_name(), "aws/m9g.large");
    let near = |name| typical::find(name).expect_err("not in the collection");
    assert_eq!(near("m9g.large"), "no machine type m9g.large, but aws/m9g.large");
    assert!(near("aws/m").ends_with(" and others"), "{}", near("aws/m"));
    let sizes = near("aws/m9g.huge");
    assert!(
        sizes.contains("nearest: aws/m9g.") && sizes.matches("aws/m9g.").count() == 6,
        "{sizes}"
    );
    assert!(near("nobody/none").ends_with("PROVIDER/TYPE, such as aws/m9g.large"));
    let value = typical::value_of(machine, &latency(64 << 20, 1.0), &genoa());
    assert!(value.is_some_and(|ns| (10.0..500.0).contains(&ns)), "{value:?}");
}

#[test]
fn collection_is_written_as_it_is_read() {
    let text = typical::collection(machines());
    assert_eq!(text, include_str!("../../../../data/typical/machines.csv"));
    assert_eq!(typical::rows(&text).expect("valid").as_slice(), machines());
    assert!(machines().len() >= 2_000, "{}", machines().len());
    let mut kinds: Vec<&str> = machines().iter().map(|one| one.kind.as_str()).collect();
    kinds.sort_unstable();
    let groups = kinds.chunk_by(|a, b| a == b).filter(|group| group.len() >= GROUP_MIN).count();
    assert!(groups >= 15, "{groups}");
}

#[test]
fn malformed_rows_are_refused_with_line_and_column() {
    let header =
        include_str!("../../../../data/typical/machines.csv").lines().next().expect("a header");
    let good = "p,t,AuthenticAMD,25,17,AMD EPYC 9B14,2,KVM,,2026-01-01,4194304:10.5,,,";
    let refused = |row: &str| typical::rows(&format!("{header}\n{row}\n")).expect_err(row);
    assert!(typical::rows(&format!("{header}\n{good}\n")).is_ok());
    for (from, to, column) in [
        ("p,t", ",t", "type"),
        ("p,t", "p,a/b", "type"),
        (",2,KVM", ",0,KVM", "cpus"),
        (",2,KVM", ",many,KVM", "cpus"),
        ("KVM,,", "KVM,-1,", "l3_bytes"),
        ("2026-01-01", "yesterday", "date"),
        ("4194304:10.5", "4194304:-1", "latency_ns"),
        ("4194304:10.5", "4194304:1e9", "latency_ns"),
        ("4194304:10.5", "8388608:1;4194304:1", "latency_ns"),
        ("4194304:10.5", "4194304", "latency_ns"),
        (",25,17,", ",x,17,", "cpu_name"),
    ] {
        let error = refused(&good.replace(from, to));
        assert!(error.starts_with(&format!("line 2: {column}: ")), "{error}");
    }
    let error = typical::rows("provider,type\n").expect_err("columns are missing");
    assert_eq!(error, "line 1: no column cpu_vendor");
}

/// Another program, from the same rows: all groups by CPU and size, their counts and percentiles.
#[test]
fn ranges_agree_with_an_independent_computation() {
    let script = include_str!("typical.py");
    let mut python = Command::new("python3")
        .args(["-", concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/typical/machines.csv")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is among what the tests need");
    python.stdin.take().expect("piped").write_all(script.as_bytes()).expect("it reads its program");
    let output = python.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let lines = String::from_utf8(output.stdout).expect("ASCII");
    let mut compared = 0;
    for line in lines.lines() {
        let cells: Vec<&str> = line.split(' ').collect();
        let [family, model, cpus, what, set, n, low, median, high] = cells[..] else {
            panic!("{line}")
        };
        let number = |text: &str| text.parse::<f64>().expect(line);
        let cpus = number(cpus) as u32;
        let host = host(number(family) as u32, number(model) as u32, cpus);
        let record = match what {
            "latency" => latency(number(set) as i64, 50.0),
            "read" | "write" | "copy" => rate_of(what, i64::from(cpus), 1e10),
            "dram" | "l3" => level(what),
            _ => panic!("{line}"),
        };
        let found = typical::typical_of(&record, &host).expect(line);
        assert_eq!(f64::from(found.n), number(n), "{line}");
        for (ours, theirs) in [(found.low, low), (found.median, median), (found.high, high)] {
            assert!((ours / number(theirs) - 1.0).abs() < 1e-9, "{line}: {ours}");
        }
        compared += 1;
    }
    assert!(compared >= 80, "{compared}");
}

/// Each machine of a group, left out and placed among the others, has the percentile that counting
/// gives.
#[test]
fn a_machine_is_where_counting_puts_it() {
    let set = 64 << 20;
    let mut seen: Vec<(f64, u32)> = Vec::new();
    for machine in machines().iter().filter(|one| one.kind == "AMD EPYC Genoa" && one.cpus <= 4) {
        let ns = typical::value_of(machine, &latency(set, 1.0), &genoa());
        let Some(ns) = ns else { continue };
        let found = typical::typical_of(&latency(set, ns), &genoa()).expect("a range");
        assert!(found.better + found.worse < found.n, "itself is neither");
        seen.push((ns, found.better));
    }
    seen.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(seen.len() >= GROUP_MIN);
    for (at, (ns, better)) in seen.iter().enumerate() {
        let faster = seen[..at].iter().filter(|(other, _)| other < ns).count();
        assert_eq!(*better as usize, faster, "{ns}");
    }
}
