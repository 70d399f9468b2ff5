//! `fathom file calls`: what a call on a cached file costs, where nobody looks at the bytes.

use std::sync::atomic::{AtomicBool, Ordering};

use fathom_analysis::statistics;
use fathom_fileio::Source;
use fathom_fileio::loops::{Call, Loop};
use fathom_fileio::residency::{self, Residency};
use fathom_measure::Clock;
use fathom_record::{Cause, Disturbance, Params, State, Unit, Verdict};
use fathom_report::quantity;
use indicatif::ProgressBar;
use rustix::io::Errno;

use super::session::{Measured, Session, checked, refuse, shown};
use super::state;
use super::temporary::{Folder, Temporary};
use crate::arguments::file::{CallsArguments, StateName};
use crate::exit::Status;

/// Bytes of the temporary file: some times a second-level cache, and soon made.
const BYTES: u64 = 16 << 20;
/// Calls that give a value, and lie between two looks at who wants to stop.
const SLICE: u64 = 100_000;
/// A pass over blocks has no more calls, however large the file is.
const PASS_MAX: u64 = 100_000;
const BLOCK: u64 = 4096;

/// One pass.
#[derive(Clone, Debug, Default, PartialEq)]
struct Pass {
    made: u64,
    /// Those that did what they were to do.
    done: u64,
    ns: f64,
    /// What a call took in each slice.
    slices: Vec<f64>,
}

impl Pass {
    fn each(&self) -> f64 {
        self.ns / self.made as f64
    }
}

/// All passes of one call with one count.
struct Row {
    name: &'static str,
    call: Call,
    count: u64,
    passes: Vec<Pass>,
}

impl Row {
    fn median(&self) -> Option<f64> {
        median(&self.passes)
    }
}

fn median(passes: &[Pass]) -> Option<f64> {
    statistics::median(&passes.iter().map(Pass::each).collect::<Vec<_>>())
}

/// A pass that reads beside one that only seeks, in blocks of one size: their medians.
struct Pair {
    block: u64,
    calls: u64,
    read: f64,
    seek: f64,
}

pub(super) fn calls(arguments: &CallsArguments) -> anyhow::Result<Status> {
    let asked = match &arguments.file {
        Some(file) => format!("file calls {}", shown(file)),
        None => "file calls".to_owned(),
    };
    let largest = arguments.blocks.iter().map(|&block| block as u64).fold(BLOCK, u64::max);
    // What was named, or the folder for what was not: both are looked at before anything is kept.
    let given = match &arguments.file {
        Some(path) => Ok(large_enough(Source::open(path).map_err(refuse)?, largest)?),
        None => Err(Folder::on_device(arguments.folder.as_deref())?),
    };
    let mut session = Session::begin(&arguments.common, asked)?;
    session.recall(super::MODEL_INPUTS);
    let made = match given {
        Ok(source) => Some(source),
        Err(folder) => temporary(&folder, BYTES.max(largest), session.stop().now())?,
    };
    let Some(source) = made else { return Ok(Status::Interrupted) };
    let before = residency::warm(source.file(), session.stop().now())?;
    session.say_facts(&[("file", state::place(&source)), ("before", state::told(&before))]);
    let (timed, disturbance) = session.observed(|clock| {
        let rows = rows(arguments, &source, clock, session.stop().now())?;
        let pairs = pairs(arguments, &source, clock, session.stop().now())?;
        Ok((rows, pairs))
    });
    let (rows, pairs) = timed.map_err(|error: Errno| {
        anyhow::anyhow!("read {}: {error}", source.subject().path.display())
    })?;
    say(&mut session, &rows, &pairs);
    for (call, _) in Call::NAMED {
        let Some(measured) = measured(call, &source, &before, &rows, &pairs) else { continue };
        let measured = Measured { disturbance: disturbance.clone(), ..measured };
        let record = session.record(measured);
        session.say(&format!("\n{}\n", record.name()));
        session.say_standing(&record);
    }
    session.end()
}

/// The file, if it has a block of such a size.
fn large_enough(source: Source, block: u64) -> anyhow::Result<Source> {
    let bytes = source.subject().size.unwrap_or(0);
    if bytes >= block {
        return Ok(source);
    }
    let path = shown(&source.subject().path);
    Err(refuse(format!(
        "{path} has {bytes} bytes, and blocks of {block} are read of it: name a larger file, or \
         none for a temporary one"
    )))
}

/// A file in a folder; none where it was told to stop.
fn temporary(folder: &Folder, bytes: u64, stop: &AtomicBool) -> anyhow::Result<Option<Source>> {
    folder.check(bytes)?;
    let mut file = Temporary::new(folder)?;
    let is_made = file.resize(bytes, stop, &ProgressBar::hidden())?;
    Ok(is_made.then(|| file.into_source()))
}

/// All passes, each round over all counts and calls, so that a slow moment falls on all alike.
fn rows(
    arguments: &CallsArguments,
    source: &Source,
    clock: &Clock,
    stop: &AtomicBool,
) -> Result<Vec<Row>, Errno> {
    let row = |count, (name, call)| Row { name, call, count, passes: Vec::new() };
    let of_count = |&count| Call::NAMED.map(|call| row(count, call));
    let mut rows: Vec<Row> = arguments.calls.0.iter().flat_map(of_count).collect();
    for _ in 0..arguments.repeat {
        for row in &mut rows {
            let again = Loop::new(row.call, source.file())?;
            row.passes.extend(pass(clock, row.count, stop, again)?);
        }
    }
    Ok(rows)
}

