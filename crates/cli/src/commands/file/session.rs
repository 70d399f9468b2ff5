//! What the commands by hand share: the clock, who is to stop them, earlier results for the
//! models, and the way of a result into the store, the terminal or JSON.
//!
//! No workers and no pinning: a command by hand runs as any program does, and costs what it
//! measures. Everything is kept at the end, so that the store's writes fall between no two reads.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use fathom_measure::clock::{self, CalibrationError, Clock, Watch};
use fathom_measure::sampler::{KernelCounters, Observer};
use fathom_measure::{affinity, host};
use fathom_probes::{About, Entry, Known};
use fathom_record::{
    Cause, Check, Disturbance, Document, Effort, Host, MetricId, NoModel, Params, Prediction,
    Protocol, Reason, Record, Run, RunState, SCHEMA_VERSION, Sample, State, Verdict,
};
use fathom_report::by_hand;
use fathom_store::Store;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::event::{PollFd, PollFlags, poll};

use super::stop::Stop;
use crate::arguments::file::Common;
use crate::commands::start;
use crate::exit::{Status, Usage};
use crate::live::timestamp;
use crate::pipeline;
use crate::terminal::{self, Output};

/// So often a bar is drawn anew.
const LOOK: Duration = Duration::from_millis(200);

/// One command by hand.
pub(super) struct Session {
    json: bool,
    samples: bool,
    output: Output,
    width: usize,
    watch: Watch,
    begun_ns: u64,
    host: Host,
    run: Run,
    store: Option<Store>,
    unkept: Option<String>,
    earlier: Vec<Record>,
    records: Vec<Record>,
    stop: Stop,
}

/// What was measured of one case.
#[derive(Default)]
pub(super) struct Measured {
    /// The metric, which is registered.
    pub(super) metric: &'static str,
    /// The case.
    pub(super) params: Params,
    /// A value for each pass, in the metric's unit.
    pub(super) values: Vec<f64>,
    /// Whether each value comes from processes of its own, and not all from this one.
    pub(super) in_fresh_processes: bool,
    /// Whether the values are slopes or differences, which may lie around nothing.
    pub(super) is_difference: bool,
    /// What the counters say of all passes.
    pub(super) disturbance: Disturbance,
    /// What was verified of the work.
    pub(super) checks: Vec<Check>,
    /// The verdict where the work itself decides it, whatever the values.
    pub(super) verdict: Option<Verdict>,
    /// What speaks against the number though it stands.
    pub(super) doubts: Vec<Reason>,
    /// What held the number where it is, though nothing speaks against it.
    pub(super) remarks: Vec<Reason>,
    /// Facts beside the number.
    pub(super) notes: Vec<String>,
    /// What was predicted beforehand, where that rests on what is so at the moment; the metric's
    /// own model otherwise.
    pub(super) prediction: Option<Prediction>,
}

impl Session {
    /// Begins. `asked` is the command as it was typed, without the program.
    pub(super) fn begin(common: &Common, asked: String) -> anyhow::Result<Self> {
        Self::with(common, asked, Watch::begin)
    }

    /// Begins without calibrating: for a command that lasts about as long as that would.
    pub(super) fn at_once(common: &Common, asked: String) -> anyhow::Result<Self> {
        Self::with(common, asked, |_| Watch::of_kernel())
    }

    fn with(
        common: &Common,
        asked: String,
        watch: impl FnOnce(&Host) -> Result<Watch, CalibrationError>,
    ) -> anyhow::Result<Self> {
        let begun_ns = clock::monotonic_raw_ns();
        let stop = Stop::listen().context("listen to signals")?;
        let mut host = host::read();
        start::check_environment(&host)?;
        let (store, unkept) = match start::open_store(&common.store)? {
            Ok(store) => (Some(store), None),
            Err(why) => (None, Some(why)),
        };
        let watch = watch(&host).context("calibrate the clock")?;
        start::note_counter_rate(&mut host, &watch);
        let run = Run {
            id: start::run_id(),
            started: timestamp(),
            ended: None,
            duration_ns: None,
            effort: Effort::Quick,
            protocol: Protocol::Median,
            seed: 0,
            asked: vec![asked],
            planned: 0,
            state: RunState::Running,
            cpu: affinity::allowed().first().copied().unwrap_or_default(),
            cpu_reason: "by hand: not pinned, as any program runs".to_owned(),
            clock: watch.facts(),
            tuned: Vec::new(),
            verdict: Verdict::default(),
            notes: start::imposed(),
        };
        Ok(Self {
            json: common.json,
            samples: common.samples,
            output: Output::new(),
            width: terminal::width(),
            watch,
            begun_ns,
            host,
            run,
            store,
            unkept,
            earlier: Vec::new(),
            records: Vec::new(),
            stop,
        })
    }

    pub(super) fn clock(&self) -> &Clock {
        self.watch.clock()
    }

    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Columns of the terminal.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Prints a text for people; nothing under `--json`.
    pub(super) fn say(&mut self, text: &str) {
        if !self.json {
            self.output.write(text);
        }
    }

