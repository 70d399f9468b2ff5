//! A run of a fictitious machine with every kind of record.

use fathom_record::run::ClockFacts;
use fathom_record::summary::{Mode, Trimmed};
use fathom_record::{
    Basis, Cause, Document, Effort, Host, Interval, NoModel, NotSelected, Params, Prediction,
    Protocol, Reason, Record, Reference, ReferenceBasis, Remedy, Run, RunState, Sample, State,
    Stratum, Summary, Tool, Unit, Value, Verdict,
};
use fathom_report::Layout;
use unicode_width::UnicodeWidthStr;

/// The value in every record whose number must not be shown.
pub(crate) const FORBIDDEN: f64 = 7_654_321.987;

pub(crate) fn record(metric: &str, params: Params, unit: Unit) -> Record {
    Record::fixture(metric, unit).of_case(&params)
}

/// A measured record whose process medians are evenly within ± `spread` of `median`.
pub(crate) fn measured(
    metric: &str,
    params: Params,
    unit: Unit,
    median: f64,
    spread: f64,
) -> Record {
    let processes = 5;
    // Processes are not sorted by their values.
    let places = [0.0, -1.0, 0.4, 1.0, -0.5];
    let process_medians: Vec<f64> =
        places.iter().map(|place| median * (1.0 + spread * place)).collect();
    let mut record = record(metric, params, unit);
    record.summary = Some(Summary {
        n: 60,
        processes,
        median,
        interval: over([median * (1.0 - spread), median * (1.0 + spread)]),
        min: median * (1.0 - 2.0 * spread),
        max: median * (1.0 + 5.0 * spread),
        mean: median * (1.0 + spread / 4.0),
        sd: median * spread * 1.3,
        spread_between: spread * 0.8,
        trimmed: Some(Trimmed {
            n: 37,
            trials: 60,
            mean: median * 1.001,
            sd: median * spread * 0.6,
            se: median * spread * 0.1,
        }),
        process_medians,
        ..Summary::default()
    });
    record
}

/// The interval of five processes.
pub(crate) fn over(ends: [f64; 2]) -> Option<Interval> {
    Some(Interval::of_processes(ends))
}

/// A record in the given state with a value that must not be shown.
pub(crate) fn forbidden(metric: &str, params: Params, state: State, reason: Reason) -> Record {
    measured(metric, params, Unit::Nanoseconds, FORBIDDEN, 0.01)
        .predicted(4_000_000.0, 3_000_000.0, 0.3)
        .judged(state, vec![reason])
        .with_summary(|summary| {
            summary.modes = modes(FORBIDDEN, FORBIDDEN * 1.5);
            summary.clock_floor = Some(10.0);
        })
}

fn modes(first: f64, second: f64) -> Vec<Mode> {
    vec![Mode { at: first, share: 0.65 }, Mode { at: second, share: 0.35 }]
}

fn cpu() -> Vec<Record> {
    let ns = Unit::Nanoseconds;
    let args = |count| Params::one("args", count);
    vec![
        measured("cpu.clock.read", Params::none(), ns, 11.92, 0.002)
            .titled("One start/stop pair")
            .predicted(11.4, 0.0, 0.3),
        measured("cpu.clock.resolution", Params::none(), ns, 0.222_4, 0.0)
            .predicted(0.2223, 0.0, 0.05),
        measured("cpu.frequency", Params::none(), Unit::Hertz, 4.498e9, 0.001).claimed(
            Prediction {
                low: Some(3.4e9),
                high: Some(4.5e9),
                value: Some(4.5e9),
                hardware: Some(4.5e9),
                ..Prediction::default()
            },
        ),
        measured("cpu.call", args(0), ns, 1.334, 0.000_4)
            .titled("Call and return")
            .predicted(1.112, 0.222, 0.2)
            .selected(7, 1.335),
        measured("cpu.call", args(6), ns, 1.557, 0.12)
            .titled("Call and return")
            .predicted(1.112, 0.333, 0.2)
            .found(NotSelected::TooFewClean),
        measured("cpu.call", args(7), ns, 2.446, 0.01)
            .titled("Call and return")
            .without_model(NoModel::BetweenLevels)
            .with_summary(|summary| summary.modes = modes(2.2, 2.9)),
        measured("cpu.call.per_argument", Params::one("through", "register"), ns, 0.05, 0.9)
            .titled("Cost of one more argument")
            .predicted(0.05, 0.0, 0.3)
            .with_summary(|summary| summary.bound = Some(0.183_1)),
    ]
}

