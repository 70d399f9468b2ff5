//! A server with a limit of known size, and what `fathom load` finds of it.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fathom_measure::process::Running;
use fathom_record::{Document, FactValue, Interval, Record, State, Value};

use crate::Unmet;
use crate::group::LabGroup;
use crate::link::{ADDRESSES, LabLink};
use crate::nginx::{self, Evictor};

/// Payload of a full Ethernet frame of 1514 bytes: TCP with timestamps.
pub const PAYLOAD: f64 = 1448.0 / 1514.0;
const PERIOD_US: u64 = 20_000;
const PORT: u16 = 7020;
const WAIT: Duration = Duration::from_millis(10);
const WAITS_MAX: u32 = 60_000;

/// What limits the throughput.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ImposedLimit {
    /// Of the link, in bits per second.
    Network(f64),
    /// Of reads of the server from the disk, in bytes per second.
    Disk(f64),
    /// CPUs of the server.
    ServerCpu(f64),
    /// CPUs of the load generator.
    Client(f64),
    /// A section of every request in which it is alone, in seconds.
    Serial(f64),
}

impl ImposedLimit {
    /// The expected value of `load.bottleneck`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Network(_) => "network",
            Self::Disk(_) => "disk",
            Self::ServerCpu(_) => "server-cpu",
            Self::Client(_) => "client",
            Self::Serial(_) => "serial",
        }
    }

    pub fn words(self) -> String {
        match self {
            Self::Network(bits_s) => format!("link of {:.1} Mbit/s", bits_s / 1e6),
            Self::Disk(bytes_s) => format!("disk of {:.1} MB/s", bytes_s / 1e6),
            Self::ServerCpu(cpus) => format!("server: {:.0} % of a CPU", 100.0 * cpus),
            Self::Client(cpus) => format!("client: {:.0} % of a CPU", 100.0 * cpus),
            Self::Serial(seconds) => format!("serial section of {:.1} ms", 1e3 * seconds),
        }
    }

    /// The throughput at saturation, in requests per second. `None` if it depends on the CPU.
    pub fn throughput(self, file_bytes: u64) -> Option<f64> {
        match self {
            Self::Network(bits_s) => Some(bits_s / 8.0 * PAYLOAD / file_bytes as f64),
            Self::Disk(bytes_s) => Some(bytes_s / file_bytes as f64),
            Self::Serial(seconds) => Some(1.0 / seconds),
            Self::ServerCpu(_) | Self::Client(_) => None,
        }
    }
}

/// Files to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitedFiles {
    pub count: u32,
    pub bytes: u64,
    /// Evicted from the page cache after each response.
    pub are_cold: bool,
}

/// The program of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedServer {
    /// `fathom serve`.
    Fathom,
    Nginx,
}

/// A server with a limit. Fields are dropped in this order.
pub struct LabLimited {
    _evictor: Option<Evictor>,
    server: Running,
    kind: LimitedServer,
    /// Of the load generator.
    generator: Option<LabGroup>,
    _groups: Vec<LabGroup>,
    link: LabLink,
    program: PathBuf,
    folder: PathBuf,
}

impl LabLimited {
    /// Makes files in a new folder `set` of `folder` and serves them. `name` is of cgroups and
    /// namespaces.
    ///
    /// # Errors
    /// [`Unmet`] if the limit is not possible here; otherwise if a program fails.
    pub fn start(
        place: (&Path, &Path, &str),
        limit: ImposedLimit,
        files: LimitedFiles,
    ) -> Result<Self> {
        Self::start_as(LimitedServer::Fathom, place, limit, files)
    }

