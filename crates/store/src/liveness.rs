//! Whether the process that began a run still lives.
//!
//! A process id alone is used again after a while. Together with the time the process started, in
//! ticks since boot, and the id of that boot, it names one process for good.

use std::path::Path;

/// Where the kernel shows processes.
pub(crate) const PROC: &str = "/proc";

/// The process that began a run. What could not be read is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Its id.
    pub(crate) pid: u32,
    /// When it started, in clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub(crate) start_ticks: Option<i64>,
    /// The boot it belongs to.
    pub(crate) boot_id: Option<String>,
}

impl Owner {
    /// This process.
    pub(crate) fn current(proc: &Path) -> Self {
        let pid = std::process::id();
        Self {
            pid,
            start_ticks: stat(proc, pid).map(|stat| stat.start_ticks),
            boot_id: boot_id(proc),
        }
    }

    /// Whether that process is certainly no more. Where /proc cannot be read nothing is certain.
    pub(crate) fn is_gone(&self, proc: &Path) -> bool {
        let now = boot_id(proc);
        if self.boot_id.is_some() && now.is_some() && self.boot_id != now {
            return true;
        }
        match stat(proc, self.pid) {
            // A zombie writes no more.
            Some(stat) if matches!(stat.state, 'Z' | 'X') => true,
            Some(stat) => self.start_ticks.is_some_and(|start| start != stat.start_ticks),
            None => now.is_some(),
        }
    }
}

struct Stat {
    state: char,
    start_ticks: i64,
}

fn stat(proc: &Path, pid: u32) -> Option<Stat> {
    parse_stat(&std::fs::read_to_string(proc.join(format!("{pid}/stat"))).ok()?)
}

/// Fields are counted from the last closing bracket, because a process may call itself anything.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    // The state is field 3 and the start time field 22: 18 lie between them.
    let state = fields.next()?.chars().next()?;
    let start_ticks = fields.nth(18)?.parse().ok()?;
    Some(Stat { state, start_ticks })
}

fn boot_id(proc: &Path) -> Option<String> {
    let text = std::fs::read_to_string(proc.join("sys/kernel/random/boot_id")).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up /proc with one process in it.
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
    fn this_process_lives() {
        let proc = Path::new(PROC);
        let owner = Owner::current(proc);
        assert!(owner.start_ticks.is_some() && owner.boot_id.is_some());
        assert!(!owner.is_gone(proc));
    }

    #[test]
    fn the_same_process_lives_and_every_other_one_is_not_it() {
        let cases = [
            ("boot-a\n", 41, 'S', 900, false, "the process itself"),
            ("boot-a\n", 41, 'S', 901, true, "its id was used again"),
            ("boot-b\n", 41, 'S', 900, true, "the machine was booted since"),
            ("boot-a\n", 42, 'S', 900, true, "no process of this id"),
            ("boot-a\n", 41, 'Z', 900, true, "a zombie"),
        ];
        for (boot, pid, state, start, gone, why) in cases {
            let root = proc_with(boot, pid, state, start);
            assert_eq!(owner().is_gone(root.path()), gone, "{why}");
        }
    }

    #[test]
    fn without_proc_nobody_is_declared_dead() {
        let root = tempfile::tempdir().unwrap();
        assert!(!owner().is_gone(root.path()));
    }
}
