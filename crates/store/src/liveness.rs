//! Whether the process that began a run is still alive.
//!
//! Process ids are reused. Together with the process start time in ticks since boot, and the boot
//! id, a process id is unique.

use std::path::Path;

use fathom_record::RunState;

/// The mount point of procfs.
pub(crate) const PROC: &str = "/proc";

/// The process that began a run; absent fields could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    /// Clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub(crate) start_ticks: Option<i64>,
    pub(crate) boot_id: Option<String>,
    /// Such as `pid:[4026531836]`. A process id means nothing in another namespace.
    pub(crate) namespace: Option<String>,
}

impl Owner {
    pub(crate) fn current(proc: &Path) -> Self {
        let pid = std::process::id();
        let start_ticks = stat(proc, pid).map(|(_, start)| start);
        Self { pid, start_ticks, boot_id: boot_id(proc), namespace: namespace(proc) }
    }

    /// The state of a running run by its process: interrupted if that has certainly ended, unknown
    /// if it cannot be seen from here. Without /proc it counts as running. In a store that is
    /// `shared` by several machines another boot id can be of another machine.
    pub(crate) fn state(&self, proc: &Path, shared: bool) -> RunState {
        let differs = |known: &Option<String>, now: Option<String>| {
            known.as_ref().zip(now).is_some_and(|(known, now)| *known != now)
        };
        let now = boot_id(proc);
        if shared && (self.boot_id.is_none() || self.boot_id != now) {
            return RunState::Unknown;
        }
        if differs(&self.boot_id, now.clone()) {
            return RunState::Interrupted;
        }
        if differs(&self.namespace, namespace(proc)) {
            return RunState::Unknown;
        }
        let is_gone = match stat(proc, self.pid) {
            // A zombie writes nothing any more.
            Some(('Z' | 'X', _)) => true,
            Some((_, start)) => self.start_ticks.is_some_and(|known| known != start),
            None => now.is_some(),
        };
        if is_gone { RunState::Interrupted } else { RunState::Running }
    }
}

/// The pid namespace of this process.
fn namespace(proc: &Path) -> Option<String> {
    let link = std::fs::read_link(proc.join("self/ns/pid")).ok()?;
    Some(link.to_string_lossy().into_owned())
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
        std::fs::create_dir_all(root.path().join("self/ns")).unwrap();
        std::os::unix::fs::symlink("pid:[1]", root.path().join("self/ns/pid")).unwrap();
        root
    }

    fn owner() -> Owner {
        let [boot_id, namespace] = ["boot-a", "pid:[1]"].map(|text| Some(text.to_owned()));
        Owner { pid: 41, start_ticks: Some(900), boot_id, namespace }
    }

    #[test]
    fn current_process_is_alive() {
        let proc = Path::new(PROC);
        let owner = Owner::current(proc);
        assert!(owner.start_ticks.is_some() && owner.boot_id.is_some());
        assert!(owner.namespace.as_deref().is_some_and(|it| it.starts_with("pid:[")));
        assert_eq!(owner.state(proc, false), RunState::Running);
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
            let state = if gone { RunState::Interrupted } else { RunState::Running };
            assert_eq!(owner().state(root.path(), false), state, "{why}");
        }
    }

    #[test]
    fn process_of_another_namespace_is_unknown() {
        let root = proc_with("boot-a", 42, 'S', 900);
        let inside = Owner { namespace: Some("pid:[2]".to_owned()), ..owner() };
        assert_eq!(inside.state(root.path(), false), RunState::Unknown);
        let rebooted = proc_with("boot-b", 42, 'S', 900);
        assert_eq!(
            inside.state(rebooted.path(), false),
            RunState::Interrupted,
            "no process outlives that"
        );
        // As stored by version 4.
        let unknown = Owner { namespace: None, ..owner() };
        assert_eq!(unknown.state(root.path(), false), RunState::Interrupted);
    }

    #[test]
    fn process_of_another_machine_is_unknown_in_a_shared_store() {
        let state = |boot: &str, pid| {
            let root = proc_with(boot, pid, 'S', 900);
            owner().state(root.path(), true)
        };
        assert_eq!(state("boot-b", 41), RunState::Unknown);
        assert_eq!(state("boot-a", 41), RunState::Running);
        assert_eq!(state("boot-a", 42), RunState::Interrupted);
        let unnamed = Owner { boot_id: None, ..owner() };
        let root = proc_with("boot-a", 42, 'S', 900);
        assert_eq!(unnamed.state(root.path(), true), RunState::Unknown);
    }

    #[test]
    fn without_proc_no_process_counts_as_gone() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(owner().state(root.path(), false), RunState::Running);
    }
}
