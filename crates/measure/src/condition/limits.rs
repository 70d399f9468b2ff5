//! Limits of this process, and what is taken of them.

use fathom_record::Condition;

use crate::host::tree::{Fact, Tree, after, keep};

const LIMITS: &str = "/proc/self/limits";

/// Processes that are looked at to count a user's threads; with more, the count stays unknown.
const PROCESSES_MAX: usize = 20_000;

pub(super) fn read(tree: &Tree, condition: &mut Condition) {
    let text = tree.text(LIMITS).unwrap_or_default();
    let limit = |name: &str| {
        Some(Fact::new(soft(&text, &format!("{name} "))?, format!("{LIMITS}: {name}")))
    };
    keep!(condition.limits.processes, limit("Max processes"));
    keep!(condition.limits.files, limit("Max open files"));
    keep!(condition.limits.locked_bytes, limit("Max locked memory"));
    keep!(condition.limits.address_space_bytes, limit("Max address space"));
    // Counting reads the status of every process: worth it only under a limit.
    let now = condition.limits.processes.and_then(|_| threads_of_user(tree));
    let now = now.map(|threads| Fact::new(threads, "/proc/*/status: Uid, Threads"));
    keep!(condition.limits.processes_now, now);
}

/// The soft limit of a line: `Some(None)` is unlimited, `None` unknown.
fn soft(text: &str, key: &str) -> Option<Option<u64>> {
    match after(text, key)?.split_whitespace().next()? {
        "unlimited" => Some(None),
        number => Some(Some(number.parse().ok()?)),
    }
}

/// Threads whose real user is this process's, as far as `/proc` shows them: the kernel counts
/// those, whatever they are doing.
fn threads_of_user(tree: &Tree) -> Option<u64> {
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
    fn unlimited_is_known_and_a_missing_line_is_not() {
        let text = "Limit   Soft Limit\nMax open files   1024  4096  files\nMax address space \
                    unlimited unlimited bytes\nMax open filesystems 3 3";
        assert_eq!(soft(text, "Max open files "), Some(Some(1024)));
        assert_eq!(soft(text, "Max address space "), Some(None));
        assert_eq!(soft(text, "Max processes "), None);
    }
}
