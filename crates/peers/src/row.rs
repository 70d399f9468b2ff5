//! One row of a crosscheck: a case of a metric, and how a peer measures the same work.

use std::path::{Path, PathBuf};

use fathom_record::{Host, Params, PeerStatistic, Unit};

use crate::process::{Invocation, Output, RunError};
use crate::server::Server;

/// Size of the data file.
pub const DATA_BYTES: u64 = 384 << 20;
/// Size of the file that is served.
pub const SERVED_BYTES: u64 = 4096;
/// Limits of a working set in memory.
const MEMORY_MIN: u64 = 128 << 20;
const MEMORY_MAX: u64 = 2 << 30;
/// At most this part of the available memory, of which a program may need several.
const MEMORY_PART: u64 = 8;

#[derive(Clone, Copy, Debug)]
pub struct PeerMachine<'h> {
    pub host: &'h Host,
    /// The CPU to measure on.
    pub cpu: u32,
}

impl PeerMachine<'_> {
    /// A working set that fits in no cache: four times the largest, within limits.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let largest = self.host.cpu.caches.iter().map(|cache| cache.size_bytes).max().unwrap_or(0);
        let available = self.host.memory.available_bytes.unwrap_or(0) / MEMORY_PART;
        let room = available.clamp(MEMORY_MIN, MEMORY_MAX);
        let power = |bytes: u64| 1 << bytes.ilog2();
        (4 * largest).next_power_of_two().clamp(MEMORY_MIN, power(room))
    }

    /// The page size of a program that does not use madvise.
    pub(crate) fn default_page(&self) -> &'static str {
        if self.host.memory.thp.as_deref() == Some("always") { "huge" } else { "4K" }
    }

    /// The CPU of the second end, on which Fathom's far end runs, too.
    pub fn other_cpu(&self) -> Option<u32> {
        fathom_measure::affinity::partner(self.host, self.cpu)
    }
}

/// The files of a crosscheck, and its port.
#[derive(Clone, Debug)]
pub struct PeerPlace {
    /// [`DATA_BYTES`] of generated data.
    pub data: PathBuf,
    /// A file to write; it does not exist before and after a turn.
    pub own: PathBuf,
    /// A program to build.
    pub program: PathBuf,
    /// A folder with one file of [`SERVED_BYTES`], `4k`.
    pub served: PathBuf,
    /// This program.
    pub fathom: String,
    /// A free port of loopback, for servers.
    pub port: u16,
}

impl PeerPlace {
    pub fn at(folder: &Path) -> Self {
        let file = |number: u32| folder.join(format!("f-{number}"));
        let fathom = "fathom".to_owned();
        Self { data: file(0), own: file(1), program: file(2), served: file(3), fathom, port: 0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The measured CPU.
    One,
    /// The measured CPU, and the server on [`Machine::other_cpu`].
    Two,
    /// All CPUs that this process may use.
    All,
}

/// How Fathom measures its side.
#[derive(Clone, Copy, Debug)]
pub enum Ours {
    /// `fathom run` with this case only.
    Run,
    /// `fathom file …` with these arguments, for the case with these parameters.
    File(fn(&PeerPlace, &Params) -> Vec<String>),
    /// `fathom load …` with these arguments, against the server of the row.
    Load(fn(&PeerPlace) -> Vec<String>),
}

/// A peer's result.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerReading {
    /// In the unit of the row.
    pub value: f64,
    pub detail: String,
}

impl PeerReading {
    /// # Errors
    /// If the value is not above 0.
    pub(crate) fn from_value(value: f64) -> Result<Self, RunError> {
        match value.is_finite() && value > 0.0 {
            true => Ok(Self { value, detail: String::new() }),
            false => Err(RunError::Failed(format!("reported {value}, which is no measurement"))),
        }
    }

    pub(crate) fn with(self, detail: String) -> Self {
        Self { detail, ..self }
    }
}

/// The peer's command lines.
pub type Commands = Box<dyn Fn(&PeerPlace) -> Vec<Invocation>>;
/// The server for the command lines.
pub type MakeServer = Box<dyn Fn(&PeerPlace) -> Server>;
/// Parses the outputs of the command lines, of which there is one at least.
pub type Parse = Box<dyn Fn(&[Output]) -> Result<PeerReading, RunError>>;

/// A case of a metric, and a peer's benchmark of the same work.
pub struct Row {
    pub metric: &'static str,
    pub params: Params,
    pub unit: Unit,
    /// The peer's name of the benchmark.
    pub work: &'static str,
    /// How the methods differ.
    pub difference: &'static str,
    /// The peer's statistic.
    pub statistic: PeerStatistic,
    /// How Fathom measures its side.
    pub ours: Ours,
    /// CPUs of both sides.
    pub on: On,
    /// The peer's own processes preempt each other, so preemption does not indicate other load.
    pub takes_turns: bool,
    /// The data file is read, and made resident before each turn.
    pub reads_data: bool,
    /// The folder with one file is served.
    pub serves: bool,
    /// Of response times, the quantile that is compared: else the headline.
    pub quantile: Option<f64>,
    /// Bytes that both sides of a pair write.
    pub written: u64,
    /// Too large or long to run unless the program or the case is named.
    pub only_named: bool,
    /// Approximate duration of a pair.
    pub seconds: f64,
    /// A server that the commands need: it runs during a turn.
    pub server: Option<MakeServer>,
    /// Whether the server stands still for a fifth of the time.
    pub stalls: bool,
    pub commands: Commands,
    pub parse: Parse,
}

impl Row {
    /// Defaults: throughput on one CPU, without reading the data file or writing. The metric is
    /// empty.
    pub(crate) fn usual(commands: Commands, parse: Parse) -> Self {
        Self {
            metric: "",
            params: Params::none(),
            unit: Unit::BytesPerSecond,
            work: "",
            difference: "",
            statistic: PeerStatistic::Median,
            ours: Ours::Run,
            on: On::One,
            takes_turns: false,
            reads_data: false,
            serves: false,
            quantile: None,
            written: 0,
            only_named: false,
            seconds: 1.2,
            server: None,
            stalls: false,
            commands,
            parse,
        }
    }

    /// The parameters, and the quantile that is compared.
    pub fn shown_params(&self) -> Params {
        let params = self.params.clone();
        match self.quantile {
            Some(quantile) => params.and("quantile", quantile.to_string().as_str()),
            None => params,
        }
    }

    /// The case in the syntax of `fathom run`.
    pub fn case(&self) -> String {
        format!("{}{}", self.metric, self.shown_params())
    }

    pub fn needs_files(&self) -> bool {
        self.reads_data || self.serves || self.written > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_set_is_larger_than_any_cache() {
        let mut host = Host::default();
        host.memory.available_bytes = Some(20 << 30);
        let bytes = |host: &Host| PeerMachine { host, cpu: 0 }.memory_bytes();
        assert_eq!(bytes(&host), 128 << 20);
        let cache = |mib: u64| fathom_record::host::Cache {
            size_bytes: mib << 20,
            ..fathom_record::host::Cache::default()
        };
        host.cpu.caches = vec![cache(1), cache(96)];
        assert_eq!(bytes(&host), 512 << 20);
        host.cpu.caches = vec![cache(1024)];
        assert_eq!(bytes(&host), 2 << 30);
        host.memory.available_bytes = Some(7 << 30);
        assert_eq!(bytes(&host), 512 << 20, "must fit a small machine");
    }
}
