//! Procedures: commands such as `fathom file read` that measure once in this process, without
//! workers and pinning, and pass their results to a [`Recorder`].
//!
//! One file holds the options of a command, its metrics, model and timed work. The program builds
//! the command line from the registry; views use the records.

use fathom_analysis::limits::LimitJudged;
use fathom_record::{Host, NoModel, Params, Prediction, Record};

use crate::{About, Inputs, ProcedureError, Recorder};

/// A metric that only a command of its own measures, such as `fathom file contend`, and its model.
pub struct ByHand(pub About, pub Predict);

type Predict = fn(&Params, &Host, &Inputs<'_>) -> Result<Prediction, NoModel>;

/// A command with its parsed options.
pub trait Procedure {
    /// The positional arguments, as the run records them.
    fn asked(&self) -> String {
        String::new()
    }

    /// Metrics whose newest stored results on this host the models use.
    fn prior_metrics(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether those of [`Self::prior_metrics`] without a stored result are measured first.
    fn measures_missing(&self) -> bool {
        false
    }

    /// Whether to calibrate the clock first. False where that would take longer than the work.
    fn calibrates(&self) -> bool {
        true
    }

    /// Whether it changes the machine and restores it at its end, which a second Ctrl-C must not
    /// prevent.
    fn restores(&self) -> bool {
        false
    }

    /// The work of a child process that the same command started; `None` in the parent.
    fn part(&self) -> Option<Result<(), ProcedureError>> {
        None
    }

    /// Validates the options before anything is read, written or calibrated.
    ///
    /// # Errors
    /// [`ProcedureError::Usage`] where the options are wrong on any machine,
    /// [`ProcedureError::Failed`] where this machine, its files or its free space do not allow it.
    fn check(&self) -> Result<(), ProcedureError> {
        Ok(())
    }

    /// The conditions of the user for the records of this run, for the exit status.
    fn judge(&self, _: &[Record]) -> Vec<LimitJudged> {
        Vec::new()
    }

    /// Measures. After an error the records made so far are kept.
    fn run(&self, recorder: &mut dyn Recorder) -> Result<Ending, ProcedureError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Done,
    /// The search had no result, such as no size that fits the time window.
    NotFound,
    /// Completed with errors, such as an unreadable block.
    Faulty,
    /// Interrupted, or not confirmed.
    Stopped,
}

type ProcedureParse = fn(&clap::ArgMatches) -> Result<Box<dyn Procedure>, clap::Error>;

/// The registration of a procedure.
pub struct Command {
    /// Subcommand path, such as `file contend`.
    pub path: &'static str,
    /// Metrics that only this command measures.
    pub metrics: &'static [&'static ByHand],
    options: fn() -> clap::Command,
    parse: ProcedureParse,
}

impl Command {
    pub const fn for_procedure<P: Procedure + clap::Parser + 'static>(
        path: &'static str,
        metrics: &'static [&'static ByHand],
    ) -> Self {
        Self { path, metrics, options: P::command, parse: parse::<P> }
    }

    /// The clap command with its options, help and examples.
    pub fn options(&self) -> clap::Command {
        let (_, name) = self.group_and_name();
        (self.options)().name(name)
    }

    /// The command line with what it requires: `fathom file write FILE --block SIZE --count N`.
    pub fn line(&self) -> String {
        let options = self.options();
        let required = options.get_arguments().filter(|argument| argument.is_required_set());
        let word = |argument: &clap::Arg| {
            // Of several kinds the first: a shell takes `URL|DIR` for a pipe.
            let name = argument.get_value_names()?.first()?.split('|').next()?.to_owned();
            let long = argument.get_long().map_or(String::new(), |long| format!("--{long} "));
            Some(long + &name)
        };
        let words = required.filter_map(word);
        words.fold(format!("fathom {}", self.path), |line, word| line + " " + &word)
    }

    /// The options with which the command measures longer, without their dashes: `time,runs`.
    pub fn repeat_option(&self) -> Option<String> {
        let options = self.options();
        let long = |name: &&str| options.get_arguments().any(|one| one.get_long() == Some(name));
        let found = ["repeat", "passes", "rounds", "time"].into_iter().find(long)?;
        // A number of runs that was given takes no time.
        let or_runs = if found == "time" && long(&"runs") { ",runs" } else { "" };
        Some(format!("{found}{or_runs}"))
    }

    /// The two words of the path.
    pub fn group_and_name(&self) -> (&'static str, &'static str) {
        self.path.split_once(' ').unwrap_or(("", self.path))
    }

    pub fn procedure(&self, matches: &clap::ArgMatches) -> Result<Box<dyn Procedure>, clap::Error> {
        (self.parse)(matches)
    }
}

fn parse<P: Procedure + clap::Parser + 'static>(
    matches: &clap::ArgMatches,
) -> Result<Box<dyn Procedure>, clap::Error> {
    Ok(Box::new(P::from_arg_matches(matches)?))
}
