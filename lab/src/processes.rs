//! Waiting for a test's child processes, and finding processes that they left.

use std::process::{Child, ExitStatus};
use std::time::Duration;

pub use fathom_measure::process::{children, descendants};

const PAUSE: Duration = Duration::from_millis(2);
const POLLS_PER_SECOND: u64 = 500;

/// A child's exit status; kills it and returns `None` if it still runs after `seconds`.
pub fn ended_within(child: &mut Child, seconds: u64) -> Option<ExitStatus> {
    for _ in 0..seconds * POLLS_PER_SECOND {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(PAUSE);
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Running processes with `variable` (`NAME=value`) in their environment: a program started with it
/// and all its descendants, also reparented ones. Zombies have no environment.
pub fn carrying(variable: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
        })
        .collect()
}

/// Waits up to `seconds` until [`carrying`] finds no process; returns the remaining ones.
pub fn left_after(variable: &str, seconds: u64) -> Vec<u32> {
    let mut left = Vec::new();
    for _ in 0..seconds * POLLS_PER_SECOND {
        left = carrying(variable);
        if left.is_empty() {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    left
}
