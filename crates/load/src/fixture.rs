//! Canned parts of a load, a recorder that keeps what it gets, and its text for golden files.

use std::sync::Arc;
use std::time::Duration;

use fathom_analysis::load::SLOTS;
use fathom_measure::Clock;
use fathom_metric::{Event, Measured, Recorder, Stop};
use fathom_record::quantity::{bare, quantity};
use fathom_record::{
    Fact, FactValue, FarHost, Host, Interval, LoadSlot, LoadThread, LoadWindow, MetricId, NoModel,
    Params, Prediction, Record, Verdict,
};
use snapbox::data::DataFormat;
use snapbox::{Assert, Data};

use crate::control::Control;
use crate::engine::{End, Fault, Outcome, Tally};
use crate::figures::{Device, LoadTelemetry};
use crate::metrics;
use crate::requests::{Fields, Requests};
use crate::target::Target;

/// Compares with a file in `golden/`; `SNAPSHOTS=overwrite` writes it anew.
pub fn assert_golden(name: &str, text: &str) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    let expected = Data::read_from(&file, Some(DataFormat::Text)).raw();
    Assert::new().action_env("SNAPSHOTS").eq(Data::text(text).raw(), expected);
}

/// Keeps the text of all that it gets.
pub struct Texts {
    pub all: String,
    pub records: Vec<Record>,
    pub verdicts: Vec<Verdict>,
    stop: Stop,
    host: Host,
}

impl Texts {
    pub fn new() -> Self {
        let stop = Stop::new(Arc::default(), Arc::default(), || unreachable!("no read hangs"));
        let (records, verdicts) = (Vec::new(), Vec::new());
        Self { all: String::new(), records, verdicts, stop, host: Host::default() }
    }
}

impl Recorder for Texts {
    fn clock(&self) -> &Clock {
        unreachable!("canned work reads no clock")
    }

    fn stop(&self) -> &Stop {
        &self.stop
    }

    fn host(&self) -> &Host {
        &self.host
    }

    fn cpu(&self) -> u32 {
        0
    }

    fn known(&self) -> &[Record] {
        &[]
    }

    fn predicted(&self, _: &str, _: &Params) -> Result<Prediction, NoModel> {
        Err(NoModel::WorkOfServer)
    }

    fn record(&mut self, measured: Measured) -> Record {
        self.all += &words(&measured);
        let about = metrics::ALL.iter().map(|one| &one.0);
        let about = about.into_iter().find(|one| one.id == measured.metric).expect("a metric");
        self.verdicts.extend(measured.verdict);
        let (unit, better) = (about.unit, about.better);
        let id = MetricId::new(about.id);
        let mut record = Record::new(id, measured.params, about.title, unit, better);
        record.facts = measured.facts;
        self.records.push(record.clone());
        record
    }

    fn draft(&mut self, make: &mut dyn FnMut(&mut dyn Recorder)) {
        make(self);
    }

    fn show(&mut self) {}

    fn set_seed(&mut self, _: u64) {}

    fn add_far(&mut self, _: FarHost) {}

    fn event(&mut self, event: Event<'_>) {
        self.all += &match event {
            Event::Progress { done, all, what } => format!("{done} of {all}: {what}\n"),
            Event::Warning(text) | Event::Plan(text) => format!("{text}\n"),
            Event::Second(second) => serde_json::to_string(second).expect("plain data") + "\n",
        };
    }

    fn confirm(&mut self, _: &str, _: bool) -> bool {
        true
    }
}

/// All of a record, with numbers of few digits: logarithms are not the same on every machine.
pub fn words(one: &Measured) -> String {
    let list = |values: &[f64]| values.iter().map(|it| bare(*it)).collect::<Vec<_>>().join(" ");
    let ends = |interval: &Interval| format!(" ({})", list(&[interval.low, interval.high]));
    let fact = |fact: &Fact| match &fact.value {
        FactValue::Quantity { value, unit } => {
            format!("  {}: {}\n", fact.name, quantity(*value, *unit))
        }
        FactValue::Text { text } | FactValue::Line { line: text } => {
            format!("  {}: {text}\n", fact.name)
        }
    };
    let about = metrics::ALL.iter().map(|it| &it.0).find(|it| it.id == one.metric);
    let unit = about.expect("a metric").unit;
    let mut text = format!("{}{} in {unit:?}", one.metric, one.params);
    if let Some((value, interval)) = &one.headline {
        text += &format!(": {}{}", bare(*value), interval.as_ref().map_or(String::new(), ends));
    }
    text += &one.text.as_ref().map_or(String::new(), |text| format!(": {text}"));
    text += &format!("\n  values: {}\n", list(&one.values));
    if let Some(histogram) = &one.histogram {
        text += &format!("  times: {}, at most {}\n", histogram.len(), bare(histogram.max()));
    }
    if let Some(Verdict { state, reasons }) = &one.verdict {
        text += &format!("  {}\n", state.word());
        for reason in reasons.iter().chain(&one.doubts).chain(&one.remarks) {
            let remedy = reason.remedy.as_ref().map_or(String::new(), |it| format!("; {it:?}"));
            text += &format!("  {:?}: {}{remedy}\n", reason.cause, reason.text);
        }
    }
    one.facts.iter().for_each(|one| text += &fact(one));
    for check in &one.checks {
        text += &format!("  {}: {} ({})\n", check.name, check.detail, check.passed);
    }
    one.notes.iter().for_each(|note| text += &format!("  note: {note}\n"));
    text
}

