//! Whether the process that began a run is still alive.
//!
//! Process ids are reused. Together with the process start time in ticks since boot, and the boot
//! id, a process id is unique.

use std::path::Path;

/// The mount point of procfs.
pub(crate) const PROC: &str = "/proc";

/// The process that began a run; absent fields could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    /// Clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub(crate) start_ticks: Option<i64>,
    pub(crate) boot_id: Option<String>,
}

impl Owner {
    pub(crate) fn current(proc: &Path) -> Self {
        let pid = std::process::id();
        Self { pid, start_ticks: stat(proc, pid).map(|(_, start)| start), boot_id: boot_id(proc) }
    }

    /// Whether the process has certainly ended. Without /proc the answer is false.
    pub(crate) fn is_gone(&self, proc: &Path) -> bool {
        let now = boot_id(proc);
        if self.boot_id.is_some() && now.is_some() && self.boot_id != now {
            return true;
        }
        match stat(proc, self.pid) {
            // A zombie writes nothing any more.
            Some(('Z' | 'X', _)) => true,
            Some((_, start)) => self.start_ticks.is_some_and(|known| known != start),
            None => now.is_some(),
        }
    }
}

/// The state and the start time of a process.
fn stat(proc: &Path, pid: u32) -> Option<(char, i64)> {
    let text = std::fs::read_to_string(proc.join(format!("{pid}/stat"))).ok()?;
    // Fields are counted from the last closing bracket: a process name may contain brackets.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    // State is field 3 and start time is field 22: 18 fields between them.
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

fn boot_id(proc: &Path) -> Option<String> {
    let text = std::fs::read_to_string(proc.join("sys/kernel/random/boot_id")).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fake /proc with one process.
    fn proc_with(boot: &str, pid: u32, state: char, start_ticks: i64) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("sys/kernel/random")).unwrap();
        std::fs::write(root.path().join("sys/kernel/random/boot_id"), boot).unwrap();
        std::fs::create_dir_all(root.path().join(pid.to_string())).unwrap();
        let zeros = " 0".repeat(18);
        let line = format!("{pid} (a ) R 1) {state}{zeros} {start_ticks} 0 0\n");
        std::fs::write(root.path().join(format!("{pid}/stat")), line).unwrap();
        root
    }

    fn owner() -> Owner {
        Owner { pid: 41, start_ticks: Some(900), boot_id: Some("boot-a".to_owned()) }
    }

    #[test]
    fn current_process_is_alive() {
        let proc = Path::new(PROC);
        let owner = Owner::current(proc);
        assert!(owner.start_ticks.is_some() && owner.boot_id.is_some());
        assert!(!owner.is_gone(proc));
    }

    #[test]
    fn reused_pid_reboot_and_zombie_count_as_gone() {
        let cases = [
            ("boot-a\n", 41, 'S', 900, false, "the process itself"),
            ("boot-a\n", 41, 'S', 901, true, "reused pid"),
            ("boot-b\n", 41, 'S', 900, true, "rebooted"),
            ("boot-a\n", 42, 'S', 900, true, "no such pid"),
            ("boot-a\n", 41, 'Z', 900, true, "zombie"),
        ];
        for (boot, pid, state, start, gone, why) in cases {
            let root = proc_with(boot, pid, state, start);
            assert_eq!(owner().is_gone(root.path()), gone, "{why}");
        }
    }

    #[test]
    fn without_proc_no_process_counts_as_gone() {
        let root = tempfile::tempdir().unwrap();
        assert!(!owner().is_gone(root.path()));
    }
}
