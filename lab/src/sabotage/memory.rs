//! Sabotages of memory: huge pages instead of base pages, a cgroup limit, and swapping.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use fathom_lab::Unmet;
use fathom_lab::group::{self, LabGroup};
use fathom_record::{Cause, Record, State};

use super::full_speed::FullSpeed;
use super::guard::{GROUP, Guard};
use super::machine::injected;
use super::processor::worker_of;
use super::program::{Launch, RunResult};
use super::scenario::{Sabotage, in_group, root, strace};

/// The kernel's huge page mode.
pub(super) const HUGE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const MIB: u64 = 1 << 20;

/// Huge pages where the metric uses base pages.
pub(super) const HUGE_PAGES: Sabotage = Sabotage {
    name: "huge pages",
    metric: "os.process.fork",
    causes: &[Cause::WrongWork, Cause::NotAsAsked],
    needs: || {
        root()?;
        strace()?;
        if Path::new(HUGE).exists() { Ok(()) } else { Err(Unmet(format!("{HUGE} is missing"))) }
    },
    dose_text: |_| "always, madvise without effect".to_owned(),
    start: start_huge_pages,
    truth: |sabotage, run, _, _| {
        let names_huge = |record: &Record| {
            record.verdict.reasons.first().is_some_and(|reason| reason.text.contains("huge"))
        };
        let named = sabotage.affected_records(run).all(names_huge);
        let text = if named { "huge pages named" } else { "huge pages not named" };
        (text.to_owned(), named && sabotage.all_in(run, State::Invalid))
    },
    ..Sabotage::BASE
};

pub(super) const HUGE_PAGES_LATENCY: Sabotage = Sabotage {
    name: "huge pages, latency",
    metric: "memory.latency",
    affected: &["page=4K"],
    ..HUGE_PAGES
};

/// Restores the huge page mode.
struct HugePageMode(String);

impl Guard for HugePageMode {}

impl Drop for HugePageMode {
    fn drop(&mut self) {
        let _ = std::fs::write(HUGE, &self.0);
    }
}

fn start_huge_pages(_: f64, _: u32, launch: &mut Launch) -> Result<Box<dyn Guard>> {
    let text = std::fs::read_to_string(HUGE)?;
    let before = text.split(['[', ']']).nth(1).context("no huge page mode is selected")?;
    let guard = HugePageMode(before.to_owned());
    std::fs::write(HUGE, "always").with_context(|| format!("write {HUGE}"))?;
    launch.before = injected("madvise", "retval=0");
    Ok(Box::new(guard))
}

/// A memory limit below the large sizes.
pub(super) const MEMORY_LIMIT: Sabotage = Sabotage {
    name: "memory limit",
    metric: "os.process.fork",
    causes: &[Cause::Missing],
    needs: || group::path("memory", GROUP).map(drop),
    dose: |draw| (64.0 + 136.0 * draw).floor(),
    dose_text: |dose| format!("{dose} MiB"),
    start: |dose, _, launch| {
        let limits = [("memory.limit_in_bytes", (dose as u64) << 20)];
        Ok(Box::new(LimitedGroup(in_group(launch, "memory", &limits)?)))
    },
    affected: &["268435456", "1073741824"],
    truth: memory_limit_truth,
    ..Sabotage::BASE
};

pub(super) const MEMORY_LIMIT_UNMAPPING: Sabotage = Sabotage {
    name: "memory limit, unmapping",
    metric: "memory.munmap",
    affected: &["67108864"],
    ..MEMORY_LIMIT
};

struct LimitedGroup(LabGroup);

impl Guard for LimitedGroup {
    fn counted(&self) -> Option<f64> {
        self.0.figure("memory.oom_control", "oom_kill ")
    }
}

fn memory_limit_truth(
    sabotage: &Sabotage,
    run: &RunResult,
    _: &FullSpeed,
    dose: f64,
) -> (String, bool) {
    let killed = run.counted.unwrap_or(f64::NAN);
    let recorded = run.document.host.cgroup.memory_limit_bytes.map_or(0, |bytes| bytes >> 20);
    let shows_number = |record: &Record| record.verdict.shows_number();
    let names_limit = |record: &Record| {
        let first = record.verdict.reasons.first();
        first.is_some_and(|reason| reason.text.contains("cgroup"))
    };
    let named = run.of_metric(sabotage.metric).all(|it| shows_number(it) || names_limit(it));
    let small = || run.of_metric(sabotage.metric).filter(|record| !sabotage.affects(record));
    let small_measured = small().count() > 0 && small().all(shows_number);
    let large_unavailable = sabotage.all_in(run, State::Unavailable);
    let text = format!("limit recorded as {recorded} MiB, {killed} OOM kills");
    let is_right = large_unavailable && named && small_measured;
    (text, is_right && killed == 0.0 && recorded == dose as u64)
}

