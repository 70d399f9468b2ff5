//! A load of four members, each behind a link of its own, against one nginx: what one member gets
//! times four, and the quantiles of all response times.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fathom_lab::nginx;
use fathom_lab::star::{MIDDLE, Star};
use fathom_measure::process::Running;
use fathom_record::{Document, Histogram, Record, kind};

use super::row::{LabRow, LoadCompared};

const MEMBERS: u8 = 4;
const BITS_S: u64 = 20_000_000;
const LINKS: &str = "four links of 20 Mbit/s";
const FILE_BYTES: u64 = 50_000;
/// Of the server, and of the coordinator.
const PORTS: [u16; 2] = [7020, 3285];
const TOKEN: &str = "a-token-of-the-lab";
/// For one member, and for four: with a rate that its links carry half of.
const LOADS: [[&str; 2]; 2] = [
    ["--clients 4 --time 15s", "--clients 16 --time 15s"],
    ["--rate 25 --arrivals uniform --time 15s", "--rate 100 --arrivals uniform --time 15s"],
];
const WITHIN: f64 = 0.05;
/// A histogram has three significant digits.
const WIDTH: f64 = 1e-3;
const WAIT: Duration = Duration::from_millis(20);
const WAITS_MAX: u32 = 15_000;

/// All loads, each by one member and by four.
pub(super) fn measure(program: &Path, stop: &AtomicBool) -> Result<Vec<LabRow>> {
    let folder = tempfile::tempdir_in("/var/tmp").context("create a folder")?;
    let star = Star::new("fleet", MEMBERS, BITS_S)?;
    std::fs::create_dir(folder.path().join("set"))?;
    std::fs::write(folder.path().join("set/f0"), vec![b'x'; FILE_BYTES as usize])?;
    let command = nginx::command(folder.path(), &format!("{MIDDLE}:{}", PORTS[0]))?;
    let server = || -> std::io::Result<Command> {
        let mut there = star.in_middle(&command);
        there.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(there)
    };
    let mut server = Running::start_tied(server, &[]).context("start nginx")?;
    nginx::await_start(folder.path(), &mut server)?;
    let mut rows = Vec::new();
    for [of_one, of_all] in LOADS {
        let load = |members, options| {
            FleetGathering { star: &star, folder: folder.path(), program, members }
                .load(options, stop)
        };
        let one = number(&merged(&load(1, of_one)?)?.records, "load.throughput")?;
        let runs = load(MEMBERS, of_all)?;
        let merged = merged(&runs)?;
        let all = number(&merged.records, "load.throughput")?;
        let expected = f64::from(MEMBERS) * one;
        let throughput = LoadCompared { what: "requests/s".to_owned(), expected, found: all };
        rows.push(LabRow::of_theory(LINKS, of_all, all, &[throughput], WITHIN));
        let [found, theory] = [p99(merged)?, p99_of_members(&runs)?];
        let p99 = LoadCompared::ms("p99 of all", theory, found);
        rows.push(LabRow::of_theory(LINKS, of_all, all, &[p99], WIDTH));
    }
    Ok(rows)
}

struct FleetGathering<'g> {
    star: &'g Star,
    folder: &'g Path,
    program: &'g Path,
    members: u8,
}

impl FleetGathering<'_> {
    /// Loads the server, and returns all runs that were stored.
    fn load(&self, options: &str, stop: &AtomicBool) -> Result<Vec<Document>> {
        let store = self.folder.join(format!("{}.db", options.replace(' ', "")));
        let [url, listen] = PORTS.map(|port| format!("{MIDDLE}:{port}"));
        let mut coordinator = Command::new(self.program);
        coordinator.args(["fleet", "load", &format!("http://{url}/f0"), "--same-host", "--json"]);
        coordinator.args(["--listen", &listen, "--members", &self.members.to_string()]);
        coordinator.arg("--store").arg(&store).args(options.split(' '));
        let mut running =
            vec![self.start("coordinator", &coordinator, |it| self.star.in_middle(it))?];
        for end in 0..usize::from(self.members) {
            let mut member = Command::new(self.program);
            member.args(["fleet", "member", "--join", &listen]);
            member.env("FATHOM_HOST", format!("end{end}"));
            let name = format!("end{end}");
            running.push(self.start(&name, &member, |it| self.star.at(end, it))?);
        }
        let mut waits = 0;
        for process in &mut running {
            while process.try_wait()?.is_none() {
                ensure!(!stop.load(Ordering::Relaxed), "stopped");
                waits += 1;
                ensure!(waits < WAITS_MAX, "{options}: timed out");
                std::thread::sleep(WAIT);
            }
        }
        let mut export = Command::new(self.program);
        export.args(["export", "--all", "--samples", "--format", "jsonl", "--store"]).arg(&store);
        let exported = export.output().context("start the program")?;
        let runs = String::from_utf8(exported.stdout)?;
        let runs: Result<Vec<Document>, _> = runs.lines().map(serde_json::from_str).collect();
        let runs = runs.context("the runs of the store")?;
        let errors = || {
            let read = |name: &str| std::fs::read_to_string(self.folder.join(name));
            read("coordinator.err").unwrap_or_default()
        };
        ensure!(runs.len() == usize::from(self.members) + 1, "{options}: {}", errors());
        Ok(runs)
    }

    fn start(
        &self,
        name: &str,
        command: &Command,
        place: impl Fn(&Command) -> Command,
    ) -> Result<Running> {
        let errors = self.folder.join(format!("{name}.err"));
        let command = || -> std::io::Result<Command> {
            let mut there = place(command);
            there.env("FATHOM_TOKEN", TOKEN).current_dir(self.folder);
            there.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&errors)?);
            Ok(there)
        };
        Running::start_tied(command, &[]).with_context(|| format!("start {name}"))
    }
}

/// The run of all members.
fn merged(runs: &[Document]) -> Result<&Document> {
    let is_merged = |run: &&Document| {
        let has = |record: &Record| record.params.0.contains_key("members");
        kind(run.run.procedure.as_deref()) == "load" && run.records.iter().any(has)
    };
    runs.iter().find(is_merged).context("no merged run")
}

fn times(run: &Document) -> Option<&Record> {
    run.records.iter().find(|record| {
        record.metric.as_str() == "load.response_time" && !record.params.0.contains_key("from")
    })
}

fn number(records: &[Record], metric: &str) -> Result<f64> {
    let record = records.iter().find(|record| record.metric.as_str() == metric);
    let record = record.with_context(|| format!("no {metric}"))?;
    let why = || record.verdict.reasons.iter().map(|it| it.text.as_str()).collect::<Vec<_>>();
    let summary = record.shown_summary();
    Ok(summary.with_context(|| format!("{metric}: {}", why().join("; ")))?.median)
}

/// In seconds.
fn p99(run: &Document) -> Result<f64> {
    let summary = times(run).and_then(Record::shown_summary).context("no response times")?;
    let found = summary.quantiles.iter().find(|it| it.q == 0.99).context("no p99")?;
    Ok(found.value / 1e9)
}

/// Of the response times that the members stored, each for itself.
fn p99_of_members(runs: &[Document]) -> Result<f64> {
    let is_share = |record: &&Record| record.params.0.contains_key("share");
    let shares = runs.iter().filter_map(times).filter(is_share);
    let mut all = Histogram::new();
    for share in shares {
        let samples = share.samples.as_deref().unwrap_or_default();
        let own = samples.first().and_then(|sample| sample.histogram.as_ref());
        all.merge(own.context("a share without response times")?);
    }
    Ok(all.quantile(0.99).context("no response times")? / 1e9)
}
