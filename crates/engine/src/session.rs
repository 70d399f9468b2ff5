//! The run of a procedure: no plan, no workers, no pinning. Its passes are the values of one
//! process; summary, prediction, verdict and record are as for metrics with visits.

use std::sync::atomic::Ordering::Relaxed;

use fathom_analysis::statistics;
use fathom_analysis::strata::Strata;
use fathom_measure::clock::{CalibrationWatch, Clock};
use fathom_measure::{affinity, clock};
use fathom_metric::{
    About, Command, Ending, Entry, Event, Inputs, Measured, OwnMetric, Procedure, ProcedureError,
    Processes, Recorder, Registry, Stop,
};
use fathom_record::{
    Cause, Document, Effort, FarHost, Host, MetricId, NoModel, Origin, Params, Prediction,
    Protocol, Reason, Record, Run, RunState, SCHEMA_VERSION, Sample, State, Stratum, Summary, Tool,
    Value, Verdict,
};

use crate::Audience;
use crate::reduce;

/// Facts known before a procedure begins.
pub struct SessionSetup {
    pub tool: Tool,
    pub host: Host,
    pub id: String,
    pub label: Option<String>,
    /// RFC 3339 in UTC.
    pub started: String,
    /// The same by CLOCK_MONOTONIC_RAW.
    pub begun_ns: u64,
    /// When the work of all members of a group starts, by the same; `None` alone.
    pub start_ns: Option<u64>,
    /// The command, such as `file read`.
    pub path: &'static str,
    /// The arguments of the command.
    pub asked: String,
    /// The clock, checked since the start.
    pub watch: CalibrationWatch,
    pub stop: Stop,
    /// The newest valid or noisy results on this host that the models use, oldest first.
    pub earlier: Vec<Record>,
    /// Test settings of the environment that change the measurement.
    pub imposed: Vec<String>,
}

pub struct Session<'a> {
    registry: &'static Registry,
    document: Document,
    watch: CalibrationWatch,
    stop: Stop,
    begun_ns: u64,
    start_ns: Option<u64>,
    /// Earlier results, then the run's own.
    known: Vec<Record>,
    earlier: usize,
    /// The number of records shown.
    shown: usize,
    audience: &'a mut dyn Audience,
    begun: bool,
    drafts: bool,
    /// Whether the reader of the seconds has left: then it was stopped.
    unread: bool,
}

impl<'a> Session<'a> {
    pub fn new(
        registry: &'static Registry,
        setup: SessionSetup,
        audience: &'a mut dyn Audience,
    ) -> Self {
        let run = Run {
            id: setup.id,
            label: setup.label,
            started: setup.started,
            ended: None,
            duration_ns: None,
            effort: Effort::Quick,
            protocol: Protocol::Median,
            seed: 0,
            asked: vec![format!("{} {}", setup.path, setup.asked).trim_end().to_owned()],
            procedure: Some(setup.path.to_owned()),
            planned: 0,
            state: RunState::Running,
            cpu: affinity::allowed().first().copied().unwrap_or_default(),
            cpu_reason: "not pinned".to_owned(),
            reference: None,
            left_out: Vec::new(),
            clock: setup.watch.facts(),
            folder: None,
            tuned: Vec::new(),
            verdict: Verdict::default(),
            imposed: setup.imposed,
            notes: Vec::new(),
        };
        let document = Document {
            schema: SCHEMA_VERSION,
            tool: setup.tool,
            run,
            host: setup.host,
            far: Vec::new(),
            records: Vec::new(),
        };
        Self {
            registry,
            document,
            watch: setup.watch,
            stop: setup.stop,
            begun_ns: setup.begun_ns,
            start_ns: setup.start_ns,
            earlier: setup.earlier.len(),
            shown: setup.earlier.len(),
            known: setup.earlier.into_iter().map(Record::as_found).collect(),
            audience,
            begun: false,
            drafts: false,
            unread: false,
        }
    }

    /// Runs the procedure. The audience gets the document, unless it is empty.
    ///
    /// # Errors
    /// If the procedure fails; earlier records are shown and stored.
    pub fn run(
        mut self,
        procedure: &dyn Procedure,
        timestamp: impl Fn() -> String,
    ) -> Result<Ending, ProcedureError> {
        let ended = procedure.run(&mut self);
        let has_nothing = self.known.len() == self.earlier;
        if has_nothing && !matches!(ended, Ok(Ending::Done | Ending::NotFound | Ending::Faulty)) {
            return ended;
        }
        self.show();
        let whole = self.watch.end();
        let run = &mut self.document.run;
        run.clock.raw_ppm = Some(whole.raw_ppm);
        run.clock.monotonic_ppm = Some(whole.monotonic_ppm);
        run.clock.wall_step_ns = whole.wall_step();
        if let Some(failure) = whole.failure() {
            run.verdict = Verdict::because(State::Invalid, Cause::Clock, failure.clone());
            let text = format!("clock check failed, all results are invalid: {failure}");
            self.audience.event(Event::Warning(&text));
        }
        let by_person = self.stop.is_by_person();
        run.state =
            match by_person || self.unread || matches!(ended, Err(ProcedureError::CutShort(_))) {
                true => RunState::Interrupted,
                false => RunState::Complete,
            };
        run.ended = Some(timestamp());
        run.duration_ns = Some((clock::monotonic_raw_ns() - self.begun_ns) as f64);
        self.document.records = self.known.split_off(self.earlier);
        self.document.run.planned = self.document.records.len() as u64;
        self.audience.ends(&self.document);
        let ending = ended?;
        Ok(if by_person { Ending::Stopped } else { ending })
    }