    /// Prints names and what they stand for, under each other.
    pub(super) fn say_facts(&mut self, facts: &[(&str, String)]) {
        let text = by_hand::facts(facts, self.width);
        self.say(&text);
    }

    /// A progress bar over so many steps on the terminal, where there is one.
    pub(super) fn bar(&self, steps: u64) -> ProgressBar {
        if !terminal::shows_progress() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:24} {percent:>3} %  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar
    }

    /// Reads something, with a bar on the way where a person looks. Whoever reads counts bytes; the
    /// bar looks at the count now and then, from a thread of its own.
    pub(super) fn watched<T>(&self, bytes: u64, work: impl FnOnce(Option<&AtomicU64>) -> T) -> T {
        let bar = self.bar(bytes);
        if bar.is_hidden() {
            return work(None);
        }
        let (read, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let read = read.load(Ordering::Relaxed);
                    bar.set_position(read);
                    bar.set_message(size(read));
                    std::thread::park_timeout(LOOK);
                }
            });
            let done = work(Some(&read));
            is_done.store(true, Ordering::Relaxed);
            watcher.thread().unpark();
            bar.finish_and_clear();
            done
        })
    }

    /// Does something, and tells what the counters say of it.
    pub(super) fn observed<T>(&self, work: impl FnOnce(&Clock) -> T) -> (T, Disturbance) {
        let waits = fathom_record::Counters::DEVICE;
        let mut counters = KernelCounters::new(self.run.cpu, waits);
        counters.begin_visit();
        let done = work(self.watch.clock());
        (done, counters.end_visit())
    }

    /// The newest believable results of these metrics on this host, for models to come.
    pub(super) fn recall(&mut self, metrics: &[&str]) {
        let Some(store) = &self.store else { return };
        for metric in metrics {
            // A store that cannot be read leaves the number without a model, and that is said.
            let Ok((documents, _)) = store.of_metric(metric) else { continue };
            let of_this_host = |document: &&Document| document.host.name == self.host.name;
            // Oldest first: of several results of a case the newest is found first.
            let records = documents.iter().filter(of_this_host).flat_map(|one| &one.records);
            self.earlier.extend(records.cloned());
        }
    }

    /// What is known by now: earlier results, then this command's own.
    pub(super) fn known(&self) -> Vec<Record> {
        self.earlier.iter().chain(&self.records).cloned().collect()
    }

    /// Makes a record of what was measured, and keeps it.
    ///
    /// # Panics
    /// For a metric that is not registered: a mistake in this program.
    pub(super) fn record(&mut self, measured: Measured) -> Record {
        let entry = fathom_probes::find(measured.metric).expect("a registered metric");
        let record = self.made(entry, measured).sealed();
        self.records.push(record.clone());
        record
    }

    fn made(&self, entry: &Entry, measured: Measured) -> Record {
        let about: &About = entry.about();
        let metric = MetricId::new(about.id);
        let samples = samples(&measured, self.run.cpu);
        let mut record =
            Record::new(metric, measured.params, about.title, about.unit, about.better);
        record.visit = format!("{}/{}", self.run.id, record.name());
        // Also where there is no value: what was counted then tells why.
        for check in samples.iter().flat_map(|sample| &sample.checks) {
            record.checks.insert(check.name.clone(), check.detail.clone());
        }
        pipeline::fill(
            &mut record,
            about,
            &samples,
            measured.is_difference,
            self.run.clock.read_ns,
        );
        if let Some(verdict) = measured.verdict {
            record.verdict = verdict;
        }
        if record.verdict.shows_number() && !measured.doubts.is_empty() {
            record.verdict.state = State::Noisy;
            record.verdict.reasons.splice(0..0, measured.doubts);
        }
        if self.stop.is_by_person() && record.verdict.shows_number() {
            let reason = Reason::new(Cause::Interrupted, "stopped before its end");
            record.verdict.state = State::Noisy;
            record.verdict.reasons.insert(0, reason);
        }
        for reason in &mut record.verdict.reasons {
            // By hand no CPU can be chosen.
            if reason.next.contains("--cpu") {
                reason.next = "stop them, and measure again".to_owned();
            }
        }
        if record.verdict.shows_number() {
            record.verdict.reasons.extend(measured.remarks);
        }
        record.notes.extend(measured.notes);
        let predicted = || self.predicted(about.id, &record.params);
        let prediction = measured.prediction.map_or_else(predicted, Ok);
        pipeline::set_prediction(&mut record, prediction);
        self.name_origins(&mut record);
        record.samples = Some(samples);
        record
    }

    /// What a case should give, by what is known so far.
    ///
    /// # Errors
    /// Why there is no model.
    ///
    /// # Panics
    /// For a metric that is not registered: a mistake in this program.
    pub(super) fn predicted(&self, metric: &str, params: &Params) -> Result<Prediction, NoModel> {
        let entry = fathom_probes::find(metric).expect("a registered metric");
        let known = self.known();
        let known = Known::new(&known).under(&self.run.clock).on(&self.host);
        entry.predict(params, &self.host, &known)
    }

    /// Says of what a model rests on, or lacks, where it comes from: mostly from runs before.
    fn name_origins(&self, record: &mut Record) {
        let is_own = |name: &str| self.records.iter().any(|record| record.name() == name);
        for input in record.prediction.iter_mut().flat_map(|one| &mut one.inputs) {
            if input.origin.starts_with("this run: ") && !is_own(&input.name) {
                input.origin = input.origin.replacen("this run", "an earlier run", 1);
            }
        }
        if let Some(none) = &mut record.no_model {
            let here = "has no kept result on this host: `fathom run` of it gives one";
            none.0 = none.0.replace("has no result in this run", here);
        }
    }

    /// Whether nothing was recorded so far.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Keeps something that was found of several results together.
    pub(super) fn note(&mut self, text: String) {
        self.run.notes.push(text);
    }

    /// Whether a person, asked on the terminal, lets this go on; without a terminal nobody is
    /// asked.
    pub(super) fn may_go_on(&self, text: &str) -> bool {
        let stdin = std::io::stdin();
        if !(stdin.is_terminal() && terminal::shows_progress()) {
            return true;
        }
        terminal::warn(&format!("{text}. Go on? [y/N]"));
        let mut answer = String::new();
        // A signal ends the wait, where it would not end the read. What cannot be read is no yes.
        let is_there = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None).is_ok();
        is_there
            && stdin.read_line(&mut answer).is_ok()
            && matches!(answer.trim(), "y" | "Y" | "yes")
    }

    /// Prints what was predicted of a result, and the verdict on it.
    pub(super) fn say_standing(&mut self, record: &Record) {
        let text = by_hand::standing(record, self.width);
        self.say(&text);
    }

    /// Ends: keeps the run and prints the document where that was asked for.
    pub(super) fn end(mut self) -> anyhow::Result<Status> {
        let whole = self.watch.end();
        self.run.clock.raw_ppm = Some(whole.raw_ppm);
        self.run.clock.monotonic_ppm = Some(whole.monotonic_ppm);
        if let Some(failure) = whole.failure() {
            self.run.verdict = Verdict::because(State::Invalid, Cause::Clock, failure.clone());
            terminal::warn(&format!("no number of this command can be believed: {failure}"));
        }
        let by_person = self.stop.is_by_person();
        self.run.state = if by_person { RunState::Interrupted } else { RunState::Complete };
        self.run.ended = Some(timestamp());
        self.run.duration_ns = Some((clock::monotonic_raw_ns() - self.begun_ns) as f64);
        self.run.planned = self.records.len() as u64;
        let mut document = Document {
            schema: SCHEMA_VERSION,
            tool: start::tool(),
            run: self.run,
            host: self.host,
            records: self.records,
        };
        let failed = match self.store.as_mut().map(|store| keep(store, &document)) {
            Some(Err(error)) => {
                terminal::warn(&format!("not kept: {error}"));
                true
            }
            _ => {
                self.unkept.iter().for_each(|why| terminal::warn(&format!("not kept: {why}")));
                false
            }
        };
        if self.json {
            if !self.samples {
                document.records.iter_mut().for_each(|record| record.samples = None);
            }
            self.output.write(&fathom_report::document_json(&document));
        }
        match crate::commands::printed(&self.output)? {
            Status::Done if failed => Ok(Status::Failed),
            Status::Done if by_person => Ok(Status::Interrupted),
            status => Ok(status),
        }
    }
}

