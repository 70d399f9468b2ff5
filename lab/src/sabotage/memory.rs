//! Sabotages of memory: huge pages where small ones were asked for, a limit, and pages that are
//! swapped out while they are measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use fathom_lab::group::{self, Group};
use fathom_lab::{Unmet, strace};
use fathom_record::{Cause, Record, State};

use super::full_speed::FullSpeed;
use super::imposed::{GROUP, Imposed};
use super::machine::injected;
use super::processor::worker_of;
use super::program::{Launch, Seen};
use super::scenario::{Sabotage, all_in, around, root};

/// The kernel's setting of huge pages.
pub(super) const HUGE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const MIB: u64 = 1 << 20;

/// Huge pages where small ones were asked for.
pub(super) struct HugePages {
    /// Its name in the table.
    pub(super) name: &'static str,
    /// What is measured meanwhile.
    pub(super) metric: &'static str,
    /// What is in the name of the records that asked for small pages.
    pub(super) asked: &'static str,
}

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
        self.name
    }
    fn needs(&self) -> Result<(), Unmet> {
        root()?;
        strace::obstacle().map_or(Ok(()), |why| Err(Unmet(why)))?;
        if Path::new(HUGE).exists() { Ok(()) } else { Err(Unmet(format!("{HUGE} is missing"))) }
    }
    fn dose(&self, _: f64) -> f64 {
        1.0
    }
    fn in_words(&self, _: f64) -> String {
        "always, madvise without effect".to_owned()
    }
    fn metric(&self) -> &'static str {
        self.metric
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
    fn touches(&self, record: &Record) -> bool {
        // No huge page forms in a smaller set.
        let may_be_huge = |bytes: i64| bytes >= 2 * MIB as i64;
        record.name().contains(self.asked)
            && record.params.integer("set_bytes").is_none_or(may_be_huge)
    }
    fn truth(&self, seen: &Seen, _: &FullSpeed, _: f64) -> (String, bool) {
        let huge = |record: &Record| {
            record.verdict.reasons.first().is_some_and(|reason| reason.text.contains("huge"))
        };
        let named = seen.of_metric(self.metric()).filter(|record| self.touches(record)).all(huge);
        let text = if named { "huge pages named" } else { "huge pages not named" };
        (text.to_owned(), named && all_in(seen, self, State::Invalid))
    }
}

/// A limit of memory that the large steps do not fit in.
pub(super) struct Memory {
    /// Its name in the table.
    pub(super) name: &'static str,
    /// What is measured meanwhile.
    pub(super) metric: &'static str,
    /// The sizes that do not fit, as they stand in the names of their records.
    pub(super) large: &'static [&'static str],
}

struct Limited(Group);

impl Imposed for Limited {
    fn counted(&self) -> Option<f64> {
        self.0.figure("memory.oom_control", "oom_kill ")
    }
}

impl Sabotage for Memory {
    fn name(&self) -> &'static str {
        self.name
    }
    fn needs(&self) -> Result<(), Unmet> {
        group::path("memory", GROUP).map(drop)
    }
    fn dose(&self, draw: f64) -> f64 {
        (64.0 + 136.0 * draw).floor()
    }
    fn in_words(&self, dose: f64) -> String {
        format!("{dose} MiB")
    }
    fn metric(&self) -> &'static str {
        self.metric
    }
    fn impose(&self, dose: f64, _: u32, launch: &mut Launch) -> Result<Box<dyn Imposed>> {
        let limits = [("memory.limit_in_bytes", (dose as u64) << 20)];
        Ok(Box::new(Limited(around(launch, "memory", &limits)?)))
    }
    fn causes(&self) -> &'static [Cause] {
        &[Cause::Missing]
    }
    fn touches(&self, record: &Record) -> bool {
        self.large.iter().any(|bytes| record.name().contains(bytes))
    }
    fn truth(&self, seen: &Seen, _: &FullSpeed, dose: f64) -> (String, bool) {
        let killed = seen.counted.unwrap_or(f64::NAN);
        let recorded = seen.document.host.cgroup.memory_limit_bytes.map_or(0, |bytes| bytes >> 20);
        let named = |record: &Record| {
            let reasons = &record.verdict.reasons;
            record.verdict.shows_number()
                || reasons.first().is_some_and(|reason| reason.text.contains("cgroup's limit"))
        };
        let mut records = seen.of_metric(self.metric());
        let small = || seen.of_metric(self.metric()).filter(|record| !self.touches(record));
        let fits = all_in(seen, self, State::Unavailable) && records.all(named);
        let text = format!("limit recorded as {recorded} MiB, killed {killed}");
        let rest = small().count() > 0 && small().all(|record| record.verdict.shows_number());
        (text, fits && rest && killed == 0.0 && recorded == dose as u64)
    }
}

/// A limit that is lowered while the worker fills 256 MiB, with a place to swap to.
pub(super) struct Swap;