    fn entry(&self, metric: &str) -> &'static Entry {
        self.registry.find(metric).expect("a registered metric")
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.begun, true) {
            self.audience.begins(&self.document, None);
        }
    }

    fn new_record(&self, mut measured: Measured) -> Record {
        let own = measured.own.take();
        let about = &own.as_ref().map_or_else(|| *self.entry(measured.metric).about(), about_own);
        let (id, title) = own.as_ref().map_or((about.id, about.title), |it| (&it.id, &it.title));
        let processes = measured.processes.take();
        let samples = match &processes {
            Some(processes) => processes.samples.clone(),
            None => samples(&measured, self.cpu()),
        };
        let mut record =
            Record::new(MetricId::new(id), measured.params, title, about.unit, about.better);
        // Records that are shown together were measured together.
        record.visit = format!("{}/{}", self.document.run.id, self.shown - self.earlier);
        // Without a value, too: the checks then show why.
        for check in samples.iter().flat_map(|sample| &sample.checks) {
            record.checks.insert(check.name.clone(), check.detail.clone());
        }
        let read_ns = self.document.run.clock.read_ns;
        let strata = processes.as_ref().map(strata);
        let mut summary = match (&processes, &strata) {
            (Some(processes), Some(strata)) => summary_of(processes, strata),
            _ => statistics::summarise(&samples),
        };
        if let (Some(summary), Some((value, interval))) = (&mut summary, measured.headline) {
            (summary.median, summary.interval) = (value, interval);
            summary.process_medians = vec![value];
        }
        let states = processes.as_ref().and_then(|processes| processes.states.as_ref());
        let selected = strata.as_ref().map_or(samples.as_slice(), Strata::headline);
        let headline = reduce::HeadlineSamples { summary, samples: selected, states, drift: 0.0 };
        reduce::fill(&mut record, about, &samples, headline, (measured.is_difference, read_ns));
        let has_value =
            processes.is_some() || !measured.values.is_empty() || measured.histogram.is_some();
        let is_stopped = self.stop.is_by_person() && !has_value;
        if let Some(verdict) = measured.verdict {
            record.verdict = verdict;
        } else if is_stopped {
            let text = "stopped before its first value";
            record.verdict = Verdict::because(State::Unavailable, Cause::Interrupted, text);
        }
        self.add_doubts(&mut record, measured.doubts);
        if record.verdict.shows_number() {
            record.verdict.reasons.extend(measured.remarks);
        }
        record.value = measured.text.map(Value::Text);
        record.facts = measured.facts;
        record.series = measured.series;
        record.heat_map = measured.heat_map;
        record.cost = measured.cost;
        record.notes.extend(measured.notes);
        // Nothing is known of another's work.
        if own.is_none() {
            let predicted = || self.predicted(about.id, &record.params);
            let prediction = measured.prediction.map_or_else(predicted, Ok);
            let prediction = prediction.and_then(|it| reduce::from_undisturbed(it, &self.known));
            reduce::set_prediction(&mut record, prediction, about.expects, None);
        }
        self.set_origins(&mut record);
        record.samples = Some(samples);
        reduce::note_emulation(&mut record, &self.document);
        record.sealed()
    }

    /// Marks a number with doubts as noisy.
    fn add_doubts(&self, record: &mut Record, mut doubts: Vec<Reason>) {
        if self.stop.is_by_person() {
            doubts.insert(0, Reason::new(Cause::Interrupted, "stopped before its end"));
        }
        reduce::doubted(&mut record.verdict, doubts);
        let path = self.document.run.procedure.as_deref();
        let command = self.registry.commands().iter().find(|one| Some(one.path) == path);
        let repeat = command.and_then(Command::repeat_option);
        for reason in &mut record.verdict.reasons {
            let remedy = reason.remedy.take();
            reason.remedy = remedy.map(|remedy| remedy.for_procedure(repeat.as_deref()));
        }
    }

    /// Marks inputs of a model that are from earlier runs.
    fn set_origins(&self, record: &mut Record) {
        let own = &self.known[self.earlier..];
        let is_own =
            |name: &str| own.iter().any(|one| one.name() == name && one.verdict.shows_number());
        for input in record.prediction.iter_mut().flat_map(|one| &mut one.inputs) {
            if let Origin::ThisRun { metric } = &mut input.origin
                && !is_own(metric)
            {
                input.origin = Origin::EarlierRun { metric: std::mem::take(metric) };
            }
        }
        if let Some(NoModel::MissingInput { metric }) = &mut record.no_model
            && !own.iter().any(|one| one.name() == *metric)
        {
            record.no_model = Some(NoModel::NoKeptResult { metric: std::mem::take(metric) });
        }
    }
}

