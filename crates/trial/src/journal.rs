//! What restores the machine, on disk before it is changed, and the lock of the process that
//! changes it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use fathom_fileio::private;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::target::{SettingTarget, TrialMachine};

const JOURNAL: &str = "try.json";
const LOCK: &str = "try.lock";
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Where the journal is. For root one for the whole machine, whoever has become root; like the
/// settings it does not outlast a boot. `own`: for other users, whose settings are their own.
pub fn state_folder(own: Option<PathBuf>) -> Option<PathBuf> {
    let run = Path::new("/run");
    let is_root = rustix::process::geteuid().is_root();
    if is_root && run.is_dir() { Some(run.join("fathom")) } else { own }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct JournalContent {
    /// Settings do not outlast a boot: after one there is nothing to restore.
    boot: String,
    /// Old values, in the order of the changes.
    before: Vec<(SettingTarget, String)>,
}

/// The journal of this process, which has the lock.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    content: JournalContent,
    _lock: File,
}

/// Why there is no journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("another `fathom doctor --try` (pid {0}) changes settings: wait for its end")]
    Busy(String),
    #[error("journal in {0}: {1}")]
    Failed(PathBuf, io::Error),
}

impl Journal {
    /// # Errors
    /// If another process has it, or the folder is not this user's alone.
    pub(crate) fn open(state: &Path) -> Result<Self, JournalError> {
        let failed = |error| JournalError::Failed(state.to_owned(), error);
        let folder = private::create(state).map_err(failed)?;
        let lock = lock(&folder)?.ok_or_else(|| JournalError::Busy(holder(&folder)))?;
        let path = folder.join(JOURNAL);
        let content = JournalContent { boot: boot(), before: Vec::new() };
        Ok(Self { path, content, _lock: lock })
    }

    pub(crate) fn has(&self, target: &SettingTarget) -> bool {
        self.content.before.iter().any(|(known, _)| known == target)
    }

    /// Notes an old value. On disk when it returns.
    pub(crate) fn note(&mut self, target: &SettingTarget, before: &str) -> io::Result<()> {
        self.content.before.push((target.clone(), before.to_owned()));
        let written = self.write();
        if written.is_err() {
            self.content.before.pop();
        }
        written
    }

    /// What the kernel set anew with this place, as it was before.
    pub(crate) fn restore_resets(&self, target: &SettingTarget) -> io::Result<()> {
        let resets = target.resets();
        let mut noted = self.content.before.iter().rev().filter(|(it, _)| resets.contains(it));
        noted.try_for_each(|(it, before)| restore_one(it, before))
    }

    fn write(&self) -> io::Result<()> {
        let new = self.path.with_extension("new");
        // Of a killed process.
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(&self.content)?)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        File::open(folder)?.sync_all()
    }

    /// Restores all, the last change first, since changes may depend on earlier ones. What could
    /// not be restored stays in the journal.
    pub(crate) fn restore(&mut self) -> Vec<String> {
        let mut failures = Vec::new();
        let mut kept = Vec::new();
        for (target, before) in self.content.before.drain(..).rev() {
            if let Err(error) = restore_one(&target, &before) {
                failures.push(format!("{target}: not restored to `{before}`: {error}"));
                kept.push((target, before));
            }
        }
        kept.reverse();
        self.content.before = kept;
        let done = match failures.is_empty() {
            true => fs::remove_file(&self.path).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            }),
            false => self.write(),
        };
        failures.extend(done.err().map(|error| format!("{}: {error}", self.path.display())));
        failures
    }
}

fn restore_one(target: &SettingTarget, before: &str) -> io::Result<()> {
    // The device may have gone.
    let Ok(now) = target.read() else { return Ok(()) };
    if now == before {
        return Ok(());
    }
    target.write(before)?;
    let now = target.read()?;
    if now == before { Ok(()) } else { Err(io::Error::other(format!("it is `{now}`"))) }
}

/// The lock, unless another process has it.
fn lock(folder: &Path) -> Result<Option<File>, JournalError> {
    let path = folder.join(LOCK);
    let failed = |error: io::Error| JournalError::Failed(folder.to_owned(), error);
    let options = || OpenOptions::new().write(true).create(true).truncate(false).clone();
    let mut file = options().mode(0o600).open(&path).map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(failed(error.into())),
    }
    let pid = std::process::id().to_string();
    file.set_len(0).and_then(|()| file.write_all(pid.as_bytes())).map_err(failed)?;
    Ok(Some(file))
}

fn holder(folder: &Path) -> String {
    fs::read_to_string(folder.join(LOCK)).unwrap_or_default()
}

fn boot() -> String {
    fs::read_to_string(BOOT).unwrap_or_default().trim().to_owned()
}

/// What became of the journal of a killed process.
#[derive(Debug, PartialEq, Eq)]
pub enum Recovery {
    /// There is none.
    Nothing,
    /// Its process runs: the pid.
    Busy(String),
    /// So many settings are as before.
    Restored(usize),
    /// Why it is not obeyed, or not wholly.
    Failed(String),
}

/// Restores what a killed process left changed.
pub fn recover(machine: &TrialMachine, state: &Path) -> Recovery {
    if !state.join(JOURNAL).exists() {
        return match private::folder(state).ok().map(|folder| (lock(&folder), holder(&folder))) {
            Some((Ok(None), pid)) => Recovery::Busy(pid),
            _ => Recovery::Nothing,
        };
    }
    match recovered(machine, state) {
        Ok(recovery) => recovery,
        Err(error) => Recovery::Failed(error.to_string()),
    }
}

fn recovered(machine: &TrialMachine, state: &Path) -> Result<Recovery, JournalError> {
    let failed = |error: io::Error| JournalError::Failed(state.to_owned(), error);
    let mut journal = match Journal::open(state) {
        Err(JournalError::Busy(pid)) => return Ok(Recovery::Busy(pid)),
        other => other?,
    };
    // The process that had the lock may have removed it meanwhile.
    if !journal.path.exists() {
        return Ok(Recovery::Nothing);
    }
    let text = private::read(&journal.path).map_err(failed)?;
    let content: JournalContent = serde_json::from_slice(&text).map_err(|it| failed(it.into()))?;
    if content.boot != journal.content.boot {
        fs::remove_file(&journal.path).map_err(failed)?;
        return Ok(Recovery::Nothing);
    }
    // It is obeyed with the rights of root.
    let is_foreign = |(target, before): &&(SettingTarget, String)| {
        let is_listed = machine.lists(target) || target.read().is_err();
        !is_listed || !SettingTarget::is_plausible(before)
    };
    if let Some((target, _)) = content.before.iter().find(is_foreign) {
        let text = format!("{target} is no setting that is tried: remove the journal");
        return Ok(Recovery::Failed(format!("{}: {text}", journal.path.display())));
    }
    let count = content.before.len();
    journal.content = content;
    let failures = journal.restore();
    Ok(match failures.is_empty() {
        true => Recovery::Restored(count),
        false => Recovery::Failed(failures.join("; ")),
    })
}
