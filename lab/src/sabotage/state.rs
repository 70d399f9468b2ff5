//! What a laboratory must leave as it found it.

use std::time::Duration;

use fathom_lab::{group, processes};
use fathom_measure::clock::{monotonic_raw_ns, wall_ns};

use super::imposed::{GROUP, MARK};
use super::memory::{HUGE, swap_name};

/// What setting a clock back to where it was may cost.
const WALL_MAX_NS: i64 = 20_000_000;
/// The kernel takes a moment to end what was killed.
const TRIES: u32 = 100;

/// The machine's state, as far as a sabotage changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Control groups and the swap file of the laboratory.
    files: Vec<String>,
    /// Files that the kernel swaps to.
    swaps: String,
    /// The mode of huge pages.
    huge: String,
    /// Processes that the laboratory started.
    processes: Vec<String>,
    /// The wall clock before the one that nobody sets.
    wall_ahead_ns: i64,
}

impl State {
    /// As it is.
    pub(super) fn now() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let groups = ["cpu", "memory"].into_iter().flat_map(|one| group::path(one, GROUP));
        let swap = swap_name();
        let left = std::env::temp_dir().join(&swap);
        let files = groups.chain([left]).filter(|path| path.exists());
        let mark = format!("{MARK}={}", std::process::id());
        let marked = processes::carrying(&mark).into_iter();
        Self {
            files: files.map(|path| path.display().to_string()).collect(),
            swaps: read("/proc/swaps").lines().filter(|line| line.contains(&swap)).collect(),
            huge: read(HUGE),
            processes: marked.map(|pid| read(&format!("/proc/{pid}/comm"))).collect(),
            wall_ahead_ns: wall_ns().cast_signed() - monotonic_raw_ns().cast_signed(),
        }
    }

    /// What is not as it was before, within a second.
    pub(super) fn left_behind(&self) -> Option<String> {
        let mut now = Self::now();
        for _ in 0..TRIES {
            if now.is_as(self) {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
            now = Self::now();
        }
        Some(format!("left imposed: {now:?}; before it was {self:?}"))
    }

    fn is_as(&self, before: &Self) -> bool {
        let off_ns = (self.wall_ahead_ns - before.wall_ahead_ns).abs();
        let as_before = Self { wall_ahead_ns: before.wall_ahead_ns, ..self.clone() };
        off_ns <= WALL_MAX_NS && as_before == *before
    }
}
