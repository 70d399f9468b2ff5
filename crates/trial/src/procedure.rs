//! The procedure: plan, passes, undo, records.

use std::sync::atomic::{AtomicBool, Ordering};

use fathom_measure::clock::{monotonic_raw_ns, wall_ns};
use fathom_metric::{
    Ending, Event, Measured, OwnMetric, Procedure, ProcedureError, Processes, Recorder,
};
use fathom_record::quantity::{counted, quantity_within};
use fathom_record::trial::{
    BESIDE, CHANGE, DISTURBED, FASTEST, INTERACTION, MEASURED, NEW, OLD, PERMANENT, RULE,
    TRIAL_METRIC,
};
use fathom_record::{Counters, Fact, NotSelected, ParamValue, Sample, Unit};

use crate::changes::{ChangeError, Changes};
use crate::factor::TrialFactor;
use crate::journal::Recovery;
use crate::outcome::{TrialOutcome, TrialPass, outcomes};
use crate::request::{Trial, TrialRequest};
use crate::turns::{PASSES_MIN, TrialPlan, TrialTurns};
use crate::workload::{ChildWorkload, TrialWorkload, WorkloadError};

/// If others disturbed more of the measurements, the result is noisy.
const DISTURBED_MAX: f64 = 0.5;
/// A wide interval is in what is said of a ratio: undecided.
const NOISE_LIMIT: f64 = 1.0;
/// Between two updates of the progress.
const SECOND: f64 = 1e9;

/// Why the passes of a trial ended early.
#[derive(Debug, thiserror::Error)]
pub enum TrialCut {
    #[error("stopped")]
    Stopped,
    #[error(transparent)]
    SettingChange(#[from] ChangeError),
    #[error("{0}")]
    Failed(String),
}

/// The passes of one trial.
pub struct TrialRun<'t> {
    pub trial: &'t Trial,
    pub workload: &'t mut dyn TrialWorkload,
    pub changes: &'t mut Changes,
    pub stop: &'t AtomicBool,
    /// Those that were completed.
    pub passes: Vec<TrialPass>,
}

impl TrialRun<'_> {
    /// Measures each combination once a pass, and restores the settings. `progress` is called
    /// before each measurement.
    ///
    /// # Errors
    /// If it is stopped, a setting cannot be changed or restored, or no number can be had.
    pub fn make(
        &mut self,
        turns: &mut TrialTurns,
        count: usize,
        progress: &mut dyn FnMut(),
    ) -> Result<(), TrialCut> {
        let ended = (0..count).try_for_each(|_| self.pass(&turns.pass(), progress));
        self.changes.restore()?;
        ended
    }

    fn pass(&mut self, order: &[usize], progress: &mut dyn FnMut()) -> Result<(), TrialCut> {
        let cells = self.trial.cells();
        let mut pass: TrialPass = vec![None; cells.len()];
        let mut failure = None;
        for cell in order {
            progress();
            if self.stop.load(Ordering::Relaxed) {
                return Err(TrialCut::Stopped);
            }
            for (factor, level) in self.trial.factors.iter().zip(&cells[*cell]) {
                self.changes.set(factor, *level)?;
            }
            match self.workload.measure(self.stop) {
                Ok(figures) => pass[*cell] = Some(figures),
                Err(WorkloadError::Failed(text)) => failure = Some(text),
                Err(WorkloadError::Stopped) => return Err(TrialCut::Stopped),
            }
        }
        // What fails now and then costs a pass; what fails with one of the values, the trial.
        let failed = failure.filter(|_| self.passes.len() < 2);
        self.passes.push(pass);
        failed.map_or(Ok(()), |text| Err(TrialCut::Failed(text)))
    }
}

impl Procedure for TrialRequest {
    fn asked(&self) -> String {
        self.text()
    }

    fn check(&self) -> Result<(), ProcedureError> {
        self.trials().map(drop)
    }

    fn restores(&self) -> bool {
        true
    }

