//! Sabotages of the wall clock, of the work and of the values.

use anyhow::{Context as _, Result};
use fathom_lab::{Unmet, strace};
use fathom_measure::clock::{monotonic_raw_ns, wall_ns};
use fathom_record::{Agreement, Cause, Record, State};
use rustix::time::{ClockId, Timespec, clock_settime};

use super::full_speed::FullSpeed;
use super::imposed::{Imposed, Nothing};
use super::program::{Launch, Seen};
use super::scenario::{Sabotage, all_in, root};

/// When the wall clock is stepped, and when put back: others live on this machine.
const STEP_AT_NS: u64 = 300_000_000;
const STEP_FOR_NS: u64 = 20_000_000;
/// How the laboratory's clock and the run's may differ: starting and ending the program.
const DURATION_MAX_S: f64 = 0.6;

/// The wall clock, stepped and put back.
pub(super) struct WallClock;

struct Step {
    seconds: f64,
    stepped_ns: Option<u64>,
    done: bool,
}

impl Step {
    fn by(seconds: f64) -> Result<()> {
        let ns = wall_ns().saturating_add_signed((seconds * 1e9) as i64);
        let (tv_sec, tv_nsec) = ((ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64);
        clock_settime(ClockId::Realtime, Timespec { tv_sec, tv_nsec }).context("set the wall clock")
    }

    fn put_back(&mut self) -> Result<()> {
        if self.stepped_ns.take().is_some() {
            Self::by(-self.seconds)?;
        }
        Ok(())
    }
}

impl Imposed for Step {
    fn tick(&mut self, _: u32, elapsed_ns: u64) -> Result<()> {
        if !self.done && elapsed_ns >= STEP_AT_NS {
            Self::by(self.seconds)?;
            (self.done, self.stepped_ns) = (true, Some(monotonic_raw_ns()));
        }
        if self.stepped_ns.is_some_and(|at| monotonic_raw_ns() - at >= STEP_FOR_NS) {
            self.put_back()?;
        }
        Ok(())
    }

    fn counted(&self) -> Option<f64> {
        Some(f64::from(u8::from(self.done)))
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        let _ = self.put_back();
    }
}

impl Sabotage for WallClock {
    fn name(&self) -> &'static str {
        "wall clock stepped"
    }
    fn needs(&self) -> Result<(), Unmet> {
        root()
    }
    fn dose(&self, draw: f64) -> f64 {
        let signed = 2.0 * draw - 1.0;
        signed.signum() * (1.0 + signed.abs())
    }
    fn in_words(&self, dose: f64) -> String {
        format!("{dose:+.1} s for 20 ms")
    }
    fn metric(&self) -> &'static str {
        "cpu.call"
    }
    fn impose(&self, dose: f64, _: u32, _: &mut Launch) -> Result<Box<dyn Imposed>> {
        Ok(Box::new(Step { seconds: dose, stepped_ns: None, done: false }))
    }
    fn causes(&self) -> &'static [Cause] {
        &[]
    }
    fn truth(&self, seen: &Seen, _: &FullSpeed, _: f64) -> (String, bool) {
        let run = &seen.document.run;
        let is_recorded = run.clock.wall_step_ns.is_some();
        let took = run.duration_ns.unwrap_or(f64::NAN) / 1e9;
        let truly = seen.elapsed_ns as f64 / 1e9;
        let stands = run.verdict.state != State::Invalid && (took - truly).abs() < DURATION_MAX_S;
        let said = if is_recorded { "recorded" } else { "not recorded" };
        let text = format!("{said}; run took {took:.1} s, truly {truly:.1} s");
        (text, is_recorded && stands && seen.counted == Some(1.0))
    }
}

/// A system call that answers wrongly from some call on.
pub(super) struct WrongWork;

impl Sabotage for WrongWork {
    fn name(&self) -> &'static str {
        "wrong answers"
    }
    fn needs(&self) -> Result<(), Unmet> {
        strace::obstacle().map_or(Ok(()), |why| Err(Unmet(why)))
    }
    fn dose(&self, draw: f64) -> f64 {
        1.0 + (40.0 * draw).floor()
    }
    fn in_words(&self, dose: f64) -> String {
        format!("getppid from call {dose} on")
    }
    fn metric(&self) -> &'static str {
        "os.syscall"
    }
    fn impose(&self, dose: f64, _: u32, launch: &mut Launch) -> Result<Box<dyn Imposed>> {
        launch.before = injected("getppid", &format!("retval=1:when={dose}+"));
        Ok(Box::new(Nothing))
    }
    fn causes(&self) -> &'static [Cause] {
        &[Cause::WrongWork]
    }
    fn touches(&self, record: &Record) -> bool {
        record.name() == "os.syscall{call=getppid}"
    }
    fn truth(&self, seen: &Seen, _: &FullSpeed, _: f64) -> (String, bool) {
        let invalid = all_in(seen, self, State::Invalid);
        let text = if invalid { "no number shown" } else { "a number is shown" };
        (text.to_owned(), invalid)
    }
}

