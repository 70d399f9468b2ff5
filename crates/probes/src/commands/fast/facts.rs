//! Facts shown with the result of `fathom file fast`: methods, trials and the share of the memory
//! bandwidth.

use std::collections::BTreeSet;

use fathom_fileio::XorSum;
use fathom_fileio::fast::{DataSource, FastPart};
use fathom_record::State;
use fathom_record::quantity::percent;

use super::ReadFast;
use super::file_list::FileList;
use super::pass::{FastPass, FileResult, parts};
use crate::commands::bandwidth;
use crate::commands::by_hand::{self, printable, size, sum_facts, threads};
use crate::file::model::way_name;
use crate::prelude::*;

/// Up to this many files are shown one per line.
const LINES: usize = 1000;

fn describe_part(part: &FastPart, shows_rates: bool) -> String {
    let from = match part.from {
        _ if part.method.way.is_direct() => "by direct I/O",
        DataSource::Memory => "from memory",
        DataSource::Device => "from the device",
        DataSource::Unknown => "from an unknown source",
    };
    let threads = threads(part.method.threads);
    let (bytes, block) = (size(part.bytes), size(part.method.block as u64));
    let way = way_name(part.method.way);
    let rate = match shows_rates {
        true => format!(": {}", quantity(part.rate(), Unit::BytesPerSecond)),
        false => String::new(),
    };
    format!("{bytes} {from}, {way}, {threads}, blocks of {block}{rate}")
}

fn describe_trial(part: &FastPart) -> String {
    let from = if part.from == DataSource::Device { "from the device" } else { "from memory" };
    let (way, rate) = (way_name(part.method.way), quantity(part.best, Unit::BytesPerSecond));
    let block = size(part.method.block as u64);
    format!("{way}, {block} blocks: {rate} on {} {from}", size(part.bytes))
}

/// The methods used, tried and unavailable.
fn methods(pass: &FastPass, shows_rates: bool) -> Vec<Fact> {
    let mut facts = Vec::new();
    let (tried, read): (Vec<FastPart>, Vec<FastPart>) =
        parts(pass).into_iter().partition(|part| part.is_trial);
    for (number, part) in read.iter().enumerate() {
        let name = if number == 0 { "by" } else { "" };
        facts.push(Fact::text(name, describe_part(part, shows_rates)));
    }
    if !tried.is_empty() && shows_rates {
        let trials: Vec<String> = tried.iter().map(describe_trial).collect();
        facts.push(Fact::text("trials", trials.join("; ")));
    }
    let mut unavailable: Vec<&String> =
        pass.results.iter().flat_map(|one| &one.fast.unavailable).collect();
    unavailable.sort_unstable();
    unavailable.dedup();
    facts.extend(unavailable.into_iter().map(|why| Fact::text("unavailable", why)));
    facts
}

