//! One row of a crosscheck: a case of a metric, and how a peer does the same work.

use std::path::{Path, PathBuf};

use fathom_record::{Host, Params, PeerStatistic, Unit};

use crate::process::{Invocation, Output, RunError};

/// Bytes of the file that is read.
pub const DATA_BYTES: u64 = 384 << 20;
/// The least that is passed over where it is to be memory.
const MEMORY_MIN: u64 = 128 << 20;
const MEMORY_MAX: u64 = 1 << 30;

/// What rows depend on.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'h> {
    /// Its facts.
    pub host: &'h Host,
    /// The CPU that is measured on.
    pub cpu: u32,
}

impl Machine<'_> {
    /// Bytes that no cache holds: four times the largest, within limits.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let largest = self.host.cpu.caches.iter().map(|cache| cache.size_bytes).max().unwrap_or(0);
        (4 * largest).next_power_of_two().clamp(MEMORY_MIN, MEMORY_MAX)
    }

    /// The pages that a program has which asks for none.
    pub(crate) fn usual_page(&self) -> &'static str {
        if self.host.memory.thp.as_deref() == Some("always") { "huge" } else { "4K" }
    }
}

/// The files of a crosscheck, which nothing else uses.
#[derive(Clone, Debug)]
pub struct Place {
    /// [`DATA_BYTES`] of generated data.
    pub data: PathBuf,
    /// A file to write: it is not there before a turn, nor after.
    pub own: PathBuf,
    /// A program to make.
    pub program: PathBuf,
}

impl Place {
    /// The files in a folder.
    pub fn at(folder: &Path) -> Self {
        let file = |number: u32| folder.join(format!("f-{number}"));
        Self { data: file(0), own: file(1), program: file(2) }
    }
}

/// The CPUs of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The measured one.
    One,
    /// All that this process may use.
    All,
}

/// How Fathom measures its side.
#[derive(Clone, Copy, Debug)]
pub enum Ours {
    /// By `fathom run`, with this case alone.
    Run,
    /// By `fathom file …`, with these words.
    File(fn(&Place) -> Vec<String>),
}

/// What a peer's output says.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The number, in the unit of the row.
    pub value: f64,
    /// What else it says, for people.
    pub detail: String,
}

/// Why there is no number in an output.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReadingError {
    /// It says something else, or nothing.
    #[error("no {sought} in its output, which begins: {begins}")]
    Missing {
        /// What was sought.
        sought: &'static str,
        /// Its first line.
        begins: String,
    },
    /// It says that its work failed.
    #[error("its work failed: {0}")]
    Failed(String),
    /// A number that is no measurement.
    #[error("it says {0}, which measures nothing")]
    NotPositive(f64),
    /// The times do not grow with the size.
    #[error("more bytes took no more time: too much else ran")]
    NoSlope,
}

impl From<ReadingError> for RunError {
    fn from(error: ReadingError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Reading {
    /// A number alone.
    ///
    /// # Errors
    /// Where it is none above 0.
    pub(crate) fn of(value: f64) -> Result<Self, ReadingError> {
        match value.is_finite() && value > 0.0 {
            true => Ok(Self { value, detail: String::new() }),
            false => Err(ReadingError::NotPositive(value)),
        }
    }

    pub(crate) fn with(self, detail: String) -> Self {
        Self { detail, ..self }
    }
}

/// How a peer is called for a row.
pub type Commands = Box<dyn Fn(&Place) -> Vec<Invocation>>;
/// How what it printed is read.
pub type Parse = Box<dyn Fn(&[Output]) -> Result<Reading, ReadingError>>;

/// A case of a metric, and the same work by a peer.
pub struct Row {
    /// The metric.
    pub metric: &'static str,
    /// The one case of it.
    pub params: Params,
    /// Its unit.
    pub unit: Unit,
    /// What the peer calls it.
    pub work: &'static str,
    /// What the peer counts or does otherwise.
    pub difference: &'static str,
    /// What the peer's number is.
    pub tells: PeerStatistic,
    /// How our side is measured.
    pub ours: Ours,
    /// Where both run.
    pub on: On,
    /// Processes of the peer's own take turns on a CPU: that they lose it tells of nobody else.
    pub takes_turns: bool,
    /// The data file is read, and lies in memory before each turn.
    pub reads_data: bool,
    /// Bytes that both sides of a pair write.
    pub written: u64,
    /// What a pair takes, about.
    pub seconds: f64,
    /// The peer's side.
    pub commands: Commands,
    /// The number in its output.
    pub parse: Parse,
}

impl Row {
    /// What most rows have in common: a rate, on one CPU, of a program that neither reads the data
    /// file nor writes. It has no metric yet.
    pub(crate) fn usual(commands: Commands, parse: Parse) -> Self {
        Self {
            metric: "",
            params: Params::none(),
            unit: Unit::BytesPerSecond,
            work: "",
            difference: "",
            tells: PeerStatistic::Median,
            ours: Ours::Run,
            on: On::One,
            takes_turns: false,
            reads_data: false,
            written: 0,
            seconds: 1.2,
            commands,
            parse,
        }
    }

    /// The case as `fathom run` understands it.
    pub fn case(&self) -> String {
        format!("{}{}", self.metric, self.params)
    }

    /// Whether there must be a folder for files.
    pub fn needs_files(&self) -> bool {
        self.reads_data || self.written > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_memory_is_larger_than_any_cache() {
        let mut host = Host::default();
        let bytes = |host: &Host| Machine { host, cpu: 0 }.memory_bytes();
        assert_eq!(bytes(&host), 128 << 20);
        let cache = |mib: u64| fathom_record::host::Cache {
            size_bytes: mib << 20,
            ..fathom_record::host::Cache::default()
        };
        host.cpu.caches = vec![cache(1), cache(96)];
        assert_eq!(bytes(&host), 512 << 20);
        host.cpu.caches = vec![cache(1024)];
        assert_eq!(bytes(&host), 1 << 30, "no more than a small machine has");
    }

    #[test]
    fn a_program_that_asks_for_no_pages_has_what_the_kernel_gives() {
        let mut host = Host::default();
        assert_eq!(Machine { host: &host, cpu: 0 }.usual_page(), "4K");
        host.memory.thp = Some("always".to_owned());
        assert_eq!(Machine { host: &host, cpu: 0 }.usual_page(), "huge");
    }
}