    /// The same with another server, which has no serial section.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_as(
        kind: LimitedServer,
        (program, folder, name): (&Path, &Path, &str),
        limit: ImposedLimit,
        files: LimitedFiles,
    ) -> Result<Self> {
        let link = LabLink::new(name)?;
        let quota = |cpus: f64| {
            let quota = (cpus * PERIOD_US as f64).round() as u64;
            let limits = [("cpu.cfs_period_us", PERIOD_US), ("cpu.cfs_quota_us", quota)];
            LabGroup::new("cpu", name, &limits)
        };
        let (mut groups, mut generator) = (Vec::new(), None);
        match limit {
            ImposedLimit::Network(bits_s) => link.limit(0, bits_s as u64)?,
            ImposedLimit::Disk(bytes_s) => {
                let group = LabGroup::new("blkio", name, &[])?;
                let text = format!("{} {}", device(folder)?, bytes_s as u64);
                let file = group.file("blkio.throttle.read_bps_device");
                std::fs::write(file, &text)
                    .map_err(|error| Unmet(format!("limit reads to {text}: {error}")))?;
                groups.push(group);
            }
            ImposedLimit::ServerCpu(cpus) => groups.push(quota(cpus)?),
            ImposedLimit::Client(cpus) => generator = Some(quota(cpus)?),
            ImposedLimit::Serial(_) => {}
        }
        let set = format!("{}x{}", files.count, files.bytes);
        let made = Command::new(program)
            .args(["load", "--make", &set, "set"])
            .current_dir(folder)
            .output()
            .context("start the program")?;
        ensure!(made.status.success(), "make {set}: {}", String::from_utf8_lossy(&made.stderr));
        let address = format!("{}:{PORT}", ADDRESSES[0]);
        let serve = match kind {
            LimitedServer::Fathom => serve(program, folder, &address, limit, files),
            LimitedServer::Nginx => nginx::command(folder, &address)?,
        };
        let server = || -> std::io::Result<Command> {
            let prefix = groups.iter().flat_map(LabGroup::words).collect();
            let mut there = link.at(0, &after(prefix, &serve));
            there.stdin(Stdio::null()).stdout(Stdio::piped());
            there.stderr(File::create(folder.join("serve.err"))?);
            Ok(there)
        };
        let server = Running::start_tied(server, &[]).context("start the server")?;
        let evictor = (kind == LimitedServer::Nginx && files.are_cold)
            .then(|| Evictor::start(&folder.join("set")))
            .transpose()?;
        let (program, folder) = (program.to_owned(), folder.to_owned());
        let mut this = Self {
            _evictor: evictor,
            server,
            kind,
            generator,
            _groups: groups,
            link,
            program,
            folder,
        };
        if kind == LimitedServer::Nginx {
            nginx::await_start(&this.folder, &mut this.server)?;
            return Ok(this);
        }
        let mut line = String::new();
        // Byte by byte, as the rest of the output is never read.
        BufReader::with_capacity(1, this.server.stdout()?).read_line(&mut line)?;
        let errors = || std::fs::read_to_string(this.folder.join("serve.err")).unwrap_or_default();
        ensure!(line.contains("http://"), "serve: {}", errors());
        Ok(this)
    }

    /// The command of a load on this server, at the other end of the link.
    fn load(&self, options: &str) -> Command {
        let prefix = self.generator.iter().flat_map(LabGroup::words).collect();
        let mut load = prefixed(prefix, &self.program);
        load.arg("load").arg(self.url());
        if self.kind == LimitedServer::Fathom {
            load.args(["--token-file", "token"]);
        }
        load.args(["--json", "--store"]);
        load.arg(self.folder.join("fathom.db")).args(options.split(' ')).current_dir(&self.folder);
        self.link.at(1, &load)
    }

    /// The command of a run with the server as its far end, at the other end of the link.
    fn run(&self, options: &str) -> Command {
        let mut run = Command::new(&self.program);
        run.args(["run", "--quick", "--only", "--remote", &format!("{}:{PORT}", ADDRESSES[0])]);
        run.args(["--token-file", "token", "--json", "--store"]);
        run.arg(self.folder.join("fathom.db")).args(options.split(' ')).current_dir(&self.folder);
        self.link.at(1, &run)
    }

    /// Sets the TCP receive buffer of the server's end.
    ///
    /// # Errors
    /// Without `sysctl`.
    pub fn receive_buffer(&self, bytes: u64) -> Result<(), Unmet> {
        self.link.receive_buffer(0, bytes)
    }

    /// Runs a load to its end.
    ///
    /// # Errors
    /// If it fails, takes more than ten minutes, or `stop` is set. A load without a number is no
    /// error.
    pub fn measure(&self, options: &str, stop: &AtomicBool) -> Result<Document> {
        self.document(|| self.load(options), &format!("load {options}"), stop)
    }

    /// Runs metrics with the server as the far end, to their end.
    ///
    /// # Errors
    /// As [`Self::measure`].
    pub fn measure_run(&self, options: &str, stop: &AtomicBool) -> Result<Document> {
        self.document(|| self.run(options), &format!("run {options}"), stop)
    }

    fn document(
        &self,
        command: impl Fn() -> Command,
        what: &str,
        stop: &AtomicBool,
    ) -> Result<Document> {
        let [written, errors] = ["out.json", "out.err"].map(|name| self.folder.join(name));
        let command = || -> std::io::Result<Command> {
            let mut command = command();
            command.stdin(Stdio::null()).stdout(File::create(&written)?);
            command.stderr(File::create(&errors)?);
            Ok(command)
        };
        let mut running = Running::start_tied(command, &[]).context("start the program")?;
        let mut waits = 0;
        while running.try_wait()?.is_none() {
            ensure!(!stop.load(Ordering::Relaxed), "stopped");
            waits += 1;
            ensure!(waits < WAITS_MAX, "{what}: timed out");
            std::thread::sleep(WAIT);
        }
        serde_json::from_str(&std::fs::read_to_string(&written)?).map_err(|_| {
            let errors = std::fs::read_to_string(&errors).unwrap_or_default();
            anyhow::anyhow!("{what}: {}", errors.trim())
        })
    }

    /// The share of the bytes on a limited link that are those of a file, by the counters of its
    /// shaper while one of this size is fetched.
    ///
    /// # Errors
    /// If that fails.
    pub fn payload_share(&self, file_bytes: u64) -> Result<f64> {
        let before = self.link.sent(0)?;
        let mut fetch = Command::new(&self.program);
        fetch.args(["fetch", &format!("{}f0", self.url()), "--output", "fetched", "--force"]);
        if self.kind == LimitedServer::Fathom {
            fetch.args(["--token-file", "token"]);
        }
        let output = self.beside(&mut fetch).output().context("start the program")?;
        ensure!(output.status.success(), "fetch: {}", String::from_utf8_lossy(&output.stderr));
        Ok(file_bytes as f64 / (self.link.sent(0)? - before) as f64)
    }

    /// The command at the end of the load generator, in the folder of the files.
    pub fn beside(&self, command: &mut Command) -> Command {
        self.link.at(1, command.current_dir(&self.folder))
    }

    pub fn url(&self) -> String {
        format!("http://{}:{PORT}/", ADDRESSES[0])
    }

    /// # Errors
    /// If the server wrote none, as nginx.
    pub fn token(&self) -> std::io::Result<String> {
        Ok(std::fs::read_to_string(self.folder.join("token"))?.trim().to_owned())
    }
}

