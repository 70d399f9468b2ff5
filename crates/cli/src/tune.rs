//! `--tune`: what may be changed for the length of a run, and put back afterwards.
//!
//! Every change is written to a journal before it is made. A run that ends in any ordinary way,
//! Ctrl-C included, puts everything back itself; after a kill that no program can catch, the next
//! run finds the journal and does.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fathom_record::Host;
use serde::{Deserialize, Serialize};

/// The changes in force. Dropping them puts everything back.
pub struct Tuned {
    /// What was changed, in words.
    pub done: Vec<String>,
    /// What could not be, and why.
    pub refused: Vec<String>,
    /// Whether workers may run at the highest ordinary priority.
    pub priority: bool,
    undo: Undo,
    journal: PathBuf,
}

/// What puts a machine back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Undo {
    /// The process that made the changes.
    pid: u32,
    /// File and former content, in the order changed.
    files: Vec<(PathBuf, String)>,
}

impl Tuned {
    /// Tunes a machine whose CPUs are described under `cpus` (`/sys/devices/system/cpu`).
    pub fn apply(cpus: &Path, host: &Host, cpu: u32, journal: &Path) -> Self {
        let mut tuned = Self {
            done: Vec::new(),
            refused: Vec::new(),
            priority: false,
            undo: Undo { pid: std::process::id(), files: Vec::new() },
            journal: journal.to_owned(),
        };
        tuned.raise_priority();
        tuned.set_governor(cpus, cpu);
        tuned.take_siblings_offline(cpus, host, cpu);
        tuned
    }

    fn raise_priority(&mut self) {
        let allowed = rustix::process::getrlimit(rustix::process::Resource::Nice).current;
        if rustix::process::geteuid().is_root() || allowed.is_some_and(|limit| limit >= 40) {
            self.priority = true;
            self.done.push("workers at nice -20".to_owned());
        } else {
            self.refused.push(
                "priority: needs root (sudo), or `nice -20` in /etc/security/limits.conf"
                    .to_owned(),
            );
        }
    }

    fn set_governor(&mut self, cpus: &Path, cpu: u32) {
        let file = cpus.join(format!("cpu{cpu}/cpufreq/scaling_governor"));
        match fs::read_to_string(&file) {
            Ok(governor) if governor.trim() == "performance" => {
                self.done.push("governor: performance already".to_owned());
            }
            Ok(governor) => {
                let what = format!("governor of CPU {cpu}: {} → performance", governor.trim());
                self.change(&file, governor.trim(), "performance", what);
            }
            Err(_) => {
                self.refused.push("governor: this kernel governs no frequency here".to_owned())
            }
        }
    }

    fn take_siblings_offline(&mut self, cpus: &Path, host: &Host, cpu: u32) {
        let siblings = host.cpu.siblings.iter().find(|set| set.contains(&cpu));
        let Some(siblings) = siblings else {
            self.refused.push(format!("SMT: CPU {cpu} has no sibling"));
            return;
        };
        for sibling in siblings.iter().filter(|sibling| **sibling != cpu) {
            let file = cpus.join(format!("cpu{sibling}/online"));
            self.change(&file, "1", "0", format!("SMT sibling CPU {sibling}: offline"));
        }
    }

    fn change(&mut self, file: &Path, before: &str, after: &str, what: String) {
        self.undo.files.push((file.to_owned(), before.to_owned()));
        let changed = self.write_journal().and_then(|()| fs::write(file, after));
        match changed {
            Ok(()) => self.done.push(what),
            Err(error) => {
                self.undo.files.pop();
                self.refused.push(format!("{what}: {error}"));
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

impl Drop for Tuned {
    fn drop(&mut self) {
        if !self.undo.files.is_empty() {
            put_back(&self.undo, &self.journal);
        }
    }
}

/// Puts back what a run changed that was killed before it could; says what, if anything.
pub fn recover(journal: &Path) -> Option<String> {
    let undo: Undo = serde_json::from_slice(&fs::read(journal).ok()?).ok()?;
    let alive = Path::new("/proc").join(undo.pid.to_string()).exists();
    if alive {
        return None;
    }
    let count = undo.files.len();
    put_back(&undo, journal);
    Some(format!("put back {count} settings that a killed `--tune` run had left changed"))
}

/// The last change first, as they may build on each other. The journal goes last.
fn put_back(undo: &Undo, journal: &Path) {
    for (file, before) in undo.files.iter().rev() {
        let _ = fs::write(file, before);
    }
    let _ = fs::remove_file(journal);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CPU 2 with a governor and the sibling CPU 6.
    fn machine() -> (tempfile::TempDir, Host) {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("cpu2/cpufreq")).expect("a folder");
        fs::create_dir_all(folder.path().join("cpu6")).expect("a folder");
        fs::write(folder.path().join("cpu2/cpufreq/scaling_governor"), "powersave\n")
            .expect("a file");
        fs::write(folder.path().join("cpu6/online"), "1\n").expect("a file");
        let mut host = Host::default();
        host.cpu.siblings = vec![vec![1, 5], vec![2, 6]];
        (folder, host)
    }

    fn state(folder: &Path) -> (String, String) {
        let read =
            |file: &str| fs::read_to_string(folder.join(file)).expect("a file").trim().to_owned();
        (read("cpu2/cpufreq/scaling_governor"), read("cpu6/online"))
    }

    fn words(governor: &str, online: &str) -> (String, String) {
        (governor.to_owned(), online.to_owned())
    }

    #[test]
    fn what_was_changed_is_put_back() {
        let (folder, host) = machine();
        let journal = folder.path().join("state/tune.json");
        let tuned = Tuned::apply(folder.path(), &host, 2, &journal);
        assert_eq!(state(folder.path()), words("performance", "0"));
        assert!(
            tuned.done.iter().any(|done| done.contains("powersave → performance")),
            "{:?}",
            tuned.done
        );
        assert!(journal.exists());
        drop(tuned);
        assert_eq!(state(folder.path()), words("powersave", "1"));
        assert!(!journal.exists());
    }

    #[test]
    fn a_run_that_was_killed_is_cleaned_up_after_by_the_next() {
        let (folder, host) = machine();
        let journal = folder.path().join("tune.json");
        let mut tuned = Tuned::apply(folder.path(), &host, 2, &journal);
        // No process has this number: the kernel's largest is 2^22.
        tuned.undo.pid = u32::MAX;
        tuned.write_journal().expect("a journal");
        std::mem::forget(tuned);
        assert!(recover(&journal).is_some_and(|said| said.contains("2 settings")));
        assert_eq!(state(folder.path()), words("powersave", "1"));
        assert_eq!(recover(&journal), None, "once is enough");
    }

    #[test]
    fn a_living_run_is_left_alone() {
        let (folder, host) = machine();
        let journal = folder.path().join("tune.json");
        let tuned = Tuned::apply(folder.path(), &host, 2, &journal);
        assert_eq!(recover(&journal), None);
        assert_eq!(state(folder.path()), words("performance", "0"));
        drop(tuned);
    }

    #[test]
    fn what_cannot_be_tuned_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let tuned =
            Tuned::apply(folder.path(), &Host::default(), 0, &folder.path().join("tune.json"));
        assert!(
            tuned.refused.iter().any(|refused| refused.starts_with("governor")),
            "{:?}",
            tuned.refused
        );
        assert!(
            tuned.refused.iter().any(|refused| refused.starts_with("SMT")),
            "{:?}",
            tuned.refused
        );
    }
}
