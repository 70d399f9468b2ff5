//! What a program left running, and how long one waits for it to end.

use std::process::{Child, ExitStatus};
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);
const LOOKS_A_SECOND: u64 = 500;

/// The living processes whose environment holds `marker`: a program that was started with it, its
/// workers and what those forked, whoever their parent is by now. A zombie has no environment.
pub fn carrying(marker: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.windows(marker.len()).any(|part| part == marker.as_bytes())
        })
        .collect()
}

/// What is left of [`carrying`] when it was given `seconds` to end; empty if all is well.
pub fn left_after(marker: &str, seconds: u64) -> Vec<u32> {
    let mut left = Vec::new();
    for _ in 0..seconds * LOOKS_A_SECOND {
        left = carrying(marker);
        if left.is_empty() {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    left
}

/// The children of a process, as the kernel lists them.
pub fn children(pid: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    parsed(&list.unwrap_or_default())
}

/// The children of a process, of all its threads, and theirs.
pub fn descendants(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|one| std::fs::read_to_string(one.path().join("children")).ok());
    let own: Vec<u32> = lists.flat_map(|list| parsed(&list)).collect();
    own.iter().flat_map(|child| std::iter::once(*child).chain(descendants(*child))).collect()
}

fn parsed(list: &str) -> Vec<u32> {
    list.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// How a program ended, or `None` where it was still running after `seconds` and was killed.
pub fn ended_within(child: &mut Child, seconds: u64) -> Option<ExitStatus> {
    for _ in 0..seconds * LOOKS_A_SECOND {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) => std::thread::sleep(PAUSE),
            Err(_) => break,
        }
    }
    // It may have ended just now; then there is nothing to kill.
    let _ = child.kill();
    let _ = child.wait();
    None
}