/// The values as those of one process, or of as many as there are.
fn samples(measured: &Measured, cpu: u32) -> Vec<Sample> {
    let whole = measured.values.len().max(1);
    let share = if measured.in_fresh_processes { 1 } else { whole };
    let mut values = measured.values.chunks(share);
    let sample = |process: usize| Sample {
        process: process as u32,
        cpu,
        batch: 1,
        values: values.next().unwrap_or_default().to_vec(),
        ..Sample::default()
    };
    let mut samples: Vec<Sample> = (0..whole.div_ceil(share)).map(sample).collect();
    // Counted over all of them.
    samples[0].disturbance = measured.disturbance.clone();
    samples[0].checks = measured.checks.clone();
    samples
}

fn keep(store: &mut Store, document: &Document) -> Result<(), fathom_store::StoreError> {
    // A command that measured nothing leaves no run behind.
    if document.records.is_empty() {
        return Ok(());
    }
    store.import(document).map(|_| ())
}

/// A mistake in what was asked for.
pub(super) fn refuse(text: impl std::fmt::Display) -> anyhow::Error {
    Usage(text.to_string()).into()
}

/// A path for the terminal: what moves a cursor is taken out of names.
pub(super) fn shown(path: &Path) -> String {
    path.display().to_string().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Facts that were counted or looked up, as checks that cannot fail by themselves.
pub(super) fn checked(facts: Vec<(&str, String)>) -> Vec<Check> {
    let check =
        |(name, detail): (&str, String)| Check { name: name.to_owned(), passed: true, detail };
    facts.into_iter().map(check).collect()
}

/// A number of bytes, as `1.5 MiB`.
pub(super) fn size(bytes: u64) -> String {
    fathom_report::quantity(bytes as f64, fathom_record::Unit::Bytes)
}
