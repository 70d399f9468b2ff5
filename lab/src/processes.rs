//! Programs that a test starts: how they end, and what they leave running.

use std::process::{Child, ExitStatus};
use std::time::Duration;

pub use fathom_measure::process::{children, descendants};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);
const LOOKS_A_SECOND: u64 = 500;

/// How a program ended, or `None` where it was still running after `seconds` and was killed.
pub fn ended_within(child: &mut Child, seconds: u64) -> Option<ExitStatus> {
    for _ in 0..seconds * LOOKS_A_SECOND {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(PAUSE);
    }
    // It may have ended just now; then there is nothing to kill.
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// The living processes with `variable` (`NAME=value`) in their environment: a program that was
/// started with it, its workers and what those forked, whoever their parent is by now. A zombie
/// has no environment.
pub fn carrying(variable: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
        })
        .collect()
}

/// What is left of [`carrying`] when it was given `seconds` to end; empty if all is well.
pub fn left_after(variable: &str, seconds: u64) -> Vec<u32> {
    let mut left = Vec::new();
    for _ in 0..seconds * LOOKS_A_SECOND {
        left = carrying(variable);
        if left.is_empty() {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    left
}
