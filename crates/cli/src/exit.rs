//! How a command ended, and the status it ends with.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use crate::remedy;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Everything was done.
    Done,
    /// It failed, or its run is not in the store that was named; the reason was printed.
    Failed,
    /// It was done, and the answer is "no" or there is none: a number is missing under `--strict`,
    /// a gate of `--fail-on` is closed, nothing was found or compared.
    Incomplete,
    /// `fathom doctor`: numbers will be noisier than they could be, or different.
    Warned,
    /// `fathom doctor`: numbers should not be believed, or cannot be taken.
    Severe,
    /// A person stopped it; what was done is kept.
    Interrupted,
    /// Whoever read the output has closed it.
    OutputClosed,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(match status {
            Status::Done => 0,
            Status::Failed => 1,
            // It was done, and not all is well.
            Status::Incomplete | Status::Warned => 3,
            Status::Severe => 4,
            // As a shell says of a program that SIGINT or SIGPIPE ended.
            Status::Interrupted => 130,
            Status::OutputClosed => 141,
        })
    }
}

/// A command line that is wrong whatever the files and the store hold: one clear line, and exit
/// status 2. Every other error ends with [`Status::Failed`].
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Usage {}

/// For errors that say what was asked for wrongly.
pub trait OrUsage<T> {
    /// The value, or the error as a [`Usage`].
    ///
    /// # Errors
    /// The same, with its remedy.
    fn or_usage(self) -> Result<T, Usage>;
}

impl<T, E: Error + 'static> OrUsage<T> for Result<T, E> {
    fn or_usage(self) -> Result<T, Usage> {
        self.map_err(|error| Usage(remedy::in_full(&error)))
    }
}

/// Returns a [`Usage`] with a formatted text.
macro_rules! refuse {
    ($($words:tt)*) => {
        return Err($crate::exit::Usage(format!($($words)*)).into())
    };
}
pub(crate) use refuse;