/// The limit at first: a quarter of it holds the step of 256 MiB, and none larger.
const ROOM_BYTES: u64 = 1040 * MIB;
/// A worker that has so much resident has begun to fill that step.
const FILLING_BYTES: u64 = 40 * MIB;
/// What may be swapped out, and some.
const SWAP_BYTES: u64 = 512 * MIB;

/// How far what is recorded and what the cgroup counts may differ, as a share.
const SWAPPED_MAX: f64 = 0.25;

struct Squeezed {
    // In this order: nobody is left in the group when the file is given up.
    group: Group,
    _file: SwapFile,
    limit_bytes: u64,
    squeezed: bool,
    most_bytes: f64,
}

impl Imposed for Squeezed {
    fn tick(&mut self, program: u32, _: u64) -> Result<()> {
        let swapped = self.group.figure("memory.stat", "swap ").unwrap_or(0.0);
        self.most_bytes = self.most_bytes.max(swapped);
        let filling = worker_of(program).is_some_and(|pid| {
            let pid = pid.as_raw_nonzero();
            let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
            let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
            let bytes = pages.unwrap_or(0) * rustix::param::page_size() as u64;
            // Once squeezed it stays so, however little of it is left resident.
            bytes > if self.squeezed { 0 } else { FILLING_BYTES }
        });
        if filling != self.squeezed {
            let limit = if filling { self.limit_bytes } else { ROOM_BYTES };
            // Refused while what must go cannot: the next tick tries again.
            if self.group.set("memory.limit_in_bytes", limit).is_ok() {
                self.squeezed = filling;
            }
        }
        Ok(())
    }

    fn counted(&self) -> Option<f64> {
        let killed = self.group.figure("memory.oom_control", "oom_kill ")?;
        (killed == 0.0).then_some(self.most_bytes)
    }
}

/// The name of the laboratory's swap file.
pub(super) fn swap_name() -> String {
    format!("fathom-lab-{}.swap", std::process::id())
}

/// A file that the kernel swaps to, until it is dropped.
struct SwapFile(PathBuf);

impl SwapFile {
    fn of(bytes: u64) -> Result<Self> {
        let path = std::env::temp_dir().join(swap_name());
        let options = || {
            let mut options = std::fs::OpenOptions::new();
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            options.write(true).create_new(true).open(&path)
        };
        let mut file = options().with_context(|| format!("make {}", path.display()))?;
        let made = Self(path);
        // Written, not reserved: the kernel refuses a file with holes.
        std::io::copy(&mut std::io::Read::take(std::io::repeat(0), bytes), &mut file)?;
        file.sync_all()?;
        drop(file);
        for word in ["mkswap", "swapon"] {
            let output = Command::new(word).arg(&made.0).output().context(word)?;
            if !output.status.success() {
                bail!("{word}: {}", String::from_utf8_lossy(&output.stderr).trim());
            }
        }
        Ok(made)
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).output();
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Sabotage for Swap {
    fn name(&self) -> &'static str {
        "swapped out"
    }
    fn needs(&self) -> Result<(), Unmet> {
        group::path("memory", GROUP).map(drop)?;
        SwapFile::of(MIB).map(drop).map_err(|error| Unmet(format!("{error:#}")))
    }
    fn dose(&self, draw: f64) -> f64 {
        (80.0 + 120.0 * draw).floor()
    }
    fn in_words(&self, dose: f64) -> String {
        format!("{dose} MiB left of 256")
    }
    fn metric(&self) -> &'static str {
        "os.process.fork"
    }
    fn impose(&self, dose: f64, _: u32, launch: &mut Launch) -> Result<Box<dyn Imposed>> {
        let file = SwapFile::of(SWAP_BYTES)?;
        let group = around(launch, "memory", &[("memory.limit_in_bytes", ROOM_BYTES)])?;
        let limit_bytes = dose as u64 * MIB;
        Ok(Box::new(Squeezed { group, _file: file, limit_bytes, squeezed: false, most_bytes: 0.0 }))
    }
    fn causes(&self) -> &'static [Cause] {
        &[Cause::WrongWork, Cause::NotAsAsked, Cause::MajorFaults]
    }
    fn touches(&self, record: &Record) -> bool {
        record.name().contains("268435456")
    }
    fn truth(&self, seen: &Seen, _: &FullSpeed, _: f64) -> (String, bool) {
        let counted = seen.counted.unwrap_or(f64::NAN) / MIB as f64;
        // `… of … bytes resident, … huge, … swapped`
        let swapped = |record: &Record| {
            let text = &record.verdict.reasons.first()?.text;
            text.rsplit_once(" huge, ")?.1.strip_suffix(" swapped")?.parse::<f64>().ok()
        };
        let touched = seen.of_metric(self.metric()).filter(|record| self.touches(record));
        let most = touched.filter_map(swapped).fold(0.0, f64::max) / MIB as f64;
        let text = format!("cgroup {counted:.0} MiB, recorded {most:.0} MiB swapped");
        // A page that was written out and is still there is swapped for one, and not for the other.
        let fits = most > 0.0 && (most / counted - 1.0).abs() <= SWAPPED_MAX;
        (text, fits && all_in(seen, self, State::Invalid))
    }
}