/// The command of `fathom serve`.
fn serve(
    program: &Path,
    folder: &Path,
    address: &str,
    limit: ImposedLimit,
    files: LimitedFiles,
) -> Command {
    let mut serve = Command::new(program);
    serve.args(["serve", "set", "--token-file", "token", "--listen", address]);
    serve.current_dir(folder);
    if files.are_cold {
        serve.arg("--cold");
    }
    if let ImposedLimit::Serial(seconds) = limit {
        serve.env("FATHOM_SERIALIZE", format!("{:.3}ms", 1e3 * seconds));
    }
    serve
}

/// A command after a command line prefix.
fn after(prefix: Vec<String>, command: &Command) -> Command {
    let mut all = prefixed(prefix, Path::new(command.get_program()));
    all.args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        all.current_dir(folder);
    }
    all.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    all
}

/// A program after a command line prefix.
fn prefixed(mut prefix: Vec<String>, program: &Path) -> Command {
    prefix.push(program.display().to_string());
    let mut command = Command::new(&prefix[0]);
    command.args(&prefix[1..]);
    command
}

/// The disk of a folder, as `major:minor`.
fn device(folder: &Path) -> Result<String, Unmet> {
    let number = rustix::fs::stat(folder).map(|it| it.st_dev).unwrap_or_default();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let place = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let of_disk = if place.join("partition").exists() { "../dev" } else { "dev" };
    let text = std::fs::read_to_string(place.join(of_disk));
    let text = text.map_err(|_| Unmet(format!("{} is not on a disk", folder.display())))?;
    Ok(text.trim().to_owned())
}