/// The words that let a system call answer otherwise.
pub(super) fn injected(call: &str, how: &str) -> Vec<String> {
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:{how}"));
    let words =
        ["strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    words.map(str::to_owned).to_vec()
}

/// More work in every kernel, without any disturbance: a slower machine, and no noise.
pub(super) struct MoreWork;

/// Of the values predicted, so many must be outside.
const OUTSIDE_MIN: f64 = 0.8;
/// A row with the cost of a call, which is not published for each core: the same in all that have
/// it.
const ROW: &str = "zen4";

impl Sabotage for MoreWork {
    fn name(&self) -> &'static str {
        "more work"
    }
    fn needs(&self) -> Result<(), Unmet> {
        Ok(())
    }
    fn dose(&self, _: f64) -> f64 {
        40.0
    }
    fn in_words(&self, dose: f64) -> String {
        format!("{dose} % in each call")
    }
    fn metric(&self) -> &'static str {
        "cpu.call"
    }
    fn impose(&self, dose: f64, _: u32, launch: &mut Launch) -> Result<Box<dyn Imposed>> {
        launch.environment.push(("FATHOM_SPIN".to_owned(), format!("cpu.call={dose}%")));
        launch.environment.push(("FATHOM_UARCH".to_owned(), ROW.to_owned()));
        Ok(Box::new(Nothing))
    }
    fn causes(&self) -> &'static [Cause] {
        &[]
    }
    fn truth(&self, seen: &Seen, _: &FullSpeed, _: f64) -> (String, bool) {
        let has_value = |record: &&Record| {
            record.prediction.as_ref().is_some_and(|prediction| !prediction.is_ordinal())
        };
        let predicted: Vec<&Record> = seen.of_metric(self.metric()).filter(has_value).collect();
        let is_outside = |record: &&&Record| record.agreement == Some(Agreement::Outside);
        let outside = predicted.iter().filter(is_outside).count();
        let text = format!("outside in {outside} of {} predicted", predicted.len());
        let least = OUTSIDE_MIN * predicted.len() as f64;
        (text, outside > 0 && outside as f64 >= least)
    }
}

/// Work that grows over the rounds of a visit.
pub(super) struct Drift;

impl Sabotage for Drift {
    fn name(&self) -> &'static str {
        "drift"
    }
    fn needs(&self) -> Result<(), Unmet> {
        Ok(())
    }
    fn dose(&self, draw: f64) -> f64 {
        20.0 + (60.0 * draw).round()
    }
    fn in_words(&self, dose: f64) -> String {
        format!("0 to {dose} % over a visit")
    }
    fn metric(&self) -> &'static str {
        "cpu.call"
    }
    fn impose(&self, dose: f64, _: u32, launch: &mut Launch) -> Result<Box<dyn Imposed>> {
        launch.environment.push(("FATHOM_SPIN".to_owned(), format!("cpu.call=0..{dose}%")));
        Ok(Box::new(Nothing))
    }
    fn causes(&self) -> &'static [Cause] {
        &[Cause::Drift]
    }
    fn truth(&self, seen: &Seen, _: &FullSpeed, dose: f64) -> (String, bool) {
        let mut drifts: Vec<f64> = seen
            .of_metric(self.metric())
            .filter_map(|record| record.summary.as_ref()?.drift)
            .collect();
        drifts.sort_by(f64::total_cmp);
        let middle = drifts.get(drifts.len() / 2).copied().unwrap_or(0.0);
        // Over the median, which half of the dose has lengthened.
        let owed = dose / 100.0 / (1.0 + dose / 200.0);
        let text = format!("{:.0} % recorded, {:.0} % imposed", 100.0 * middle, 100.0 * owed);
        (text, (middle / owed - 1.0).abs() < 0.3)
    }
}
