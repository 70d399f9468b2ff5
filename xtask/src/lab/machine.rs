//! Sabotages of everything else: the wall clock, the work, the values, the memory.

use std::path::Path;

use anyhow::{Context as _, Result};
use fathom_measure::clock::{monotonic_raw_ns, wall_ns};
use fathom_record::{Cause, Record, State};
use rustix::time::{ClockId, Timespec, clock_settime};

use super::group::{Group, mounted};
use super::program::{Launch, Seen};
use super::sabotage::{Imposed, Nothing, Sabotage, all_in, root, tool};

/// When the wall clock is stepped, and when put back: others live on this machine.
const STEP_AT_NS: u64 = 300_000_000;
const STEP_FOR_NS: u64 = 20_000_000;
/// How the laboratory's clock and the run's may differ: starting and ending the program.
const DURATION_MAX_S: f64 = 0.6;
/// The kernel's setting of huge pages.
const HUGE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

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
    fn needs(&self) -> Result<(), String> {
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
    fn truth(&self, seen: &Seen, imposed: &dyn Imposed, _: f64) -> (String, bool) {
        let run = &seen.document.run;
        let told = run.notes.iter().any(|note| note.contains("wall clock was stepped"));
        let took = run.duration_ns.unwrap_or(f64::NAN) / 1e9;
        let truly = seen.elapsed_ns as f64 / 1e9;
        let stands = run.verdict.state != State::Invalid && (took - truly).abs() < DURATION_MAX_S;
        let said = if told { "told" } else { "not told" };
        let text = format!("{said}; run took {took:.1} s, truly {truly:.1} s");
        (text, told && stands && imposed.counted() == Some(1.0))
    }
}

/// A system call that answers wrongly from some call on.
pub(super) struct WrongWork;

impl Sabotage for WrongWork {
    fn name(&self) -> &'static str {
        "wrong answers"
    }
    fn needs(&self) -> Result<(), String> {
        tool("strace")
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
    fn truth(&self, seen: &Seen, _: &dyn Imposed, _: f64) -> (String, bool) {
        let invalid = all_in(seen, self, State::Invalid);
        let text = if invalid { "no number shown" } else { "a number is shown" };
        (text.to_owned(), invalid)
    }
}

/// The words that let a system call answer otherwise.
fn injected(call: &str, how: &str) -> Vec<String> {
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:{how}"));
    let words =
        ["strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    words.map(str::to_owned).to_vec()
}

/// Work that grows over the rounds of a visit.
pub(super) struct Drift;

impl Sabotage for Drift {
    fn name(&self) -> &'static str {
        "drift"
    }
    fn needs(&self) -> Result<(), String> {
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
    fn truth(&self, seen: &Seen, _: &dyn Imposed, dose: f64) -> (String, bool) {
        let mut drifts: Vec<f64> = seen
            .of_metric(self.metric())
            .filter_map(|record| record.summary.as_ref()?.drift)
            .collect();
        drifts.sort_by(f64::total_cmp);
        let middle = drifts.get(drifts.len() / 2).copied().unwrap_or(0.0);
        // Over the median, which half of the dose has lengthened.
        let owed = dose / 100.0 / (1.0 + dose / 200.0);
        let text = format!("{:.0} % told, {:.0} % imposed", 100.0 * middle, 100.0 * owed);
        (text, (middle / owed - 1.0).abs() < 0.3)
    }
}

/// Huge pages where small ones were asked for.
pub(super) struct HugePages;

/// A setting of the kernel that is put back.
struct Restored {
    before: String,
}

impl Imposed for Restored {}

impl Drop for Restored {
    fn drop(&mut self) {
        let _ = std::fs::write(HUGE, &self.before);
    }
}

impl Sabotage for HugePages {
    fn name(&self) -> &'static str {
        "huge pages"
    }
    fn needs(&self) -> Result<(), String> {
        root().and_then(|()| tool("strace"))?;
        if Path::new(HUGE).exists() { Ok(()) } else { Err(format!("{HUGE} is missing")) }
    }
    fn dose(&self, _: f64) -> f64 {
        1.0
    }
    fn in_words(&self, _: f64) -> String {
        "always, madvise without effect".to_owned()
    }
    fn metric(&self) -> &'static str {
        "os.process.fork"
    }
    fn impose(&self, _: f64, _: u32, launch: &mut Launch) -> Result<Box<dyn Imposed>> {
        let text = std::fs::read_to_string(HUGE)?;
        let before = text.split(['[', ']']).nth(1).context("no mode is chosen")?.to_owned();
        let guard = Restored { before };
        std::fs::write(HUGE, "always").with_context(|| format!("write {HUGE}"))?;
        launch.before = injected("madvise", "retval=0");
        Ok(Box::new(guard))
    }
    fn causes(&self) -> &'static [Cause] {
        &[Cause::WrongWork, Cause::NotAsAsked]
    }
    fn truth(&self, seen: &Seen, _: &dyn Imposed, _: f64) -> (String, bool) {
        let huge = |record: &Record| {
            record.verdict.reasons.first().is_some_and(|reason| reason.text.contains("huge"))
        };
        let named = seen.of_metric(self.metric()).all(huge);
        let text = if named { "huge pages named" } else { "huge pages not named" };
        (text.to_owned(), named && all_in(seen, self, State::Invalid))
    }
}

/// A limit of memory that the large steps do not fit in.
pub(super) struct Memory;

struct Limited(Group);

impl Imposed for Limited {
    fn counted(&self) -> Option<f64> {
        self.0.figure("memory.oom_control", "oom_kill ")
    }
}

impl Sabotage for Memory {
    fn name(&self) -> &'static str {
        "memory limit"
    }
    fn needs(&self) -> Result<(), String> {
        root().and_then(|()| mounted("memory").map(drop))
    }
    fn dose(&self, draw: f64) -> f64 {
        (64.0 + 136.0 * draw).floor()
    }
    fn in_words(&self, dose: f64) -> String {
        format!("{dose} MiB")
    }
    fn metric(&self) -> &'static str {
        "os.process.fork"
    }
    fn impose(&self, dose: f64, _: u32, launch: &mut Launch) -> Result<Box<dyn Imposed>> {
        let limits = [("memory.limit_in_bytes", (dose as u64) << 20)];
        Ok(Box::new(Limited(Group::around(launch, "memory", &limits)?)))
    }
    fn causes(&self) -> &'static [Cause] {
        &[Cause::Missing]
    }
    fn touches(&self, record: &Record) -> bool {
        ["268435456", "1073741824"].iter().any(|bytes| record.name().contains(bytes))
    }
    fn truth(&self, seen: &Seen, imposed: &dyn Imposed, dose: f64) -> (String, bool) {
        let killed = imposed.counted().unwrap_or(f64::NAN);
        let told = seen.document.host.cgroup.memory_limit_bytes.map_or(0, |bytes| bytes >> 20);
        let named = |record: &Record| {
            let reasons = &record.verdict.reasons;
            record.verdict.shows_number()
                || reasons.first().is_some_and(|reason| reason.text.contains("cgroup's limit"))
        };
        let mut records = seen.of_metric(self.metric());
        let small = seen.document.records.iter().filter(|record| record.verdict.shows_number());
        let fits = all_in(seen, self, State::Unavailable) && records.all(named);
        let text = format!("limit told as {told} MiB, killed {killed}");
        let rest = small.count() > 10;
        (text, fits && rest && killed == 0.0 && told == dose as u64)
    }
}
