//! Many members of `fathom fleet run`: a crowd that is emulated by sockets, with the time and
//! memory of its coordinator, and real members that start together.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, bail, ensure};
use fathom_far::Token;
use fathom_lab::crowd;
use fathom_lab::evidence::{Criterion, EvidenceContents, EvidenceOrigin, FLEET};
use fathom_lab::relay::Relay;
use fathom_measure::clock::monotonic_raw_ns;
use fathom_record::Document;
use serde_json::Value;

const TOKEN: &str = "a-token-of-the-lab";
/// Of members that start together: the machine is one, and has two CPUs.
const REAL: usize = 8;
const SECONDS_MAX: f64 = 60.0;
const MIB_MAX: u64 = 200;
const SKEW_MS_MAX: f64 = 1.0;
const POLL: std::time::Duration = std::time::Duration::from_millis(20);

/// A crowd of so many, once whole and once with a tenth lost, and real members; writes the page and
/// returns whether all is as promised.
pub(crate) fn run(root: &Path, program: &str, members: usize, seed: u64) -> Result<bool> {
    let program = std::fs::canonicalize(program).with_context(|| program.to_owned())?;
    let folder = tempfile::tempdir()?;
    let document = measured(&program, folder.path())?;
    let mut body = PREFACE.to_owned();
    let mut criteria = Vec::new();
    body += "| members | lost on purpose | start | delivered | records each | time | memory |\n";
    body += "|---|---|---|---|---|---|---|\n";
    for (lost, together) in [(0, false), (members / 10, false), (members / 10, true)] {
        let crowd = crowd_of(&program, folder.path(), &document, (members, lost, together, seed))?;
        let start = if together { "together" } else { "alone" };
        let row = format!(
            "| {members} | {lost} | {start} | {} | {} | {:.1} s | {} MiB |",
            crowd.delivered,
            document.records.len(),
            crowd.seconds,
            crowd.mib
        );
        println!("{row}");
        body += &(row + "\n");
        let name = format!("{members} members, {lost} lost, {start}");
        criteria.extend([
            Criterion::new(
                format!("{name}: all others deliver and are judged"),
                crowd.delivered == members - lost && crowd.is_complete,
            ),
            Criterion::new(
                format!("{name}: at most {SECONDS_MAX} s"),
                crowd.seconds <= SECONDS_MAX,
            ),
            Criterion::new(format!("{name}: at most {MIB_MAX} MiB"), crowd.mib <= MIB_MAX),
        ]);
    }
    let start = together(&program, folder.path())?;
    println!("{start:#}");
    let ms = |field: &str| start[field].as_f64().unwrap_or(f64::NAN) / 1e6;
    let (median, highest, error) = (ms("median_skew_ns"), ms("highest_skew_ns"), ms("error_ns"));
    body += &format!(
        "\n{REAL} real members, as processes of this machine, started together: {median:.3} ms \
         from the announced time in the median, {highest:.3} ms at most, ± {error:.3} ms by their \
         clocks.\n"
    );
    criteria.push(Criterion::new(
        format!("{REAL} real members: median skew at most {SKEW_MS_MAX} ms"),
        median <= SKEW_MS_MAX,
    ));
    let origin = EvidenceOrigin::here(root);
    let contents = EvidenceContents {
        parameters: &[("MEMBERS", members.to_string()), ("SEED", seed.to_string())],
        origins: &[("", &origin)],
        criteria: &criteria,
        body: &body,
    };
    let missed = FLEET.write(root, &contents).context(FLEET.path())?;
    missed.iter().for_each(|missed| println!("{missed}"));
    Ok(missed.is_empty())
}

/// A link with more delay, until standard input ends.
pub(crate) fn relay(namespaces: [&str; 2], device: &str, ms: u64) -> Result<bool> {
    let relay = Relay::start(&namespaces.map(str::to_owned), device)?;
    relay.delay(ms * 1_000_000);
    println!("relays");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(true)
}

const PREFACE: &str = "\
Emulated members are sockets of one process: each joins with the facts of this machine, a name, an
id and a boot id of its own, and delivers a run that this machine has measured once. The time is
from the start of the coordinator to its judgement; the memory is its peak. Lost members close their
connections at random moments: before their order, among the exchanges of clocks, or in the middle
of their run.

";

/// A quick run of this machine, without samples: that of a member has them, so it is larger.
fn measured(program: &Path, folder: &Path) -> Result<Document> {
    let mut command = Command::new(program);
    command.args(["run", "--quick", "--json", "cpu", "os.syscall"]).env("XDG_DATA_HOME", folder);
    let output = command.env_remove("FATHOM_STORE").stderr(Stdio::null()).output()?;
    serde_json::from_slice(&output.stdout).context("a run to deliver")
}