/// 20 files of 64 kB; of `fathom serve` where there is a control connection, which is never opened.
pub fn target(is_ours: bool) -> Target {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 8080));
    let fields = Fields { host: "far".to_owned(), ..Fields::default() };
    let files: Vec<_> = (0..20).map(|at| (format!("/f{at}"), Some(64_000))).collect();
    let control = Control::new(address, "far", &[], Duration::from_secs(1));
    Target {
        address: address.into(),
        requests: Arc::new(Requests::new(&files, &fields)),
        first_ns: 1_000_000,
        fields,
        file_bytes: Some(64_000),
        control: is_ours.then_some(control),
        far: None,
        local: None,
        is_loopback_path: false,
        to: "far".to_owned(),
        server: "a server".to_owned(),
        congestion: Some("cubic".to_owned()),
        contents: None,
        tls: None,
        tls_words: None,
        resolve_ns: None,
        follow: None,
        is_cold: false,
        warnings: Vec::new(),
    }
}

/// A sweep of 1.25 s whose slots have these completions, each after `response_ns`.
pub fn outcome(counts: [u64; SLOTS], response_ns: f64) -> Outcome {
    let slot = |count: u64| LoadSlot {
        ns: 125_000_000,
        completed: count,
        partial: 0.0,
        body_bytes: 64_000 * count,
        received_bytes: 66_000 * count,
        sum_ns: response_ns * count as f64,
        times: (0..count).map(|at| response_ns + at as f64).collect(),
        times_from_send: None,
    };
    let thread = |part: u64| LoadThread {
        cpu_ns: part * 50_000_000,
        wait_ns: part * 10_000_000,
        wall_ns: 1_250_000_000,
    };
    let completed = counts.iter().sum();
    let window = LoadWindow {
        window_ns: 1_250_000_000,
        is_settled: true,
        slots: counts.map(slot).to_vec(),
        statuses: [(200, completed)].into(),
        connections: 4,
        longest_in_flight_ns: 31_000_000,
        lag_ns: 50_000.0 * completed as f64,
        lags: completed,
        threads: [3, 2].map(thread).to_vec(),
        ..LoadWindow::default()
    };
    Outcome { tally: Tally { window, ..Tally::default() }, end: End::Complete }
}

/// The same with another window.
pub fn changed(mut outcome: Outcome, change: impl FnOnce(&mut LoadWindow)) -> Outcome {
    change(&mut outcome.tally.window);
    outcome
}

/// The same with failed requests.
pub fn failing(mut outcome: Outcome, fault: Fault, count: u64) -> Outcome {
    outcome.tally.window_faults.insert(fault, count);
    outcome.tally.window.faults.insert(fault.to_string(), count);
    outcome
}

/// The counters of a server after this many windows like those of [`outcome`].
pub fn telemetry(windows: u64) -> LoadTelemetry {
    LoadTelemetry {
        at_ns: windows * 1_250_000_000,
        cpu_ns: windows * 500_000_000,
        responses: windows * 150,
        bytes_sent: windows * 9_600_000,
        bytes_on_wire: Some(windows * 9_900_000),
        busy_ns: windows * 300_000_000,
        reactor_cpu_ns: windows * 400_000_000,
        reactor_wait_ns: windows * 25_000_000,
        threads: Some(2),
        cpus: Some(4.0),
        read_bytes: Some(windows * 4_800_000),
        device: Some(Device {
            reads: windows * 75,
            read_bytes: windows * 5_000_000,
            busy_ns: Some(windows * 125_000_000),
        }),
        tcp_retransmits: Some(windows * 3),
        ..LoadTelemetry::default()
    }
}
