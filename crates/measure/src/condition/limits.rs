//! Limits of this process, and their usage.

use fathom_record::Condition;

use crate::tree::{FileTree, TreeFact, after, keep};

const LIMITS: &str = "/proc/self/limits";

/// With more processes, the number of a user's threads is unknown.
const PROCESSES_MAX: usize = 20_000;

pub(super) fn read(tree: &FileTree, condition: &mut Condition) {
    let text = tree.text(LIMITS).unwrap_or_default();
    let limit = |name: &str| {
        Some(TreeFact::new(soft(&text, &format!("{name} "))?, format!("{LIMITS}: {name}")))
    };
    keep!(condition.limits.processes, limit("Max processes"));
    keep!(condition.limits.files, limit("Max open files"));
    keep!(condition.limits.locked_bytes, limit("Max locked memory"));
    keep!(condition.limits.address_space_bytes, limit("Max address space"));
    // Counting reads the status of every process, and is needed with a limit only.
    let now = condition.limits.processes.and_then(|_| threads_of_user(tree));
    let now = now.map(|threads| TreeFact::new(threads, "/proc/*/status: Uid, Threads"));
    keep!(condition.limits.processes_now, now);
}

/// The soft limit: `Some(None)` is unlimited, `None` unknown.
fn soft(text: &str, key: &str) -> Option<Option<u64>> {
    match after(text, key)?.split_whitespace().next()? {
        "unlimited" => Some(None),
        number => Some(Some(number.parse().ok()?)),
    }
}

/// The number of threads with the same real user, which the kernel compares with the limit.
fn threads_of_user(tree: &FileTree) -> Option<u64> {
    let user = |text: &str| after(text, "Uid:")?.split_whitespace().next()?.parse::<u32>().ok();
    let own = user(&tree.text("/proc/self/status")?)?;
    let names = tree.names("/proc");
    let processes: Vec<&String> =
        names.iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).collect();
    if processes.len() > PROCESSES_MAX {
        return None;
    }
    let threads = processes.iter().filter_map(|process| {
        let text = tree.text(&format!("/proc/{process}/status"))?;
        (user(&text)? == own).then_some(())?;
        after(&text, "Threads:")?.parse::<u64>().ok()
    });
    Some(threads.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlimited_is_not_unknown() {
        let text = "Limit   Soft Limit\nMax open files   1024  4096  files\nMax address space \
                    unlimited unlimited bytes\nMax open filesystems 3 3";
        assert_eq!(soft(text, "Max open files "), Some(Some(1024)));
        assert_eq!(soft(text, "Max address space "), Some(None));
        assert_eq!(soft(text, "Max processes "), None);
    }
}
