//! Sabotages of the wall clock, of a system call's result and of the amount of work.

use anyhow::{Context as _, Result};
use fathom_measure::clock::{monotonic_raw_ns, wall_ns};
use fathom_record::{Agreement, Cause, Record, State};
use rustix::time::{ClockId, Timespec, clock_settime};

use super::full_speed::FullSpeed;
use super::guard::{Guard, NoGuard};
use super::program::RunResult;
use super::scenario::{Sabotage, root, strace};

/// When the wall clock is stepped, and for how long: other programs use it.
const STEP_AT_NS: u64 = 300_000_000;
const STEP_FOR_NS: u64 = 20_000_000;
/// Tolerance between the recorded duration and the lab's, which includes start and exit.
const DURATION_MAX_S: f64 = 0.6;

pub(super) const WALL_CLOCK: Sabotage = Sabotage {
    name: "wall clock stepped",
    needs: root,
    dose: |draw| {
        let signed = 2.0 * draw - 1.0;
        signed.signum() * (1.0 + signed.abs())
    },
    dose_text: |dose| format!("{dose:+.1} s for 20 ms"),
    start: |dose, _, _| Ok(Box::new(SabotageStep { seconds: dose, stepped_ns: None, done: false })),
    truth: wall_clock_truth,
    ..Sabotage::BASE
};

struct SabotageStep {
    seconds: f64,
    stepped_ns: Option<u64>,
    done: bool,
}

impl SabotageStep {
    fn by(seconds: f64) -> Result<()> {
        let ns = wall_ns().saturating_add_signed((seconds * 1e9) as i64);
        let (tv_sec, tv_nsec) = ((ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64);
        clock_settime(ClockId::Realtime, Timespec { tv_sec, tv_nsec }).context("set the wall clock")
    }

    fn restore(&mut self) -> Result<()> {
        if self.stepped_ns.take().is_some() {
            Self::by(-self.seconds)?;
        }
        Ok(())
    }
}

impl Guard for SabotageStep {
    fn tick(&mut self, _: u32, elapsed_ns: u64) -> Result<()> {
        if !self.done && elapsed_ns >= STEP_AT_NS {
            Self::by(self.seconds)?;
            (self.done, self.stepped_ns) = (true, Some(monotonic_raw_ns()));
        }
        if self.stepped_ns.is_some_and(|at| monotonic_raw_ns() - at >= STEP_FOR_NS) {
            self.restore()?;
        }
        Ok(())
    }

    fn counted(&self) -> Option<f64> {
        Some(f64::from(u8::from(self.done)))
    }
}

impl Drop for SabotageStep {
    fn drop(&mut self) {
        let _ = self.restore();
    }
}

fn wall_clock_truth(_: &Sabotage, result: &RunResult, _: &FullSpeed, _: f64) -> (String, bool) {
    let run = &result.document.run;
    let is_recorded = run.clock.wall_step_ns.is_some();
    let recorded_s = run.duration_ns.unwrap_or(f64::NAN) / 1e9;
    let actual_s = result.elapsed_ns as f64 / 1e9;
    let is_intact =
        run.verdict.state != State::Invalid && (recorded_s - actual_s).abs() < DURATION_MAX_S;
    let step = if is_recorded { "step recorded" } else { "step not recorded" };
    let text = format!("{step}; duration {recorded_s:.1} s, actually {actual_s:.1} s");
    (text, is_recorded && is_intact && result.counted == Some(1.0))
}

/// getppid returns a wrong result from some call on.
pub(super) const WRONG_WORK: Sabotage = Sabotage {
    name: "wrong answers",
    metric: "os.syscall",
    causes: &[Cause::WrongWork],
    needs: strace,
    dose: |draw| 1.0 + (40.0 * draw).floor(),
    dose_text: |dose| format!("getppid from call {dose} on"),
    start: |dose, _, launch| {
        launch.before = injected("getppid", &format!("retval=1:when={dose}+"));
        Ok(Box::new(NoGuard))
    },
    affected: &["os.syscall{call=getppid}"],
    truth: |sabotage, run, _, _| {
        let invalid = sabotage.all_in(run, State::Invalid);
        let text = if invalid { "no number shown" } else { "a number is shown" };
        (text.to_owned(), invalid)
    },
    ..Sabotage::BASE
};

/// The strace command line that changes a system call's result.
pub(super) fn injected(call: &str, how: &str) -> Vec<String> {
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:{how}"));
    let words =
        ["strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    words.map(str::to_owned).to_vec()
}

/// Minimum share of predictions that must be outside.
const OUTSIDE_MIN: f64 = 0.8;
/// A micro-architecture whose cost of a call is published.
const ROW: &str = "zen4";

/// More work in every kernel without disturbance: a slower machine without noise.
pub(super) const MORE_WORK: Sabotage = Sabotage {
    name: "more work",
    dose: |_| 40.0,
    dose_text: |dose| format!("{dose} % in each call"),
    start: |dose, _, launch| {
        launch.environment.push(("FATHOM_SPIN".to_owned(), format!("cpu.call={dose}%")));
        launch.environment.push(("FATHOM_UARCH".to_owned(), ROW.to_owned()));
        Ok(Box::new(NoGuard))
    },
    truth: |sabotage, run, _, _| {
        let has_value = |record: &&Record| {
            record.prediction.as_ref().is_some_and(|prediction| !prediction.is_ordinal())
        };
        let predicted: Vec<&Record> = sabotage.affected_records(run).filter(has_value).collect();
        let is_outside = |record: &&&Record| record.agreement == Some(Agreement::Outside);
        let outside = predicted.iter().filter(is_outside).count();
        let text = format!("{outside} of {} predictions outside", predicted.len());
        let least = OUTSIDE_MIN * predicted.len() as f64;
        (text, outside > 0 && outside as f64 >= least)
    },
    ..Sabotage::BASE
};

/// Work that grows over the rounds of a visit.
pub(super) const DRIFT: Sabotage = Sabotage {
    name: "drift",
    causes: &[Cause::Drift],
    dose: |draw| 20.0 + (60.0 * draw).round(),
    dose_text: |dose| format!("0 to {dose} % over a visit"),
    start: |dose, _, launch| {
        launch.environment.push(("FATHOM_SPIN".to_owned(), format!("cpu.call=0..{dose}%")));
        Ok(Box::new(NoGuard))
    },
    truth: |sabotage, run, _, dose| {
        let drift = |record: &Record| record.summary.as_ref()?.drift;
        let mut drifts: Vec<f64> = sabotage.affected_records(run).filter_map(drift).collect();
        drifts.sort_by(f64::total_cmp);
        let recorded = drifts.get(drifts.len() / 2).copied().unwrap_or(0.0);
        // Relative to the median, which includes half of the dose.
        let imposed = dose / 100.0 / (1.0 + dose / 200.0);
        let text = format!("{:.0} % recorded, {:.0} % imposed", 100.0 * recorded, 100.0 * imposed);
        (text, (recorded / imposed - 1.0).abs() < 0.3)
    },
    ..Sabotage::BASE
};