/// Times calls; none where it was told to stop before the first.
fn pass(
    clock: &Clock,
    asked: u64,
    stop: &AtomicBool,
    mut again: Loop<'_>,
) -> Result<Option<Pass>, Errno> {
    let mut pass = Pass::default();
    while pass.made < asked && !stop.load(Ordering::Relaxed) {
        let slice = (asked - pass.made).min(SLICE);
        let begin = clock.start();
        pass.done += again.repeat(slice)?;
        let ns = clock.ns(begin, clock.stop());
        pass.made += slice;
        pass.ns += ns;
        pass.slices.push(ns / slice as f64);
    }
    Ok((pass.made > 0).then_some(pass))
}

/// For each block a pass that reads the file against one that only seeks in it.
fn pairs(
    arguments: &CallsArguments,
    source: &Source,
    clock: &Clock,
    stop: &AtomicBool,
) -> Result<Vec<Pair>, Errno> {
    let (file, end) = (source.file(), source.subject().size.unwrap_or(0));
    let mut pairs = Vec::new();
    for &block in &arguments.blocks {
        let calls = (end / block as u64).min(PASS_MAX);
        let (mut reads, mut seeks) = (Vec::new(), Vec::new());
        for _ in 0..arguments.repeat {
            reads.extend(pass(clock, calls, stop, Loop::new(Call::Read(block), file)?)?);
            seeks.extend(pass(clock, calls, stop, Loop::new(Call::Seek(block as u64), file)?)?);
        }
        if let Some((read, seek)) = median(&reads).zip(median(&seeks)) {
            pairs.push(Pair { block: block as u64, calls, read, seek });
        }
    }
    Ok(pairs)
}

/// What became of one call, by the passes with the most calls; none where none was made.
fn measured(
    call: &'static str,
    source: &Source,
    before: &Residency,
    rows: &[Row],
    pairs: &[Pair],
) -> Option<Measured> {
    let of_call: Vec<&Row> = rows.iter().filter(|row| row.name == call).collect();
    let most = of_call.iter().rfind(|row| !row.passes.is_empty())?;
    let passes = of_call.iter().flat_map(|row| &row.passes);
    let (made, done) = passes.fold((0, 0), |sum, pass| (sum.0 + pass.made, sum.1 + pass.done));
    let wrong = || {
        let text = format!("{} of {made} calls did not do what they were to do", made - done);
        Verdict::because(State::Invalid, Cause::WrongWork, text)
    };
    let each = |row: &&Row| Some(format!("{} calls: {}", row.count, rate(row.median()?)));
    let mut notes: Vec<String> = of_call.iter().filter_map(each).collect();
    if call == "lseek" {
        notes.extend(pairs.iter().map(|pair| {
            let (read, seek) = (time(pair.read), time(pair.seek));
            let ratio = pair.seek / pair.read;
            let (block, calls) = (pair.block, pair.calls);
            format!("{calls} blocks of {block} bytes: read {read}, lseek {seek}, ratio {ratio:.2}")
        }));
    }
    Some(Measured {
        metric: "file.call",
        params: Params::one("call", call),
        values: most.passes.iter().flat_map(|pass| pass.slices.iter().copied()).collect(),
        disturbance: Disturbance::default(),
        checks: checked(vec![
            ("file", state::place(source)),
            ("calls", format!("{done} of {made}")),
            ("calls in a pass", most.count.to_string()),
            ("in memory before", state::told(before)),
        ]),
        verdict: (done != made)
            .then(wrong)
            .or_else(|| state::not_as_asked(source, StateName::Warm, before)),
        doubts: state::doubts(source, StateName::Warm, before),
        notes,
        ..Measured::default()
    })
}

fn time(ns: f64) -> String {
    quantity(ns, Unit::Nanoseconds)
}

fn rate(ns: f64) -> String {
    format!("{:.0} calls/s, {} each", 1e9 / ns, time(ns))
}

fn say(session: &mut Session, rows: &[Row], pairs: &[Pair]) {
    let mut text = format!("\n{:<16}{:>12}{:>14}{:>14}\n", "call", "calls", "calls/s", "each");
    for (call, _) in Call::NAMED {
        for row in rows.iter().filter(|row| row.name == call) {
            let Some(ns) = row.median() else { continue };
            let (count, rate) = (row.count, format!("{:.0}", 1e9 / ns));
            text += &format!("{call:<16}{count:>12}{rate:>14}{:>14}\n", time(ns));
        }
    }
    let heads = ["block", "blocks", "read", "lseek", "lseek ÷ read"];
    let [block, blocks, read, seek, ratio] = heads;
    text += &format!("\n{block:<16}{blocks:>12}{read:>14}{seek:>14}{ratio:>16}\n");
    for pair in pairs {
        let (read, seek) = (time(pair.read), time(pair.seek));
        let ratio = format!("{:.3}", pair.seek / pair.read);
        let (block, calls) = (pair.block, pair.calls);
        text += &format!("{block:<16}{calls:>12}{read:>14}{seek:>14}{ratio:>16}\n");
    }
    session.say(&text);
}
