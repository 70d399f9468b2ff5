//! What stands beside the number of `fathom file fast`: the ways in which the files were read, why,
//! and how near that came to what memory gives.

use fathom_fileio::Sum;
use fathom_fileio::fast::{From, Part};
use fathom_fileio::read::Way;
use fathom_metric::{Inputs, Recorder};
use fathom_record::quantity::{percent, quantity};
use fathom_record::{Fact, Unit};

use super::found::Found;
use super::pass::{One, Pass, parts};
use crate::file::bandwidth;
use crate::file::by_hand::{self, name_of, shown, size, sum_facts, threads};

/// So many files have a line each.
const LINES: usize = 1000;

/// What was asked for, as far as it is a reason for what was done.
pub(super) struct Why {
    /// `--path` fixes the way.
    pub(super) is_fixed: bool,
    /// Whether rates may be shown at all.
    pub(super) is_shown: bool,
    /// What all cores read of memory in a second, where that was given.
    pub(super) ceiling: Option<u64>,
}

/// A part in words, with its rate where that may be shown.
fn part_words(part: &Part, is_shown: bool) -> String {
    let is_past = matches!(part.choice.way, Way::Direct | Way::Ring { .. });
    let from = match part.from {
        _ if is_past => "past the page cache",
        From::Memory => "from memory",
        From::Device => "from the device",
        From::Unknown => "from where cannot be told",
    };
    let threads = threads(part.choice.threads);
    let (bytes, block) = (size(part.bytes), size(part.choice.block as u64));
    let trial = if part.is_trial { " (tried)" } else { "" };
    let way = name_of(part.choice.way);
    let rate = match is_shown {
        true => format!(": {}{trial}", quantity(part.rate(), Unit::BytesPerSecond)),
        false => trial.to_owned(),
    };
    format!("{bytes} {from} by {way}, {threads}, blocks of {block}{rate}")
}

fn trial_words(part: &Part) -> String {
    let from = if part.from == From::Device { "from the device" } else { "from memory" };
    let (way, rate) = (name_of(part.choice.way), quantity(part.rate(), Unit::BytesPerSecond));
    format!("{way} {rate} on {} {from}", size(part.bytes))
}

/// The ways in which it was read, those that were tried, and those that were refused.
fn ways(pass: &Pass, is_shown: bool) -> Vec<Fact> {
    let mut facts = Vec::new();
    let (tried, read): (Vec<Part>, Vec<Part>) =
        parts(pass).into_iter().partition(|part| part.is_trial);
    for (number, part) in read.iter().enumerate() {
        let name = if number == 0 { "by" } else { "" };
        facts.push(Fact::text(name, part_words(part, is_shown)));
    }
    if !tried.is_empty() && is_shown {
        let words: Vec<String> = tried.iter().map(trial_words).collect();
        facts.push(Fact::text("tried", words.join("; ")));
    }
    let mut refused: Vec<&String> = pass.ones.iter().flat_map(|one| &one.fast.refused).collect();
    refused.sort_unstable();
    refused.dedup();
    facts.extend(refused.into_iter().map(|why| Fact::text("not", why)));
    facts
}

/// Why it was read in these ways.
fn reason(why: &Why, pass: &Pass) -> Option<String> {
    if why.is_fixed {
        return Some("the way was chosen on the command line".to_owned());
    }
    let parts = parts(pass);
    let is_of = |from: From| parts.iter().any(|part| part.from == from && !part.is_trial);
    let is_past = parts
        .iter()
        .any(|part| !part.is_trial && matches!(part.choice.way, Way::Direct | Way::Ring { .. }));
    let tried = parts.iter().any(|part| part.is_trial);
    let mut words = Vec::new();
    if is_of(From::Memory) {
        words.push("what is in memory is quickest from there");
    }
    if is_past {
        words.push("what is not is read past the page cache, which spares a copy");
    }
    if tried {
        words.push("of the ways tried on the file itself the quickest read the rest");
    }
    (!words.is_empty()).then(|| words.join("; "))
}