/// A number with its interval.
#[derive(Clone, Copy, Debug)]
pub struct LimitedNumber {
    pub value: f64,
    pub interval: Option<Interval>,
}

/// What a load found.
#[derive(Clone, Debug, Default)]
pub struct LimitedFound {
    pub name: String,
    /// Why the bottleneck is undetermined, or the throughput not saturated.
    pub why: Vec<String>,
    pub proof: Option<String>,
    pub saturation: Option<LimitedNumber>,
    pub knee: Option<LimitedNumber>,
    pub clients_95: Option<LimitedNumber>,
    /// The utilisation of each resource.
    pub utilisations: Vec<(String, f64)>,
    /// Clients, requests per second and the state of each step.
    pub steps: Vec<(i64, Option<f64>, State)>,
}

impl LimitedFound {
    /// The records of the first case of a run.
    pub fn from_document(document: &Document) -> Self {
        let all = |metric: &'static str| {
            document.records.iter().filter(move |record| record.metric.as_str() == metric)
        };
        let number = |metric| {
            let summary = all(metric).next()?.summary.as_ref()?;
            Some(LimitedNumber { value: summary.median, interval: summary.interval })
        };
        let bottleneck = all("load.bottleneck").next();
        let name = match bottleneck.and_then(|record| record.value.as_ref()) {
            Some(Value::Text(name)) => name.clone(),
            _ => "-".to_owned(),
        };
        let explained = bottleneck.into_iter().chain(all("load.saturation").next());
        let reasons = |record: &Record| record.verdict.reasons.clone();
        let facts = bottleneck.map(|record| record.facts.as_slice()).unwrap_or_default();
        let utilisation = |name: &str, value: &FactValue| match value {
            FactValue::Quantity { value, .. } => {
                Some((name.strip_suffix(" utilisation")?.to_owned(), *value))
            }
            FactValue::Text { .. } | FactValue::Line { .. } => None,
        };
        let proof = facts.iter().find(|fact| fact.name == "proof").map(|fact| &fact.value);
        Self {
            name,
            why: explained.flat_map(reasons).map(|reason| reason.text).collect(),
            proof: proof.and_then(|value| match value {
                FactValue::Text { text } => Some(text.clone()),
                FactValue::Quantity { .. } | FactValue::Line { .. } => None,
            }),
            saturation: number("load.saturation"),
            knee: number("load.knee"),
            clients_95: number("load.clients_95"),
            utilisations: facts.iter().filter_map(|it| utilisation(&it.name, &it.value)).collect(),
            steps: all("load.throughput")
                .map(|record| {
                    let rate = record.summary.as_ref().map(|summary| summary.median);
                    let clients = record.params.integer("clients").unwrap_or(0);
                    (clients, rate, record.verdict.state)
                })
                .collect(),
        }
    }
}