    fn run(&self, recorder: &mut dyn Recorder) -> Result<Ending, ProcedureError> {
        // Before the current values are read: nobody else changes them then.
        let begun = Changes::begin(&self.machine, &self.state).map_err(ProcedureError::failed)?;
        let (mut changes, recovery) = begun;
        if let Recovery::Restored(count) = recovery {
            let settings = counted(count, "setting");
            let text = format!("restored {settings} that a killed `doctor --try` left changed");
            recorder.event(Event::Warning(&text));
        }
        let trials = self.trials()?;
        let seed = self.seed.unwrap_or_else(wall_ns);
        recorder.set_seed(seed);
        let stop = recorder.stop().flag();
        let (mut workloads, plan) = match self.pilot(&trials, recorder) {
            Ok(planned) => planned,
            Err(WorkloadError::Stopped) => return Ok(Ending::Stopped),
            Err(error) => return Err(ProcedureError::failed(error)),
        };
        let trials = &trials[..plan.trials];
        let of_trial = |trial: &Trial| trial.cells().len() * plan.passes;
        let all = trials.iter().map(of_trial).sum::<usize>() as u64;
        let (mut before, mut shown_ns, mut ending) = (0, 0.0, Ending::Done);
        for (at, trial) in trials.iter().enumerate() {
            let mut turns = TrialTurns::new(seed.wrapping_add(at as u64), trial.cells().len());
            let what = trial.words();
            let mut done = before;
            let mut progress = || {
                let now_ns = monotonic_raw_ns() as f64;
                if now_ns - shown_ns >= SECOND {
                    shown_ns = now_ns;
                    recorder.event(Event::Progress { done, all, what: &what });
                }
                done += 1;
            };
            let workload = workloads[at].as_mut();
            let (changes, stop) = (&mut changes, &*stop);
            let mut run = TrialRun { trial, workload, changes, stop, passes: Vec::new() };
            let ended = run.make(&mut turns, plan.passes, &mut progress);
            before += of_trial(trial) as u64;
            for outcome in outcomes(trial, &run.passes) {
                recorder.record(measured(trial, &outcome));
            }
            recorder.show();
            match ended {
                Ok(()) => {}
                Err(TrialCut::Stopped) => {
                    recorder.event(Event::Warning("interrupted; all settings are as before"));
                    return Ok(Ending::Stopped);
                }
                Err(
                    why @ (TrialCut::SettingChange(ChangeError::Refused(..)) | TrialCut::Failed(_)),
                ) => {
                    recorder.event(Event::Warning(&format!("{what}: not tried: {why}")));
                    ending = Ending::Faulty;
                }
                Err(error) => return Err(ProcedureError::CutShort(error.to_string())),
            }
        }
        Ok(ending)
    }
}

impl TrialRequest {
    /// One measurement of each trial with nothing changed, and the plan, which is said.
    fn pilot(
        &self,
        trials: &[Trial],
        recorder: &mut dyn Recorder,
    ) -> Result<(Vec<Box<dyn TrialWorkload>>, TrialPlan), WorkloadError> {
        let (mut workloads, mut pass_s) = (Vec::<Box<dyn TrialWorkload>>::new(), Vec::new());
        let stop = recorder.stop().flag();
        for (at, trial) in trials.iter().enumerate() {
            let (done, all) = (at as u64, trials.len() as u64);
            recorder.event(Event::Progress { done, all, what: "pilot" });
            let mut workload = ChildWorkload::new(trial.subject.clone());
            let begun_ns = monotonic_raw_ns();
            let figures = workload.measure(&stop)?;
            let once_ns = (monotonic_raw_ns() - begun_ns) as f64;
            let more_ns = workload.repeat(&figures);
            pass_s.push((once_ns + more_ns) / 1e9 * trial.cells().len() as f64);
            workloads.push(Box::new(workload));
        }
        let plan = TrialPlan::new(self.time_s, &pass_s);
        recorder.event(Event::Plan(&words(plan, trials, self.time_s)));
        if let Some(left) = trials.get(plan.trials..).filter(|left| !left.is_empty()) {
            let names: Vec<String> = left.iter().map(Trial::words).collect();
            let needed_s = pass_s.iter().sum::<f64>() * PASSES_MIN as f64;
            let text = format!(
                "no time for {}; all need --time {:.0}s",
                names.join(", "),
                needed_s.ceil()
            );
            recorder.event(Event::Warning(&text));
        }
        Ok((workloads, plan))
    }
}