impl Recorder for Session<'_> {
    fn clock(&self) -> &Clock {
        self.watch.clock()
    }

    fn stop(&self) -> &Stop {
        &self.stop
    }

    fn host(&self) -> &Host {
        &self.document.host
    }

    fn cpu(&self) -> u32 {
        self.document.run.cpu
    }

    fn start_ns(&self) -> Option<u64> {
        self.start_ns
    }

    fn known(&self) -> &[Record] {
        &self.known
    }

    fn predicted(&self, metric: &str, params: &Params) -> Result<Prediction, NoModel> {
        let entry = self.entry(metric);
        let predict = |records: &[Record]| {
            let known = Inputs::new(records).under(&self.document.run.clock).on(self.host());
            entry.predict(params, self.host(), &known)
        };
        let prediction = predict(&self.known)?;
        let mut known = self.known.clone();
        Ok(reduce::with_uncertainty(prediction, Stratum::AsFound, &mut known, &predict))
    }

    fn record(&mut self, measured: Measured) -> Record {
        let record = self.new_record(measured);
        self.known.push(record.clone());
        record
    }

    fn draft(&mut self, make: &mut dyn FnMut(&mut dyn Recorder)) {
        let before = self.known.len();
        self.drafts = true;
        make(self);
        self.drafts = false;
        let drafts = self.known.split_off(before);
        if !drafts.is_empty() {
            self.audience.finished(&self.document, &drafts, true);
        }
    }

    fn show(&mut self) {
        if self.drafts {
            return;
        }
        self.begin();
        let new = &self.known[self.shown..];
        if !new.is_empty() {
            self.audience.measured(new);
            self.audience.finished(&self.document, new, false);
        }
        self.shown = self.known.len();
    }

    fn set_seed(&mut self, seed: u64) {
        self.document.run.seed = seed;
    }

    fn add_far(&mut self, far: FarHost) {
        self.document.far.push(far);
    }

    fn event(&mut self, event: Event<'_>) {
        if matches!(event, Event::Plan(_)) {
            self.begin();
        }
        self.audience.event(event);
        // Only those who follow a load want nothing but its lines.
        if matches!(event, Event::Second(_)) && self.audience.has_left() {
            self.unread = true;
            self.stop.now().store(true, Relaxed);
        }
    }

    fn confirm(&mut self, text: &str, ask: bool) -> bool {
        self.begin();
        self.audience.confirm(text, ask)
    }
}

/// What a summary and a verdict need of a metric outside the registry.
fn about_own(own: &OwnMetric) -> About {
    let OwnMetric { unit, better, expects, noise_limit, .. } = *own;
    About { unit, better, expects, noise_limit, ..About::BASE }
}

/// All processes, and those in the reported state of the core if they are enough.
fn strata(processes: &Processes) -> Strata {
    Strata::new(&processes.samples, processes.selection, processes.states.as_ref())
}

/// The interval includes that of what was subtracted, as an independent error.
fn summary_of(processes: &Processes, strata: &Strata) -> Option<Summary> {
    let mut summary = strata.summarise()?;
    let (median, more) = (summary.median, processes.subtracted_half_width);
    if let Some(interval) = &mut summary.interval {
        interval.low = median - (median - interval.low).hypot(more);
        interval.high = median + (interval.high - median).hypot(more);
    }
    Some(summary)
}

/// All values as one process, or each value as a process.
fn samples(measured: &Measured, cpu: u32) -> Vec<Sample> {
    let whole = measured.values.len().max(1);
    let share = if measured.in_fresh_processes { 1 } else { whole };
    let mut values = measured.values.chunks(share);
    let sample = |process: usize| Sample {
        process: process as u32,
        cpu,
        batch: 1,
        values: values.next().unwrap_or_default().to_vec(),
        disturbance: measured.disturbance.get(process).cloned().unwrap_or_default(),
        far: measured.far.get(process).cloned(),
        ..Sample::default()
    };
    let mut samples: Vec<Sample> = (0..whole.div_ceil(share)).map(sample).collect();
    // Checks are totals: attributed to the first process.
    samples[0].checks = measured.checks.clone();
    samples[0].histogram = measured.histogram.clone();
    samples[0].windows.clone_from(&measured.windows);
    samples
}