/// The run as a member of a crowd delivers it.
fn of_host(document: &Document, at: usize) -> Document {
    let mut document = document.clone();
    document.host.name = format!("node{at:04}");
    document.host.id = Some(format!("{at:032x}"));
    document.run.id = format!("{at:016x}");
    document
}

/// A coordinator, and where its members join.
struct FleetCoordinator {
    child: Child,
    address: SocketAddr,
    errors: JoinHandle<String>,
    begun_ns: u64,
}

impl FleetCoordinator {
    fn start(program: &Path, folder: &Path, options: &[&str]) -> Result<Self> {
        let begun_ns = monotonic_raw_ns();
        let mut command = Command::new(program);
        command.args(["fleet", "run", "--json"]).args(options).env("FATHOM_TOKEN", TOKEN);
        command.env("FATHOM_STORE", folder.join(format!("{begun_ns}.db")));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut errors = BufReader::new(child.stderr.take().context("a pipe")?);
        let mut line = String::new();
        while !line.contains("--join ") {
            line.clear();
            ensure!(errors.read_line(&mut line)? > 0, "the coordinator has ended");
        }
        let address = line.split(' ').find_map(|word| word.parse().ok()).context(line)?;
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            text
        });
        Ok(Self { child, address, errors, begun_ns })
    }

    /// Its output, its time, and its peak of memory in MiB.
    fn end(mut self) -> Result<(Value, f64, u64)> {
        let mut stdout = self.child.stdout.take().context("a pipe")?;
        let output = std::thread::spawn(move || {
            let mut text = Vec::new();
            stdout.read_to_end(&mut text).map(|_| text)
        });
        let status = format!("/proc/{}/status", self.child.id());
        let mut kib: u64 = 0;
        while self.child.try_wait()?.is_none() {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let peak = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok());
            kib = kib.max(peak.unwrap_or(0));
            std::thread::sleep(POLL);
        }
        let seconds = (monotonic_raw_ns() - self.begun_ns) as f64 / 1e9;
        let errors = self.errors.join().unwrap_or_default();
        let text = output.join().unwrap_or_else(|_| Ok(Vec::new()))?;
        let judged = serde_json::from_slice(&text).with_context(|| errors)?;
        Ok((judged, seconds, kib.div_ceil(1024)))
    }
}

struct Crowd {
    delivered: usize,
    /// Whether the coordinator has judged as many.
    is_complete: bool,
    seconds: f64,
    mib: u64,
}

fn crowd_of(
    program: &Path,
    folder: &Path,
    document: &Document,
    (members, lost, together, seed): (usize, usize, bool, u64),
) -> Result<Crowd> {
    let count = members.to_string();
    let options = ["--members", &count, "--together", "cpu"];
    let options: Vec<&str> =
        options.into_iter().filter(|word| together || *word != "--together").collect();
    let coordinator = FleetCoordinator::start(program, folder, &options)?;
    let documents = (0..members).map(|at| of_host(document, at));
    let chosen = (lost, together, seed);
    let ending = crowd::join(coordinator.address, &Token::new(TOKEN), documents, chosen)?;
    let (judged, seconds, mib) = coordinator.end()?;
    let hosts = judged["hosts"].as_u64().unwrap_or(0) as usize;
    let gone = judged["members"]["lost"].as_array().map_or(0, Vec::len);
    let is_complete = (hosts, gone) == (ending.delivered, ending.lost);
    Ok(Crowd { delivered: ending.delivered, is_complete, seconds, mib })
}

/// The start of real members.
fn together(program: &Path, folder: &Path) -> Result<Value> {
    let count = REAL.to_string();
    let metric = ["--only", "--quick", "cpu.clock.resolution"];
    let mut options = vec!["--members", &count, "--same-host", "--together"];
    options.extend(metric);
    let coordinator = FleetCoordinator::start(program, folder, &options)?;
    let join = coordinator.address.to_string();
    let member = |at: usize| {
        let mut command = Command::new(program);
        command.args(["fleet", "member", "--join", &join]).env("FATHOM_TOKEN", TOKEN);
        command.env("FATHOM_HOST", format!("member{at}")).stdin(Stdio::null()).spawn()
    };
    let members = (0..REAL).map(member).collect::<std::io::Result<Vec<Child>>>()?;
    let (judged, ..) = coordinator.end()?;
    for mut child in members {
        if !child.wait()?.success() {
            bail!("a member has failed");
        }
    }
    Ok(judged["start"].clone())
}
