//! What cannot be visited: a file read by hand, a transfer, a sweep of load. It declares its
//! metrics as a probe does, runs once with a [`Recorder`], and gives records.
//!
//! One file holds all of it: the options of its command, the metrics, the model and the timed work.
//! The program makes the command from the registry, and the views are made from the records.

use std::fmt;

use fathom_record::{Host, NoModel, Params, Prediction};

use crate::{About, Known, Recorder};

/// A metric that is measured by a command of its own only, on a file that a person names or for
/// as long as a person wants to wait.
pub trait ByHand: Sync {
    /// What it is.
    fn about(&self) -> &'static About;
    /// What a case should give.
    ///
    /// # Errors
    /// Why there is no model.
    fn predict(
        &self,
        params: &Params,
        host: &Host,
        known: &Known<'_>,
    ) -> Result<Prediction, NoModel>;
}

/// A command with its options as they were given.
pub trait Procedure {
    /// What it was asked to do, as the run keeps it: the arguments without the options.
    fn asked(&self) -> String {
        String::new()
    }

    /// Metrics whose newest results on this host the models use.
    fn recalls(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether the clock is calibrated first. Not where the work takes no longer than that.
    fn calibrates(&self) -> bool {
        true
    }

    /// The part of a process that another one of the same command started, which then does that
    /// and nothing else.
    fn part(&self) -> Option<Result<(), ProcedureError>> {
        None
    }

    /// Refuses what cannot be done, before anything is read, written or calibrated.
    ///
    /// # Errors
    /// [`ProcedureError::Usage`] where the options are wrong on any machine, and
    /// [`ProcedureError::Failed`] where this machine, its files or its room do not allow it.
    fn check(&self) -> Result<(), ProcedureError> {
        Ok(())
    }

    /// Does the work.
    ///
    /// # Errors
    /// Where it cannot go on. What was recorded before is kept.
    fn run(&self, recorder: &mut dyn Recorder) -> Result<Ending, ProcedureError>;
}

/// How a procedure ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All was done.
    Done,
    /// It was done, and what was sought is not there: no size fits.
    NotFound,
    /// It was done, and some of it failed: a place could not be read.
    Faulty,
    /// The person stopped it, or did not let it begin.
    Stopped,
}

/// Why a procedure could not go on.
#[derive(Debug)]
pub enum ProcedureError {
    /// The command line is wrong, whatever the machine and its files.
    Usage(String),
    /// A file, a folder, a device or the machine does not allow it.
    Failed(String),
}

impl ProcedureError {
    /// [`ProcedureError::Usage`].
    pub fn usage(text: impl fmt::Display) -> Self {
        Self::Usage(text.to_string())
    }

    /// [`ProcedureError::Failed`].
    pub fn failed(text: impl fmt::Display) -> Self {
        Self::Failed(text.to_string())
    }
}

impl fmt::Display for ProcedureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text) | Self::Failed(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for ProcedureError {}

impl From<std::io::Error> for ProcedureError {
    fn from(error: std::io::Error) -> Self {
        Self::failed(error)
    }
}

impl From<rustix::io::Errno> for ProcedureError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::failed(std::io::Error::from(error))
    }
}

/// A procedure from its arguments.
type Parse = fn(&clap::ArgMatches) -> Result<Box<dyn Procedure>, clap::Error>;

/// A command that measures by hand, as it is registered.
pub struct Command {
    /// Its words after the program's name, such as `file contend`.
    pub path: &'static str,
    /// The metrics that it alone gives.
    pub metrics: &'static [&'static dyn ByHand],
    options: fn() -> clap::Command,
    parse: Parse,
}

impl Command {
    /// The command whose options are the fields of `P`.
    pub const fn of<P: Procedure + clap::Parser + 'static>(
        path: &'static str,
        metrics: &'static [&'static dyn ByHand],
    ) -> Self {
        Self { path, metrics, options: P::command, parse: parsed::<P> }
    }

    /// Its options, help and examples.
    pub fn options(&self) -> clap::Command {
        let (_, name) = self.group_and_name();
        (self.options)().name(name)
    }

    /// The group and the name of which its path is made.
    pub fn group_and_name(&self) -> (&'static str, &'static str) {
        self.path.split_once(' ').unwrap_or(("", self.path))
    }

    /// The procedure that these arguments ask for.
    ///
    /// # Errors
    /// Where an argument is missing or wrong.
    pub fn procedure(&self, matches: &clap::ArgMatches) -> Result<Box<dyn Procedure>, clap::Error> {
        (self.parse)(matches)
    }
}

fn parsed<P: Procedure + clap::Parser + 'static>(
    matches: &clap::ArgMatches,
) -> Result<Box<dyn Procedure>, clap::Error> {
    Ok(Box::new(P::from_arg_matches(matches)?))
}