/// The limit at first: fits the size of 256 MiB, which needs four times as much, and none larger.
const ROOM_BYTES: u64 = 1040 * MIB;
/// A worker with this much resident memory is filling that size.
const FILLING_BYTES: u64 = 40 * MIB;
/// Size of the swap file.
const SWAP_BYTES: u64 = 512 * MIB;
/// Tolerance between the recorded swapped bytes and the cgroup's count.
const SWAPPED_MAX: f64 = 0.25;

/// A limit that is lowered while the worker fills 256 MiB, with swap space.
pub(super) const SWAP: Sabotage = Sabotage {
    name: "swapped out",
    metric: "os.process.fork",
    causes: &[Cause::WrongWork, Cause::NotAsAsked, Cause::MajorFaults],
    needs: || {
        group::path("memory", GROUP).map(drop)?;
        SwapFile::with_bytes(MIB).map(drop).map_err(|error| Unmet(format!("{error:#}")))
    },
    dose: |draw| (80.0 + 120.0 * draw).floor(),
    dose_text: |dose| format!("{dose} of 256 MiB left"),
    start: |dose, _, launch| {
        let file = SwapFile::with_bytes(SWAP_BYTES)?;
        let group = in_group(launch, "memory", &[("memory.limit_in_bytes", ROOM_BYTES)])?;
        let limit_bytes = dose as u64 * MIB;
        let squeezed = false;
        Ok(Box::new(SqueezedGroup { group, _file: file, limit_bytes, squeezed, most_bytes: 0.0 }))
    },
    affected: &["268435456"],
    truth: |sabotage, run, _, _| {
        let counted = run.counted.unwrap_or(f64::NAN) / MIB as f64;
        // `… of … bytes resident, … huge, … swapped`
        let swapped = |record: &Record| {
            let text = &record.verdict.reasons.first()?.text;
            text.rsplit_once(" huge, ")?.1.strip_suffix(" swapped")?.parse::<f64>().ok()
        };
        let swapped = sabotage.affected_records(run).filter_map(swapped);
        let most = swapped.fold(0.0, f64::max) / MIB as f64;
        let text = format!("cgroup {counted:.0} MiB, recorded {most:.0} MiB swapped");
        // The two counts differ in pages that are in swap and still resident.
        let fits = most > 0.0 && (most / counted - 1.0).abs() <= SWAPPED_MAX;
        (text, fits && sabotage.all_in(run, State::Invalid))
    },
    ..Sabotage::BASE
};

struct SqueezedGroup {
    // Dropped in this order: the group must be empty before swapoff.
    group: LabGroup,
    _file: SwapFile,
    limit_bytes: u64,
    squeezed: bool,
    most_bytes: f64,
}

impl Guard for SqueezedGroup {
    fn tick(&mut self, program: u32, _: u64) -> Result<()> {
        let swapped = self.group.figure("memory.stat", "swap ").unwrap_or(0.0);
        self.most_bytes = self.most_bytes.max(swapped);
        let filling = worker_of(program).is_some_and(|pid| {
            let pid = pid.as_raw_nonzero();
            let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
            let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
            let bytes = pages.unwrap_or(0) * rustix::param::page_size() as u64;
            // Once lowered, the limit stays, however little remains resident.
            bytes > if self.squeezed { 0 } else { FILLING_BYTES }
        });
        if filling != self.squeezed {
            let limit = if filling { self.limit_bytes } else { ROOM_BYTES };
            // EBUSY until enough is reclaimed: the next tick tries again.
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

pub(super) fn swap_name() -> String {
    format!("fathom-lab-{}.swap", std::process::id())
}

/// An active swap file.
struct SwapFile(PathBuf);

impl SwapFile {
    fn with_bytes(bytes: u64) -> Result<Self> {
        let path = std::env::temp_dir().join(swap_name());
        let open = || {
            let mut options = std::fs::OpenOptions::new();
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            options.write(true).create_new(true).open(&path)
        };
        let mut file = open().with_context(|| format!("create {}", path.display()))?;
        let swap = Self(path);
        // Written, not allocated: swapon rejects files with holes.
        std::io::copy(&mut std::io::Read::take(std::io::repeat(0), bytes), &mut file)?;
        file.sync_all()?;
        drop(file);
        for word in ["mkswap", "swapon"] {
            let output = Command::new(word).arg(&swap.0).output().context(word)?;
            if !output.status.success() {
                bail!("{word}: {}", String::from_utf8_lossy(&output.stderr).trim());
            }
        }
        Ok(swap)
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).output();
        let _ = std::fs::remove_file(&self.0);
    }
}
