//! Known answers of `fathom load`: a limit of known size is imposed, and the load must name it.

mod fleet;
mod page;
mod row;
mod theory;
mod trial;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use fathom_lab::Unmet;
use fathom_lab::evidence::{Criterion, EvidenceOrigin, EvidenceParts};
use fathom_lab::limited::{ImposedLimit, LabLimited, LimitedFound, LimitedServer};
use fathom_lab::seeded::Seeded;
use serde::{Deserialize, Serialize};

use row::{LabRow, LoadOutcome};
use trial::Trial;

/// Undetermined ones of all runs with a random limit.
const UNDETERMINED_MAX: f64 = 0.15;
const KEPT: &str = "target/load-lab.json";
/// The parts of the lab: trials with a chosen and with a random limit, the theory of a queue, and a
/// load of several members.
const FIXED: &str = "fixed";
const NGINX: &str = "nginx";
const THEORY: &str = "theory";
const FLEET: &str = "fleet";
const PARTS: [&str; 5] = [FIXED, trial::RANDOM, NGINX, THEORY, FLEET];

/// The result of a part.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct LoadPart {
    rows: Vec<LabRow>,
    /// The limits that are not possible on this machine, and why.
    skipped: Vec<String>,
}

/// All trials of the parts or limits whose name contains `only`, `runs` of them with a random
/// limit; true if their answers are the known ones. Keeps complete parts, and writes the page when
/// it has both.
pub(crate) fn run(root: &Path, program: &str, runs: u32, seed: u64, only: &str) -> Result<bool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let program = std::fs::canonicalize(program).with_context(|| program.to_owned())?;
    let mut random = Seeded::for_part(seed, "load");
    let mut trials = trial::fixed();
    trials.extend((0..runs).map(|number| Trial::random(number, &mut random)));
    let on_nginx: Vec<Trial> = trials.iter().filter_map(Trial::on_nginx).collect();
    trials.extend(on_nginx);
    // Last, as they are mostly waiting.
    trials.sort_by_key(|trial| trial.think_s > 0.0 && trial.part != trial::RANDOM);
    let parameters = [runs.to_string(), seed.to_string()];
    let mut parts = EvidenceParts::load(root.join(KEPT), &parameters);
    let origin = EvidenceOrigin::here(root);
    let mut good = true;
    println!("{}", page::line(&row::HEAD.map(str::to_owned)));
    for name in PARTS {
        let of_part = trials.iter().filter(|trial| part_of(trial) == name);
        let is_whole = name.contains(only);
        let chosen = of_part.filter(|trial| is_whole || trial.part.contains(only));
        let mut part = measure_all(&program, chosen, &stop)?;
        if is_whole && [THEORY, FLEET].contains(&name) {
            part.rows = match name {
                THEORY => theory::measure(&program, &stop)?,
                _ => fleet::measure(&program, &stop)?,
            };
            part.rows.iter().for_each(|row| println!("{}", page::line(&row.cells())));
        }
        good &= part.criteria(name).iter().all(|criterion| criterion.is_met);
        if is_whole {
            parts.set(name, &origin, part).context(KEPT)?;
        }
    }
    let missed = page::write(root, &parts, &parameters)?;
    missed.iter().for_each(|missed| println!("{missed}"));
    Ok(good && missed.is_empty())
}

fn part_of(trial: &Trial) -> &'static str {
    match trial.server {
        LimitedServer::Nginx => NGINX,
        LimitedServer::Fathom if trial.part == trial::RANDOM => trial::RANDOM,
        LimitedServer::Fathom => FIXED,
    }
}

fn measure_all<'t>(
    program: &Path,
    trials: impl Iterator<Item = &'t Trial>,
    stop: &AtomicBool,
) -> Result<LoadPart> {
    let mut part = LoadPart::default();
    for trial in trials {
        match measure(program, trial, stop) {
            Ok(row) => {
                println!("{}", page::line(&row.cells()));
                part.rows.push(row);
            }
            Err(why) if why.is::<Unmet>() => {
                let skipped = format!("{}: skipped: {why}", trial.limit.words());
                println!("{skipped}");
                part.skipped.push(skipped);
            }
            Err(why) => return Err(why.context(trial.limit.words())),
        }
    }
    Ok(part)
}

/// One load.
fn measure(program: &Path, trial: &Trial, stop: &AtomicBool) -> Result<LabRow> {
    let folder = tempfile::tempdir_in("/var/tmp").context("create a folder")?;
    let place = (program, folder.path(), "load");
    let limited = LabLimited::start_as(trial.server, place, trial.limit, trial.files)?;
    let rate = match trial.limit {
        ImposedLimit::ServerCpu(_) => by_wrk(&limited),
        ImposedLimit::Network(bits_s) => {
            let bytes = trial.files.bytes;
            Some(bits_s / 8.0 * limited.payload_share(bytes)? / bytes as f64)
        }
        limit => limit.throughput(trial.files.bytes),
    };
    let document = limited.measure(&trial.options, stop)?;
    Ok(LabRow::from_trial(trial, rate, &LimitedFound::from_document(&document)))
}

/// The throughput of another load generator with as many clients. `None` without wrk.
fn by_wrk(limited: &LabLimited) -> Option<f64> {
    let token = limited.token().unwrap_or_default();
    let authorization = format!("Authorization: Bearer {token}");
    let mut wrk = std::process::Command::new("wrk");
    wrk.args(["-t1", "-c32", "-d3s", "-H", &authorization, &format!("{}f0", limited.url())]);
    let output = limited.beside(&mut wrk).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
    rate?.trim().parse().ok()
}

impl LoadPart {
    /// What the answers must be.
    fn criteria(&self, part: &str) -> Vec<Criterion> {
        let count = |outcome| self.rows.iter().filter(|row| row.outcome == outcome).count();
        let of = self.rows.len();
        let (right, undetermined) = (count(LoadOutcome::Right), count(LoadOutcome::Undetermined));
        let one_of_all = match part {
            FIXED => Some("every fixed limit right"),
            THEORY => Some("every load as in theory"),
            FLEET => Some("every load of four members as expected of one"),
            _ => None,
        };
        if let Some(what) = one_of_all {
            return vec![Criterion::new(format!("{what}: {right} of {of}"), right == of)];
        }
        let wrong = of - right - undetermined;
        let what = if part == NGINX { "limit" } else { "random limit" };
        let max = (UNDETERMINED_MAX * of as f64) as usize;
        vec![
            Criterion::new(format!("no {what} wrong: {wrong} of {of}"), wrong == 0),
            Criterion::new(
                format!("at most {max} {what}s undetermined: {undetermined} of {of}"),
                undetermined <= max,
            ),
        ]
    }
}
