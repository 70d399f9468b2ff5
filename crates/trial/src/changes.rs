//! Changes and restores settings, by the journal.

use std::io;
use std::path::Path;

use crate::factor::{SettingChange, TrialFactor};
use crate::journal::{Journal, JournalError, Recovery, recover};
use crate::target::{SettingTarget, TrialMachine};

#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("{0}")]
    Unrestored(String),
    #[error("{0}: `{1}` was refused: {2}")]
    Refused(SettingTarget, String, io::Error),
    #[error(
        "{0} became `{1}`: another program sets it, too; stop that (tuned, bpftune, irqbalance)"
    )]
    Foreign(SettingTarget, String),
}

/// The changes in force. Dropping them restores the settings.
#[derive(Debug)]
pub struct Changes {
    journal: Journal,
    /// What was last written, as it was read back.
    written: Vec<(SettingTarget, String)>,
    /// Places that take no value, such as the affinity of an interrupt of the hypervisor.
    refused: Vec<SettingTarget>,
}

impl Changes {
    /// After what a killed process left is restored, of which the caller is told.
    ///
    /// # Errors
    /// If another process changes settings, or one cannot be restored.
    pub fn begin(machine: &TrialMachine, state: &Path) -> Result<(Self, Recovery), ChangeError> {
        let recovery = recover(machine, state);
        if let Recovery::Failed(why) = recovery {
            return Err(ChangeError::Unrestored(why));
        }
        let journal = Journal::open(state)?;
        Ok((Self { journal, written: Vec::new(), refused: Vec::new() }, recovery))
    }

    /// Sets a factor to its old value (0) or its new one.
    ///
    /// # Errors
    /// If the journal cannot be written, the kernel refuses the value in all places, or another
    /// program changed the setting meanwhile.
    pub fn set(&mut self, factor: &TrialFactor, level: u32) -> Result<(), ChangeError> {
        let mut last = None;
        for change in &factor.changes {
            if self.refused.contains(&change.target) {
                continue;
            }
            match self.set_one(change, level) {
                Err(error @ ChangeError::Refused(..)) => {
                    self.refused.push(change.target.clone());
                    last = Some(error);
                }
                done => done?,
            }
        }
        let is_refused = |change: &SettingChange| self.refused.contains(&change.target);
        match last {
            Some(error) if factor.changes.iter().all(is_refused) => Err(error),
            _ => Ok(()),
        }
    }

    fn set_one(&mut self, change: &SettingChange, level: u32) -> Result<(), ChangeError> {
        let SettingChange { target, from, to } = change;
        let value = if level == 0 { from } else { to };
        let refused = |error| ChangeError::Refused(target.clone(), value.clone(), error);
        let now = target.read().map_err(refused)?;
        let known = self.written.iter().find(|(known, _)| known == target);
        if now != *known.map_or(from, |(_, written)| written) {
            return Err(ChangeError::Foreign(target.clone(), now));
        }
        if now == *value {
            return Ok(());
        }
        if !self.journal.has(target) {
            for beside in target.resets() {
                if let Ok(before) = beside.read() {
                    self.journal.note(&beside, &before).map_err(refused)?;
                }
            }
            self.journal.note(target, from).map_err(refused)?;
        }
        target.write(value).map_err(refused)?;
        if level == 0 {
            self.journal.restore_resets(target).map_err(refused)?;
        }
        let read = target.read().map_err(refused)?;
        if read == now {
            return Err(refused(io::Error::other(format!("it stays `{now}`"))));
        }
        self.written.retain(|(known, _)| known != target);
        self.written.push((target.clone(), read));
        Ok(())
    }

    /// # Errors
    /// If a setting could not be restored: which. The journal keeps it.
    pub fn restore(&mut self) -> Result<(), ChangeError> {
        self.written.clear();
        match self.journal.restore() {
            failures if failures.is_empty() => Ok(()),
            failures => Err(ChangeError::Unrestored(failures.join("; "))),
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let _ = self.restore();
    }
}