fn os() -> Vec<Record> {
    let ns = Unit::Nanoseconds;
    let call = |name: &str| Params::one("call", name);
    let rss = |mib: i64| Params::one("rss_bytes", mib << 20);
    let throttled =
        Reason::new(Cause::Throttled, "the CPU quota stopped it in 12 of 60 periods, for 410 ms")
            .with_remedy(Remedy::RaiseCpuQuota);
    vec![
        measured("os.syscall", call("getppid"), ns, 165.2, 0.003)
            .titled("System call")
            .predicted(60.0, 45.0, 0.2)
            .selected(11, 214.8),
        measured("os.syscall", call("open_close"), ns, 1_834.0, 0.31)
            .titled("System call")
            .predicted(60.0, 1_200.0, 0.3)
            .judged(
                State::Noisy,
                vec![
                    throttled,
                    Reason::new(Cause::Spread, "wide"),
                    Reason::new(Cause::TwoClusters, "two groups"),
                ],
            )
            .found(NotSelected::TooFewClean),
        forbidden(
            "os.syscall",
            call("read1"),
            State::Invalid,
            Reason::new(Cause::WrongWork, "bytes read: expected 1 per call, got 0"),
        ),
        measured("os.vdso.clock_gettime", Params::none(), ns, 14.61, 0.004)
            .claimed(Prediction::at_most(165.2, "less than a system call", "test")),
        measured("os.process.fork", rss(1), ns, 98_430.0, 0.02)
            .titled("fork, child exits, reaped")
            .predicted(30_000.0, 62_000.0, 0.3)
            .with_summary(|summary| summary.clusters = modes(97_200.0, 131_000.0)),
        measured("os.process.fork", rss(256), ns, 1_325_000.0, 0.04)
            .titled("fork, child exits, reaped")
            .predicted(400_000.0, 1_100_000.0, 0.3)
            .with_summary(|summary| {
                let interval = summary.interval.as_mut().expect("an interval");
                (interval.level, interval.basis) = (0.969, Basis::WithinRun);
                summary.processes = 1;
            }),
        measured("os.switch.thread", Params::one("set_bytes", 65_536), ns, 1_204.0, 0.01)
            .claimed(Prediction::at_least(1_625.0, "more than two system calls", "test")),
        forbidden(
            "os.wake.cross_cpu",
            Params::one("via", "futex"),
            State::Unavailable,
            Reason::new(Cause::Missing, "needs two CPUs, and this process is allowed one")
                .with_remedy(Remedy::SecondCpu),
        ),
        measured("os.signal.deliver", Params::none(), ns, 874.0, 0.01)
            .without_model(NoModel::SchedulersChoice)
            .with_summary(|summary| summary.clock_floor = Some(11.92)),
    ]
}

fn memory_and_files() -> Vec<Record> {
    let rate = Unit::BytesPerSecond;
    let gib = 1_073_741_824.0;
    let long = Params::one("file_bytes", 3i64 << 30)
        .and("block_bytes", 131_072)
        .and("order", "sequential")
        .and("state", "cold")
        .and("path", "zerocopy_registered_buffers");
    vec![
        measured(
            "memory.bandwidth",
            Params::one("op", "write_nt").and("threads", 2),
            rate,
            11.62 * gib,
            0.008,
        )
        .titled("Memory bandwidth")
        .predicted(12.2 * gib, 0.0, 0.15)
        .found(NotSelected::SecondCpu),
        measured("memory.cache.l2.size", Params::none(), Unit::Bytes, 524_288.0, 0.0).claimed(
            Prediction {
                low: Some(524_288.0),
                high: Some(524_288.0),
                value: Some(524_288.0),
                hardware: Some(524_288.0),
                ..Prediction::default()
            },
        ),
        forbidden(
            "memory.fault",
            Params::one("kind", "major"),
            State::Failed,
            Reason::new(Cause::Crashed, "worker killed by SIGBUS after 3 rounds"),
        ),
        forbidden(
            "memory.counters",
            Params::none(),
            State::Unavailable,
            Reason::new(Cause::Missing, "perf_event_open: permission denied")
                .with_remedy(Remedy::AllowCall),
        ),
        measured("file.read.throughput", long, rate, 1.9 * gib, 0.0)
            .titled("Reading a file")
            .predicted(2.0 * gib, 0.0, 0.3)
            .with_summary(|summary| {
                summary.n = 1;
                summary.processes = 1;
                summary.interval = None;
                summary.process_medians.truncate(1);
                summary.trimmed = None;
            }),
        text("file.checksum", "7f3a9c01"),
        text("file.cold", "COLD: no page resident at the start, by cachestat and mincore"),
        measured("load.throughput", Params::one("clients", 64), Unit::PerSecond, 12_345.6, 0.02)
            .titled("Requests completed per second")
            .predicted(11_000.0, 0.0, 0.2),
    ]
}

