//! Exit statuses and usage errors.

use std::error::Error;
use std::process::ExitCode;

use fathom_store::StoreError;

use crate::remedy;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Success,
    /// A failure that was already reported on standard error.
    Failed,
    /// Completed, but a number is missing under `--strict`, a case lost more than `--fail-on`, or
    /// there is no result or nothing to compare.
    Incomplete,
    /// `--fail-on` could not be decided.
    Undecided,
    /// `fathom doctor`: noisier or different numbers.
    Warning,
    /// `fathom doctor`: invalid numbers or none.
    Severe,
    /// `fathom check`: the status of a monitoring plugin, 0 to 3.
    Health(u8),
    Interrupted,
    /// The reader of standard output closed it.
    OutputClosed,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(match status {
            Status::Success => 0,
            Status::Failed => 1,
            Status::Incomplete | Status::Warning => 3,
            Status::Severe => 4,
            Status::Health(state) => state,
            Status::Undecided => 5,
            // 128 + SIGINT and 128 + SIGPIPE, as a shell reports them.
            Status::Interrupted => 130,
            Status::OutputClosed => 141,
        })
    }
}

/// The exit status of a bench for `git bisect run`, which takes 1 to 124 and 126 for a bad commit,
/// and ends with those from 128 on.
#[must_use]
pub fn for_bisect(status: ExitCode) -> ExitCode {
    let is = |one: Status| status == ExitCode::from(one);
    match () {
        () if is(Status::Success) => status,
        () if is(Status::Incomplete) => ExitCode::from(1),
        () if is(Status::Undecided) || is(Status::Failed) => ExitCode::from(125),
        () if is(Status::Interrupted) || is(Status::OutputClosed) => status,
        () => ExitCode::from(128),
    }
}

/// An invalid command line, whatever the files and the store contain: exit status 2. Every other
/// error ends with [`Status::Failed`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// Whether the command line or the environment is wrong, whatever the files and the store contain.
pub fn is_usage(error: &anyhow::Error) -> bool {
    let is_address = |it: &StoreError| matches!(it, StoreError::BadAddress { .. });
    error.is::<UsageError>() || error.downcast_ref().is_some_and(is_address)
}

/// Turns an error about arguments into a [`UsageError`] with its remedy.
pub trait OrUsage<T> {
    /// # Errors
    /// The same error, as a [`UsageError`].
    fn or_usage(self) -> Result<T, UsageError>;
}

impl<T, E: Error + 'static> OrUsage<T> for Result<T, E> {
    fn or_usage(self) -> Result<T, UsageError> {
        self.map_err(|error| UsageError(remedy::with_remedy(&error)))
    }
}

/// Returns a [`UsageError`] with a formatted text.
macro_rules! usage_error {
    ($($words:tt)*) => {
        return Err($crate::exit::UsageError(format!($($words)*)).into())
    };
}
pub(crate) use usage_error;
