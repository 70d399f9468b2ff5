//! `--tune`: changes settings of the machine during a run and restores them afterwards.
//!
//! Every change is written to a journal before it is made. A run restores the settings itself, also
//! after Ctrl-C; after SIGKILL the next run finds the journal and restores them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fathom_fileio::read_bytes;
use fathom_record::Host;
use serde::{Deserialize, Serialize};

const JOURNAL_MAX: u64 = 1 << 20;

/// The changes in force. Dropping them restores the settings.
pub struct Tuning {
    /// Descriptions of the changes.
    pub changes: Vec<String>,
    /// Descriptions of what could not be changed, with the reason.
    pub refusals: Vec<String>,
    /// Whether workers may run at nice -20.
    pub priority: bool,
    undo: Undo,
    journal: PathBuf,
}

/// The journal: what restores the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Undo {
    /// The process that made the changes.
    pid: u32,
    /// File and former content, in the order of the changes.
    files: Vec<(PathBuf, String)>,
}

impl Tuning {
    /// Tunes the machine whose CPUs are described under `cpus` (`/sys/devices/system/cpu`).
    pub fn apply(cpus: &Path, host: &Host, cpu: u32, journal: &Path) -> Self {
        let mut tuning = Self {
            changes: Vec::new(),
            refusals: Vec::new(),
            priority: false,
            undo: Undo { pid: std::process::id(), files: Vec::new() },
            journal: journal.to_owned(),
        };
        tuning.raise_priority();
        tuning.set_governor(cpus, cpu);
        tuning.take_siblings_offline(cpus, host, cpu);
        tuning
    }

    fn refuse(&mut self, why: &str) {
        self.refusals.push(why.to_owned());
    }

    fn raise_priority(&mut self) {
        let allowed = rustix::process::getrlimit(rustix::process::Resource::Nice).current;
        if rustix::process::geteuid().is_root() || allowed.is_some_and(|limit| limit >= 40) {
            self.priority = true;
            self.changes.push("workers at nice -20".to_owned());
        } else {
            self.refuse("priority: needs root (sudo), or `nice -20` in /etc/security/limits.conf");
        }
    }

    fn set_governor(&mut self, cpus: &Path, cpu: u32) {
        let file = cpus.join(format!("cpu{cpu}/cpufreq/scaling_governor"));
        match fs::read_to_string(&file) {
            Ok(governor) if governor.trim() == "performance" => {
                self.changes.push("governor: performance already".to_owned());
            }
            Ok(governor) => {
                let change = format!("governor of CPU {cpu}: {} → performance", governor.trim());
                self.change(&file, governor.trim(), "performance", change);
            }
            Err(_) => self.refuse("governor: no cpufreq driver"),
        }
    }

    fn take_siblings_offline(&mut self, cpus: &Path, host: &Host, cpu: u32) {
        let siblings = host.cpu.siblings.iter().find(|set| set.contains(&cpu));
        let Some(siblings) = siblings else {
            return self.refuse(&format!("SMT: CPU {cpu} has no sibling"));
        };
        for sibling in siblings.iter().filter(|sibling| **sibling != cpu) {
            let file = cpus.join(format!("cpu{sibling}/online"));
            self.change(&file, "1", "0", format!("SMT sibling CPU {sibling}: offline"));
        }
    }

    fn change(&mut self, file: &Path, before: &str, after: &str, change: String) {
        self.undo.files.push((file.to_owned(), before.to_owned()));
        match self.write_journal().and_then(|()| fs::write(file, after)) {
            Ok(()) => self.changes.push(change),
            Err(error) => {
                self.undo.files.pop();
                self.refusals.push(format!("{change}: {error}"));
            }
        }
    }

    fn write_journal(&self) -> io::Result<()> {
        if let Some(folder) = self.journal.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&self.journal, serde_json::to_vec(&self.undo)?)
    }
}

impl Drop for Tuning {
    fn drop(&mut self) {
        if !self.undo.files.is_empty() {
            restore(&self.undo, &self.journal);
        }
    }
}

/// Restores the settings that a killed run left changed; a message if there were any.
pub fn recover(journal: &Path) -> Option<String> {
    if !journal.is_file() {
        return None;
    }
    let undo: Undo = serde_json::from_slice(&read_bytes(journal, JOURNAL_MAX).ok()?).ok()?;
    if Path::new("/proc").join(undo.pid.to_string()).exists() {
        return None;
    }
    restore(&undo, journal);
    Some(format!("restored {} settings that a killed `--tune` run left changed", undo.files.len()))
}

/// Undoes the last change first, since changes may depend on earlier ones; then the journal.
fn restore(undo: &Undo, journal: &Path) {
    for (file, before) in undo.files.iter().rev() {
        let _ = fs::write(file, before);
    }
    let _ = fs::remove_file(journal);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPU 2 with a governor and the sibling CPU 6.
    fn machine() -> (tempfile::TempDir, Host) {
        let folder = tempfile::tempdir().expect("a folder");
        for (file, content) in
            [("cpu2/cpufreq/scaling_governor", "powersave\n"), ("cpu6/online", "1\n")]
        {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, content).expect("a file");
        }
        let mut host = Host::default();
        host.cpu.siblings = vec![vec![1, 5], vec![2, 6]];
        (folder, host)
    }

    /// Asserts the governor of CPU 2, and whether CPU 6 is online.
    fn assert_settings(folder: &tempfile::TempDir, governor: &str, online: &str) {
        let read = |file: &str| fs::read_to_string(folder.path().join(file)).expect("a file");
        assert_eq!(read("cpu2/cpufreq/scaling_governor").trim(), governor);
        assert_eq!(read("cpu6/online").trim(), online);
    }

    #[test]
    fn settings_are_restored_after_the_run() {
        let (folder, host) = machine();
        let journal = folder.path().join("state/tune.json");
        let tuning = Tuning::apply(folder.path(), &host, 2, &journal);
        assert_settings(&folder, "performance", "0");
        let governor = tuning.changes.iter().any(|one| one.contains("powersave → performance"));
        assert!(governor && journal.exists(), "{:?}", tuning.changes);
        assert_eq!(recover(&journal), None, "the run is alive");
        assert_settings(&folder, "performance", "0");
        drop(tuning);
        assert_settings(&folder, "powersave", "1");
        assert!(!journal.exists());
    }

    #[test]
    fn next_run_restores_after_a_kill() {
        let (folder, host) = machine();
        let journal = folder.path().join("tune.json");
        let mut tuning = Tuning::apply(folder.path(), &host, 2, &journal);
        // Above the largest pid, which is 2^22.
        tuning.undo.pid = u32::MAX;
        tuning.write_journal().expect("a journal");
        std::mem::forget(tuning);
        assert!(recover(&journal).is_some_and(|message| message.contains("2 settings")));
        assert_settings(&folder, "powersave", "1");
        assert_eq!(recover(&journal), None, "only once");
    }

    #[test]
    fn missing_settings_are_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = folder.path().join("tune.json");
        let tuning = Tuning::apply(folder.path(), &Host::default(), 0, &journal);
        for setting in ["governor", "SMT"] {
            let refused = tuning.refusals.iter().any(|one| one.starts_with(setting));
            assert!(refused, "{setting}: {:?}", tuning.refusals);
        }
    }
}