/// Why these methods were used.
fn reason(read: &ReadFast, pass: &FastPass) -> Option<String> {
    if read.path.is_some() {
        return Some("set by --path".to_owned());
    }
    let (trials, rest): (Vec<FastPart>, Vec<FastPart>) =
        parts(pass).into_iter().partition(|part| part.is_trial);
    let mut reasons = Vec::new();
    if rest.iter().any(|part| part.from == DataSource::Memory) {
        reasons.push("cached parts from the page cache");
    }
    if rest.iter().any(|part| part.method.way.is_direct()) {
        reasons.push("uncached parts by direct I/O, which saves a copy");
    }
    if !trials.is_empty() {
        reasons.push("fastest method of the trials");
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// The rate as a share of the DRAM bandwidth of all cores.
fn share_of_ceiling(recorder: &dyn Recorder, read: &ReadFast, rate: f64) -> String {
    let (most, origin, mark) = match read.ceiling {
        Some(most) => (most as f64, "--ceiling".to_owned(), ""),
        None => {
            let best = bandwidth::all_cores(&Inputs::new(recorder.known()));
            let Some((name, most)) = best else {
                return "unknown: no stored memory.bandwidth, and no --ceiling".to_owned();
            };
            let is_noisy = |one: &Record| one.name() == name && one.verdict.state == State::Noisy;
            let mark = if recorder.known().iter().any(is_noisy) { "~" } else { "" };
            (most, name, mark)
        }
    };
    let of = quantity(most, Unit::BytesPerSecond);
    format!("{mark}{} of {mark}{of} ({origin})", percent(rate / most))
}

/// The facts of the last pass, and medians of all. `shows_rates`: the result is valid.
pub(super) fn facts(
    recorder: &dyn Recorder,
    read: &ReadFast,
    found: &FileList,
    passes: &[FastPass],
    shows_rates: bool,
) -> Vec<Fact> {
    let last = &passes[passes.len() - 1];
    let sum = last.sum();
    let mut facts = files(last, found);
    if passes.len() > 1 {
        facts.push(Fact::text("passes", format!("{}; methods of the last:", passes.len())));
    }
    let mib = sum.bytes as f64 / 1_048_576.0;
    facts.push(Fact::text("read", format!("{} bytes = {mib:.3} MiB", sum.bytes)));
    facts.extend(methods(last, shows_rates));
    let setup = last.setup_ns();
    if setup > 0.0 {
        let time = quantity(setup, Unit::Nanoseconds);
        facts.push(Fact::text("setup", format!("{time} (residency check, buffers, threads)")));
    }
    facts.extend(reason(read, last).map(|reason| Fact::text("reason", reason)));
    // The rate of the record is the median of the passes, too.
    let median_of = |value: &dyn Fn(&FastPass) -> f64| {
        let whole = passes.iter().filter(|pass| pass.sum().bytes > 0);
        statistics::median(&whole.map(value).collect::<Vec<f64>>())
    };
    facts
        .extend(median_of(&|pass| pass.ns).map(|ns| Fact::quantity("time", ns, Unit::Nanoseconds)));
    if let Some(rate) = median_of(&FastPass::rate).filter(|_| shows_rates) {
        facts.push(Fact::text("ceiling", share_of_ceiling(recorder, read, rate)));
    }
    let device = last.device_bytes;
    facts.extend(device.map(|bytes| Fact::quantity("from devices", bytes as f64, Unit::Bytes)));
    if last.results.len() == 1 && super::pass::change(passes).is_none() {
        facts.extend(sum_facts(sum));
    }
    facts.extend(
        last.faults().map(|fault| Fact::text("unreadable", by_hand::describe_fault(fault))),
    );
    if last.results.iter().any(|one| one.fast.stopped) {
        facts.push(Fact::text("stopped", format!("after {} bytes", sum.bytes)));
    }
    facts
}

/// The file, or a line per file as checksum programs print them; and the files not read.
fn files(pass: &FastPass, found: &FileList) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let [one] = pass.results.as_slice() {
        facts.push(Fact::text("file", printable(&found.files[one.number].0)));
        facts.push(Fact::text("before", &one.residency));
        let ended = one.fast.ended_at.map(|at| Fact::text("ended", format!("at byte {at}")));
        facts.extend(ended);
    } else {
        facts.extend(pass.results.iter().take(LINES).map(|one| line(one, found)));
        if pass.results.len() > LINES {
            let more = pass.results.len() - LINES;
            let text = format!("… and {more} more files");
            facts.push(Fact::line(text));
        }
    }
    if found.files.len() > 1 {
        facts.push(Fact::text("files", format!("{} read", pass.results.len())));
    }
    match found.missing.len() + pass.failed.len() {
        0 => {}
        count => facts.push(Fact::text("not read", format!("{count} files: see the warnings"))),
    }
    if found.skipped > 0 {
        let example = found.example.clone().unwrap_or_default();
        let text = format!("{}, such as: {example}", found.skipped);
        facts.push(Fact::text("skipped", text));
    }
    facts.extend(without_end(pass, found));
    facts
}

/// The files without an end: the first of each name, as each process has a `pagemap`.
fn without_end(pass: &FastPass, found: &FileList) -> Vec<Fact> {
    let mut shown = BTreeSet::new();
    let mut facts = Vec::new();
    for (number, why) in &pass.skipped {
        if shown.insert(found.files[*number].0.file_name()) {
            facts.push(Fact::text("skipped", why));
        }
    }
    if pass.skipped.len() > facts.len() {
        let more = pass.skipped.len() - facts.len();
        facts.push(Fact::text("skipped", format!("{more} more with these names")));
    }
    facts
}

/// Sums, bytes, cache state and path of a file.
fn line(one: &FileResult, found: &FileList) -> Fact {
    let path = printable(&found.files[one.number].0);
    let XorSum { xor, position, bytes } = one.fast.sum;
    let state = one.state.to_uppercase();
    match one.fast.changed {
        Some(change) => Fact::line(format!("{:25} {bytes:>14} CHANGED {path}: {change}", "-")),
        None => Fact::line(format!("{xor:08x} {position:016x} {bytes:>14} {state:<7} {path}")),
    }
}
