//! Why a procedure has no result.

use std::fmt;

use fathom_record::{Activity, system_cause};

#[derive(Debug, thiserror::Error)]
pub enum ProcedureError {
    /// The command line is wrong on any machine.
    #[error("{0}")]
    Usage(String),
    /// A file, a folder, a device or the machine does not allow it.
    #[error("{0}")]
    Failed(String),
    /// The work ended early; what was measured is kept as an interrupted run.
    #[error("{0}")]
    CutShort(String),
}

impl ProcedureError {
    pub fn usage(text: impl fmt::Display) -> Self {
        Self::Usage(text.to_string())
    }

    pub fn failed(text: impl fmt::Display) -> Self {
        Self::Failed(text.to_string())
    }
}

impl From<std::io::Error> for ProcedureError {
    fn from(error: std::io::Error) -> Self {
        Self::failed(system_cause(&error, Activity::Read))
    }
}

impl From<rustix::io::Errno> for ProcedureError {
    fn from(error: rustix::io::Errno) -> Self {
        std::io::Error::from(error).into()
    }
}
