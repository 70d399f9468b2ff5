//! Limits of this process, and what is taken of them.

use fathom_record::Condition;

use super::keep;
use crate::host::tree::{Fact, Tree};

const LIMITS: &str = "/proc/self/limits";

/// Processes that are looked at to count a user's threads; with more, the count stays unknown.
const PROCESSES_MAX: usize = 20_000;

pub(super) fn read(tree: &Tree, condition: &mut Condition) {
    let text = tree.text(LIMITS).unwrap_or_default();
    let mut limit = |name: &str, path: &str| {
        let fact = soft(&text, name).map(|limit| Fact::new(limit, format!("{LIMITS}: {name}")));
        keep(condition, path, fact).flatten()
    };
    let processes = limit("Max processes", "limits.processes");
    let files = limit("Max open files", "limits.files");
    let locked_bytes = limit("Max locked memory", "limits.locked_bytes");
    let space = limit("Max address space", "limits.address_space_bytes");
    // Without a limit there is nothing to hold the count against.
    let now = processes.and_then(|_| threads_of_user(tree));
    let now = now.map(|threads| Fact::new(threads, "/proc/*/status: Uid, Threads"));
    let limits = &mut condition.limits;
    (limits.processes, limits.files) = (processes, files);
    (limits.locked_bytes, limits.address_space_bytes) = (locked_bytes, space);
    condition.limits.processes_now = keep(condition, "limits.processes_now", now);
}

/// The soft limit of a line: `Some(None)` is unlimited, `None` unknown.
fn soft(text: &str, name: &str) -> Option<Option<u64>> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    match rest.split_whitespace().next()? {
        "unlimited" => Some(None),
        number => Some(Some(number.parse().ok()?)),
    }
}

/// A field of a status file.
pub(super) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim()))
}

/// Threads whose real user is this process's, as far as `/proc` shows them: the kernel counts
/// those, whatever they are doing.
fn threads_of_user(tree: &Tree) -> Option<u64> {
    let user = |text: &str| field(text, "Uid")?.split_whitespace().next()?.parse::<u32>().ok();
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
        field(&text, "Threads")?.parse::<u64>().ok()
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
        assert_eq!(soft(text, "Max open files"), Some(Some(1024)));
        assert_eq!(soft(text, "Max address space"), Some(None));
        assert_eq!(soft(text, "Max processes"), None);
    }
}