fn words(plan: TrialPlan, trials: &[Trial], time_s: f64) -> String {
    let of_trial = |trial: &Trial| format!("{}, by {}", trial.words(), trial.subject.words());
    let all: Vec<String> = trials.iter().take(plan.trials).map(of_trial).collect();
    let time = |seconds: f64| quantity_within(seconds * SECOND, Unit::Nanoseconds, 6);
    let more = match plan.seconds > time_s {
        true => format!(" (more than --time {}: fewer measurements decide nothing)", time(time_s)),
        false => String::new(),
    };
    format!(
        "about {}{more}: {} measurements with each value, in turns; then all is restored: {}",
        time(plan.seconds),
        plan.passes,
        all.join("; ")
    )
}

fn measured(trial: &Trial, outcome: &TrialOutcome) -> Measured {
    let TrialOutcome { factor, figure, ratios, values, disturbed: (share, reason), .. } = outcome;
    let factor = factor.map(|at| &trial.factors[at]);
    let name = match factor {
        Some(factor) => factor.knob.name.to_owned(),
        None => trial.factors.iter().map(|it| it.knob.name).collect::<Vec<_>>().join("*"),
    };
    let reasons = reason.iter().cloned().collect();
    let (doubts, remarks) =
        if *share > DISTURBED_MAX { (reasons, Vec::new()) } else { (Vec::new(), reasons) };
    let mut params = figure.params.clone();
    for (key, value) in [("remedy", name.as_str()), ("of", figure.of.as_str())] {
        params.0.insert(key.to_owned(), ParamValue::from(value));
    }
    let sample = |(at, ratio): (usize, &f64)| Sample {
        process: at as u32,
        batch: 1,
        values: vec![*ratio],
        ..Sample::default()
    };
    Measured {
        own: Some(OwnMetric {
            id: TRIAL_METRIC.to_owned(),
            title: name.clone(),
            unit: Unit::Ratio,
            better: figure.better,
            expects: Counters::NONE,
            noise_limit: NOISE_LIMIT,
        }),
        params,
        processes: Some(Processes {
            samples: ratios.iter().enumerate().map(sample).collect(),
            selection: Err(NotSelected::NotPinned),
            states: None,
            subtracted_half_width: 0.0,
        }),
        facts: facts(trial, factor, outcome, *values),
        doubts,
        remarks,
        ..Measured::default()
    }
}

fn facts(
    trial: &Trial,
    factor: Option<&TrialFactor>,
    outcome: &TrialOutcome,
    values: Option<[f64; 2]>,
) -> Vec<Fact> {
    let mut facts = vec![
        Fact::text(CHANGE, factor.map_or_else(|| trial.words(), TrialFactor::change)),
        Fact::text(MEASURED, trial.subject.words()),
    ];
    facts.push(Fact::quantity(DISTURBED, outcome.disturbed.0, Unit::Ratio));
    facts.extend(outcome.fastest.map(|share| Fact::quantity(FASTEST, share, Unit::Ratio)));
    let unit = outcome.figure.unit;
    for (name, value) in [OLD, NEW].iter().zip(values.iter().flatten()) {
        facts.push(Fact::quantity(name, *value, unit));
    }
    if let Some(factor) = factor {
        facts.extend(factor.knob.rule.map(|rule| Fact::text(RULE, rule)));
        facts.extend(factor.permanent().into_iter().map(|line| Fact::text(PERMANENT, line)));
    } else {
        facts.push(Fact::text(INTERACTION, "yes"));
    }
    facts.extend(outcome.figure.is_beside.then(|| Fact::text(BESIDE, "yes")));
    facts
}