fn text(metric: &str, value: &str) -> Record {
    let mut record = record(metric, Params::none(), Unit::Ratio);
    record.value = Some(Value::Text(value.to_owned()));
    record
}

pub(crate) fn host() -> Host {
    let mut host = Host {
        name: "falcon".to_owned(),
        kernel: "6.18.44".to_owned(),
        virtualization: Some("kvm".to_owned()),
        ..Host::default()
    };
    host.cpu.model = "AMD EPYC 9654 96-Core Processor".to_owned();
    host.cpu.logical = 2;
    host.cpu.allowed = vec![0, 1];
    host.cpu.governor = Some("performance".to_owned());
    host.memory.total_bytes = Some(8_213_581_824);
    host.memory.page_bytes = 4_096;
    host.mitigations.insert("spectre_v2".to_owned(), "Mitigation: IBRS".to_owned());
    host
}

pub(crate) fn run() -> Run {
    Run {
        id: "0198c1a2b3c4d5e6".to_owned(),
        label: None,
        started: "2026-03-01T12:00:00Z".to_owned(),
        ended: Some("2026-03-01T12:04:12Z".to_owned()),
        duration_ns: Some(252e9),
        effort: Effort::Quick,
        protocol: Protocol::Median,
        seed: 7,
        asked: Vec::new(),
        procedure: None,
        // Tests take parts of its records.
        planned: 0,
        state: RunState::Complete,
        cpu: 1,
        cpu_reason: "less busy of two over 200 ms".to_owned(),
        reference: Some(Reference {
            loop_ns: 8_913.0,
            frequency_ns: 9_021.0,
            basis: ReferenceBasis::EarlierRuns,
            visits: 126,
            clean: 58,
            shared: 68,
            state: Some(Stratum::ToItself),
            ..Reference::default()
        }),
        left_out: Vec::new(),
        folder: None,
        clock: ClockFacts {
            source: "tsc".to_owned(),
            hz: 2.4e9,
            resolution_ns: 0.416_7,
            read_ns: 11.92,
            raw_ppm: Some(-1.23),
            monotonic_ppm: Some(3.9),
            ..ClockFacts::default()
        },
        tuned: Vec::new(),
        verdict: Verdict::default(),
        imposed: Vec::new(),
        notes: Vec::new(),
    }
}

pub(crate) fn document() -> Document {
    let mut records = cpu();
    records.extend(os());
    records.extend(memory_and_files());
    Document {
        schema: fathom_record::SCHEMA_VERSION,
        tool: Tool::fixture(),
        run: run(),
        host: host(),
        far: Vec::new(),
        records: records.into_iter().map(Record::sealed).collect(),
    }
}

pub(crate) fn sample(values: Vec<f64>) -> Sample {
    Sample { values, batch: 4_096, ..Sample::default() }
}

pub(crate) fn layout(width: usize) -> Layout {
    Layout { width, ..Layout::default() }
}

/// No line is wider, ends with blanks, or has an escape code of a record.
pub(crate) fn assert_fits(text: &str, width: usize) {
    let width = width.max(60);
    for line in plain(text).lines() {
        assert!(line.width() <= width, "{} of {width} columns: {line}", line.width());
        assert_eq!(line, line.trim_end(), "trailing blanks: {text}");
        assert!(!line.contains('\u{1b}'), "an escape code: {line:?}");
    }
}

/// The text without escape codes.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            letters.find(|end| *end == 'm');
        } else {
            plain.push(letter);
        }
    }
    plain
}