/// How near it came to what all cores read of memory.
fn share_of_ceiling(recorder: &dyn Recorder, why: &Why, pass: &Pass) -> String {
    let (most, origin) = match why.ceiling {
        Some(most) => (most as f64, "as given".to_owned()),
        None => {
            let best = bandwidth::all_cores(&Inputs::new(recorder.known()));
            let Some((name, most)) = best else {
                let text = "unknown: no result of memory.bandwidth is kept, and no ceiling given";
                return text.to_owned();
            };
            (most, name)
        }
    };
    let of = quantity(most, Unit::BytesPerSecond);
    format!("{} of {of} ({origin})", percent(pass.rate() / most))
}

/// What was read, how, and why so: of the last pass.
pub(super) fn facts(
    recorder: &dyn Recorder,
    why: &Why,
    found: &Found,
    passes: &[Pass],
) -> Vec<Fact> {
    let last = &passes[passes.len() - 1];
    let sum = last.sum();
    let mut facts = which(last, found);
    if passes.len() > 1 {
        let text = format!("{}; what follows is of the last", passes.len());
        facts.push(Fact::text("passes", text));
    }
    let mib = sum.bytes as f64 / 1_048_576.0;
    facts.push(Fact::text("read", format!("{} bytes = {mib:.3} MiB", sum.bytes)));
    facts.extend(ways(last, why.is_shown));
    let elsewhere = last.ns - parts(last).iter().map(|part| part.ns).sum::<f64>();
    if last.ones.len() == 1 && elsewhere > 0.0 {
        let took = quantity(elsewhere, Unit::Nanoseconds);
        let text = format!("{took} for the look at what is in memory, buffers and threads");
        facts.push(Fact::text("beside", text));
    }
    facts.extend(reason(why, last).map(|reason| Fact::text("because", reason)));
    facts.push(Fact::quantity("time", last.ns, Unit::Nanoseconds));
    if sum.bytes > 0 && why.is_shown {
        facts.push(Fact::text("ceiling", share_of_ceiling(recorder, why, last)));
    }
    let device = last.device_bytes;
    facts.extend(device.map(|bytes| Fact::quantity("from devices", bytes as f64, Unit::Bytes)));
    if last.ones.len() == 1 {
        facts.extend(sum_facts(sum));
    }
    facts.extend(last.faults().map(|fault| Fact::text("unreadable", by_hand::fault_words(fault))));
    if last.ones.iter().any(|one| one.fast.stopped) {
        facts.push(Fact::text("stopped", format!("after {} bytes", sum.bytes)));
    }
    facts
}

/// The file that was read, or a line for each, as checking programs write them; and those that were
/// not.
fn which(pass: &Pass, found: &Found) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let [one] = pass.ones.as_slice() {
        facts.push(Fact::text("file", shown(&found.files[one.number].0)));
        facts.push(Fact::text("before", &one.proof));
        let ended = one.fast.ended_at.map(|at| Fact::text("ended", format!("at byte {at}")));
        facts.extend(ended);
    } else {
        facts.extend(pass.ones.iter().take(LINES).map(|one| line(one, found)));
        if pass.ones.len() > LINES {
            let more = pass.ones.len() - LINES;
            let text = format!("… and {more} more files: the JSON has the sum of all");
            facts.push(Fact::line(text));
        }
    }
    if found.files.len() > 1 {
        facts.push(Fact::text("files", format!("{} read", pass.ones.len())));
    }
    match found.missing.len() + pass.failed.len() {
        0 => {}
        count => facts.push(Fact::text("not read", format!("{count} files, as said above"))),
    }
    if found.left_out > 0 {
        let example = found.example.clone().unwrap_or_default();
        let text = format!("{}, such as: {example}", found.left_out);
        facts.push(Fact::text("left out", text));
    }
    facts
}

/// The sums of a file, what of it was in memory, and its name last.
fn line(one: &One, found: &Found) -> Fact {
    let path = shown(&found.files[one.number].0);
    let Sum { xor, position, bytes } = one.fast.sum;
    let state = one.state.to_uppercase();
    Fact::line(format!("{xor:08x} {position:016x} {bytes:>14} {state:<7} {path}"))
}
