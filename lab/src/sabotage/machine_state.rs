//! The machine's state that sabotages change, to verify that it is restored.

use std::time::Duration;

use fathom_lab::{group, processes};
use fathom_measure::clock::{monotonic_raw_ns, wall_ns};

use super::guard::{GROUP, MARK};
use super::memory::{HUGE, swap_name};

/// Tolerance of a wall clock that was stepped and restored.
const WALL_MAX_NS: i64 = 20_000_000;
/// Waits of 10 ms for killed processes to end.
const TRIES: u32 = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MachineState {
    /// The lab's cgroups and swap file.
    files: Vec<String>,
    swaps: String,
    huge: String,
    /// Processes started by the lab.
    processes: Vec<String>,
    /// The wall clock minus the monotonic clock.
    wall_ahead_ns: i64,
}

impl MachineState {
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

    /// What is still different from this state after a second.
    pub(super) fn left_behind(&self) -> Option<String> {
        let mut now = Self::now();
        for _ in 0..TRIES {
            if now.equals(self) {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
            now = Self::now();
        }
        Some(format!("not restored: {now:?}; before: {self:?}"))
    }

    fn equals(&self, before: &Self) -> bool {
        let off_ns = (self.wall_ahead_ns - before.wall_ahead_ns).abs();
        let as_before = Self { wall_ahead_ns: before.wall_ahead_ns, ..self.clone() };
        off_ns <= WALL_MAX_NS && as_before == *before
    }
}
