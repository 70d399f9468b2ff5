//! `--tune`: changes settings of the machine during a run and restores them afterwards.
//!
//! Every change is written to a journal before it is made. A run restores the settings itself, also
//! after Ctrl-C; after SIGKILL the next run finds the journal and restores them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fathom_fileio::private;
use fathom_record::Host;
use serde::{Deserialize, Serialize};

/// The name of the journal.
const JOURNAL: &str = "tune.json";

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

    /// Whole or not at all: the journal before it has changes that are in force.
    fn write_journal(&self) -> io::Result<()> {
        private::write(&self.journal, &serde_json::to_vec(&self.undo)?)
    }
}

impl Drop for Tuning {
    fn drop(&mut self) {
        if !self.undo.files.is_empty() {
            restore(&self.undo, &self.journal);
        }
    }
}

/// The path of the journal in a folder, which only this user can change: it is obeyed with the
/// rights of the next run, which may be root's.
///
/// # Errors
/// If others can change the folder.
pub fn journal(folder: &Path) -> io::Result<PathBuf> {
    private::create(folder).map(|folder| folder.join(JOURNAL))
}

/// Restores the settings below `cpus` that a killed run left changed; a message if there were any,
/// or if the journal in the folder is not obeyed.
pub fn recover(cpus: &Path, folder: &Path) -> Option<String> {
    let path = folder.join(JOURNAL);
    path.symlink_metadata().ok()?;
    match undo(cpus, folder) {
        Ok((undo, _)) if Path::new("/proc").join(undo.pid.to_string()).exists() => None,
        Ok((undo, journal)) => {
            restore(&undo, &journal);
            let count = undo.files.len();
            Some(format!("restored {count} settings that a killed `--tune` run left changed"))
        }
        Err(why) => Some(format!(
            "{} is not obeyed, and nothing restored: {why}; remove it",
            path.display()
        )),
    }
}

fn undo(cpus: &Path, folder: &Path) -> io::Result<(Undo, PathBuf)> {
    let journal = private::folder(folder)?.join(JOURNAL);
    let undo: Undo = serde_json::from_slice(&private::read(&journal)?)?;
    match undo.files.iter().find(|(file, before)| !is_setting(cpus, file, before)) {
        Some((file, _)) => Err(io::Error::other(format!("{file:?} is no setting of `--tune`"))),
        None => Ok((undo, journal)),
    }
}

/// Whether this is a file that `--tune` changes, with a content that it has.
fn is_setting(cpus: &Path, file: &Path, content: &str) -> bool {
    let of_cpu = file.strip_prefix(cpus).ok().and_then(Path::to_str);
    let Some((cpu, setting)) = of_cpu.and_then(|it| it.strip_prefix("cpu")?.split_once('/')) else {
        return false;
    };
    let is_word = |text: &str| {
        (1..=16).contains(&text.len()) && text.bytes().all(|b| b == b'_' || b.is_ascii_lowercase())
    };
    let is_content = match setting {
        "online" => content == "1",
        "cpufreq/scaling_governor" => is_word(content),
        _ => false,
    };
    is_content && !cpu.is_empty() && cpu.bytes().all(|digit| digit.is_ascii_digit())
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
        let state = folder.path().join("state");
        let journal = journal(&state).unwrap();
        let tuning = Tuning::apply(folder.path(), &host, 2, &journal);
        assert_settings(&folder, "performance", "0");
        let governor = tuning.changes.iter().any(|one| one.contains("powersave → performance"));
        assert!(governor && journal.exists(), "{:?}", tuning.changes);
        assert_eq!(recover(folder.path(), &state), None, "the run is alive");
        assert_settings(&folder, "performance", "0");
        drop(tuning);
        assert_settings(&folder, "powersave", "1");
        assert!(!journal.exists());
    }

    #[test]
    fn next_run_restores_after_a_kill() {
        let (folder, host) = machine();
        let journal = journal(folder.path()).unwrap();
        let mut tuning = Tuning::apply(folder.path(), &host, 2, &journal);
        // Above the largest pid, which is 2^22.
        tuning.undo.pid = u32::MAX;
        tuning.write_journal().expect("a journal");
        std::mem::forget(tuning);
        let recover = || recover(folder.path(), folder.path());
        assert!(recover().is_some_and(|message| message.contains("2 settings")));
        assert_settings(&folder, "powersave", "1");
        assert_eq!(recover(), None, "only once");
    }

    #[test]
    fn journal_restores_settings_and_nothing_else() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};

        let (folder, _) = machine();
        let victim = folder.path().join("victim");
        fs::write(&victim, "before").expect("a file");
        let [cpus, state] = [folder.path(), &folder.path().join("state")];
        let path = journal(state).expect("a folder");
        let obeys = |file: &str, content: &str| {
            let files = vec![(cpus.join(file), content.to_owned())];
            let undo = serde_json::to_vec(&Undo { pid: u32::MAX, files }).expect("JSON");
            fs::write(&path, undo).expect("a file");
            recover(cpus, state).expect("a message").starts_with("restored 1")
        };
        for (file, content) in [
            ("victim", "after"),
            ("cpu6/../victim", "after"),
            ("cpu6/online", "after"),
            ("cpu6/online/../../victim", "1"),
            ("cpu+6/online", "1"),
            ("cpu2/cpufreq/scaling_max_freq", "1"),
            ("cpu2/cpufreq/scaling_governor", "power save"),
            ("/etc/fathom-test", "1"),
        ] {
            assert!(!obeys(file, content), "{file}");
        }
        assert_eq!(fs::read_to_string(&victim).expect("a file"), "before");
        assert!(obeys("cpu6/online", "1"));
        // The same in a folder that others can write, and through a symlink.
        fs::set_permissions(state, fs::Permissions::from_mode(0o1777)).expect("own folder");
        assert!(!obeys("cpu6/online", "1") && journal(state).is_err());
        fs::set_permissions(state, fs::Permissions::from_mode(0o700)).expect("own folder");
        fs::rename(&path, &victim).expect("a file");
        symlink(&victim, &path).expect("a link");
        assert!(!obeys("cpu6/online", "1"));
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
