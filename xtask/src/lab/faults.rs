//! Sabotages of the memory group: pages of another size, a cgroup that is too small, and another
//! process that streams through memory on the second core.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use fathom_record::{Cause, Record, State};

use super::group::{Group, mounted};
use super::program::{Ended, Launch, Seen};
use super::sabotage::{Imposed, Sabotage, all_in, root, tool};

/// The kernel's setting of huge pages.
const HUGE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Huge pages everywhere, and advice without effect: neither are the small pages small, nor is
/// what is given up gone.
pub(super) struct DeafToAdvice;

/// A setting of the kernel that is put back.
struct PutBack(String);

impl Imposed for PutBack {}

impl Drop for PutBack {
    fn drop(&mut self) {
        let _ = std::fs::write(HUGE, &self.0);
    }
}

impl Sabotage for DeafToAdvice {
    fn name(&self) -> &'static str {
        "faults by huge pages"
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
        "memory.fault"
    }
    fn impose(&self, _: f64, _: u32, launch: &mut Launch) -> Result<Box<dyn Imposed>> {
        let text = std::fs::read_to_string(HUGE)?;
        let before = text.split(['[', ']']).nth(1).context("no mode is chosen")?.to_owned();
        let guard = PutBack(before);
        std::fs::write(HUGE, "always").with_context(|| format!("write {HUGE}"))?;
        let words = ["strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null"];
        let inject = ["-e", "trace=madvise", "-e", "inject=madvise:retval=0"];
        launch.before = words.into_iter().chain(inject).map(str::to_owned).collect();
        Ok(Box::new(guard))
    }
    fn causes(&self) -> &'static [Cause] {
        &[Cause::WrongWork]
    }
    fn truth(&self, seen: &Seen, _: &dyn Imposed, _: f64) -> (String, bool) {
        let invalid = all_in(seen, self, State::Invalid);
        let text = if invalid { "no number shown" } else { "a number is shown" };
        (text.to_owned(), invalid)
    }
}

/// A limit of memory that the largest mapping does not fit in.
pub(super) struct SmallGroup;

struct Limited(Group);

impl Imposed for Limited {
    fn counted(&self) -> Option<f64> {
        self.0.figure("memory.oom_control", "oom_kill ")
    }
}

impl Sabotage for SmallGroup {
    fn name(&self) -> &'static str {
        "memory limit, unmapping"
    }
    fn needs(&self) -> Result<(), String> {
        root().and_then(|()| mounted("memory").map(drop))
    }
    fn dose(&self, draw: f64) -> f64 {
        (64.0 + 160.0 * draw).floor()
    }
    fn in_words(&self, dose: f64) -> String {
        format!("{dose} MiB")
    }
    fn metric(&self) -> &'static str {
        "memory.munmap"
    }
    fn impose(&self, dose: f64, _: u32, launch: &mut Launch) -> Result<Box<dyn Imposed>> {
        let limits = [("memory.limit_in_bytes", (dose as u64) << 20)];
        Ok(Box::new(Limited(Group::around(launch, "memory", &limits)?)))
    }
    fn causes(&self) -> &'static [Cause] {
        &[Cause::Missing]
    }
    fn touches(&self, record: &Record) -> bool {
        record.name().contains("67108864")
    }
    fn truth(&self, seen: &Seen, imposed: &dyn Imposed, _: f64) -> (String, bool) {
        let killed = imposed.counted().unwrap_or(f64::NAN);
        let named = |record: &Record| {
            record.verdict.reasons.first().is_some_and(|one| one.text.contains("cgroup's limit"))
        };
        let mut large = seen.of_metric(self.metric()).filter(|record| self.touches(record));
        let told = large.all(named) && all_in(seen, self, State::Unavailable);
        let rest = seen.of_metric(self.metric()).filter(|record| !self.touches(record));
        let text = format!("limit {}, killed {killed}", if told { "told" } else { "not told" });
        (text, told && killed == 0.0 && rest.count() > 0)
    }
}

/// Another process that streams through memory on a core that the metric uses too.
pub(super) struct Streaming {
    /// A metric that is measured on all cores at once.
    pub(super) metric: &'static str,
}

struct Stream {
    ended: Ended,
}

impl Imposed for Stream {
    /// Seconds of CPU time that it has had.
    fn counted(&self) -> Option<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.ended.id())).ok()?;
        let (_, rest) = text.rsplit_once(')')?;
        let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        Some(ticks.filter_map(Result::ok).sum::<f64>() / 100.0)
    }
}

impl Sabotage for Streaming {
    fn name(&self) -> &'static str {
        "streaming neighbour"
    }
    fn needs(&self) -> Result<(), String> {
        tool("taskset")?;
        if fathom_probes::find(self.metric).is_none() {
            return Err(format!("{} is not built", self.metric));
        }
        match fathom_measure::affinity::allowed().len() {
            0 | 1 => Err("needs a second CPU".to_owned()),
            _ => Ok(()),
        }
    }
    fn dose(&self, draw: f64) -> f64 {
        (16.0 + 48.0 * draw).floor()
    }
    fn in_words(&self, dose: f64) -> String {
        format!("{dose} MiB at a time")
    }
    fn metric(&self) -> &'static str {
        self.metric
    }
    fn impose(&self, dose: f64, cpu: u32, _: &mut Launch) -> Result<Box<dyn Imposed>> {
        let mut others = fathom_measure::affinity::allowed().into_iter();
        let other = others.find(|other| *other != cpu).context("no second CPU")?;
        // Each block is cleared by the kernel, and larger than the caches of a core.
        let block = format!("bs={dose}M");
        let mut command = Command::new("taskset");
        command.args(["-c", &other.to_string(), "dd", "if=/dev/zero", "of=/dev/null", &block]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let ended = Ended::start(&mut command).context("start a stream")?;
        Ok(Box::new(Stream { ended }))
    }
    fn causes(&self) -> &'static [Cause] {
        &[Cause::Contention, Cause::NotRunning]
    }
    fn truth(&self, seen: &Seen, imposed: &dyn Imposed, _: f64) -> (String, bool) {
        let streamed = imposed.counted().unwrap_or(0.0);
        let elapsed = seen.elapsed_ns as f64 / 1e9;
        (format!("streamed for {streamed:.1} of {elapsed:.1} s"), streamed > 0.2 * elapsed)
    }
}
