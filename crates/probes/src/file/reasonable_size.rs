//! file.reasonable_size: the size of a file whose reading takes a time that one can wait for.
//! `fathom file size` finds it.

mod search;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};
use fathom_metric::notation::{between, bytes};
use fathom_metric::{
    About, ByHand, Ending, Event, Inputs, Measured, Parameter, Procedure, ProcedureError, Recorder,
};
use fathom_record::quantity::quantity;
use fathom_record::{Better, Cause, Fact, Host, NoModel, Params, Prediction, State, Unit, Verdict};
use rustix::fs::lstat;

pub(super) use self::search::Found;
use self::search::{Try, search};
use super::by_hand::{checked, shown, size};
use super::conditions;
use super::options::{StateName, TemporaryOptions, block};
use super::passes::{Manner, Series};
use super::temporary::{Folder, Limit, Temporary, announce, memory};

/// file.reasonable_size.
pub struct ReasonableSize;

/// What a read of a byte of a cached file costs.
const CALL: &str = "file.call";
/// What memory gives.
const BANDWIDTH: &str = "memory.bandwidth";
/// What reading with a block gives.
const THROUGHPUT: &str = "file.read.throughput";
/// A size foretold lies within this share of what its time allows.
const TOLERANCE: f64 = 0.30;

static ABOUT: About = About {
    id: "file.reasonable_size",
    title: "reasonable file size",
    unit: Unit::Bytes,
    better: Better::Neither,
    timed: "reading all of a file with a block, for sizes that are doubled while this takes less \
            time than the window and halved while it takes more: the first size within it",
    not_timed: "making the file, and bringing it into its state",
    model: "time ÷ (file.call{call=read1} ÷ block + 1 ÷ memory.bandwidth) for the times of the \
            window, warm; else time × file.read.throughput with this block as last measured",
    source: "the size follows from the time by the speed; how well it was foretold tells how well \
             the speed is known",
    pitfalls: &[
        "a size that is reasonable for one block is not for another: a call costs some 100 ns \
         whatever it carries",
        "warm, a file that does not fit into memory is never found: no size fits is an answer",
        "the first size within the window ends the search: of the sizes within it is one, and \
         neither the smallest nor the best",
    ],
    parameters: &[
        Parameter { name: "block", values: "bytes", meaning: "of one call" },
        Parameter {
            name: "state",
            values: "warm, cold, direct",
            meaning: "what of the file was in memory",
        },
        Parameter { name: "from_ms", values: "ms", meaning: "the shortest time of the window" },
        Parameter { name: "to_ms", values: "ms", meaning: "the longest" },
    ],
    needs: &[BANDWIDTH, THROUGHPUT],
    requires: "as much space, and warm as much memory, as the size found; at most half of either",
    ..super::BASE
};

impl ByHand for ReasonableSize {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn predict(
        &self,
        params: &Params,
        _: &Host,
        known: &Inputs<'_>,
    ) -> Result<Prediction, NoModel> {
        let integer = |name| params.integer(name).filter(|value| *value > 0);
        let values = integer("block").zip(integer("from_ms")).zip(integer("to_ms"));
        let Some(((block, from_ms), to_ms)) = values else {
            return Err(NoModel::no_such_case(params));
        };
        let [from, to] = [from_ms, to_ms].map(|ms| ms as f64 / 1e3);
        let state = params.text("state").unwrap_or_default();
        let speed = match state {
            "warm" => by_calls(block as f64, known).or_else(|| as_measured(block, state, known)),
            _ => as_measured(block, state, known),
        };
        let Some(Speed { rate, formula, inputs }) = speed else {
            let metric = format!("{THROUGHPUT}{{block={block},state={state}}}");
            return Err(NoModel::NoKeptResult { metric });
        };
        let formula = format!("√({from} s × {to} s) × {formula}");
        let mut prediction =
            Prediction::sum(rate * (from * to).sqrt(), 0.0, TOLERANCE, &formula, ABOUT.source);
        // Any size whose time lies within the window may be the one that is found.
        prediction.low = Some((1.0 - TOLERANCE) * rate * from);
        prediction.high = Some((1.0 + TOLERANCE) * rate * to);
        for (name, value, unit) in inputs {
            prediction = prediction.with_result(&name, value, unit);
        }
        Ok(prediction.otherwise("reading was not as fast as it was foretold"))
    }
}

/// How fast a file is thought to be read.
struct Speed {
    rate: f64,
    formula: String,
    inputs: Vec<(String, f64, Unit)>,
}

/// From the cost of a call and that of a byte.
fn by_calls(block: f64, known: &Inputs<'_>) -> Option<Speed> {
    let call = known.quantity(CALL, &Params::one("call", "read1"))?;
    let dram = Params::one("op", "read").and("threads", 1).and("level", "dram").and("page", "huge");
    let bandwidth = known.quantity(BANDWIDTH, &dram)?;
    Some(Speed {
        rate: 1e9 / (call / block + 1e9 / bandwidth),
        formula: format!("1 ÷ ({CALL}{{call=read1}} ÷ block + 1 ÷ {BANDWIDTH})"),
        inputs: vec![
            (format!("{CALL}{{call=read1}}"), call, Unit::Nanoseconds),
            (BANDWIDTH.to_owned(), bandwidth, Unit::BytesPerSecond),
        ],
    })
}

/// As it was last measured by one thread.
fn as_measured(block: i64, state: &str, known: &Inputs<'_>) -> Option<Speed> {
    let is_alike = |params: &Params| {
        params.integer("block") == Some(block)
            && params.text("state") == Some(state)
            && params.integer("threads") == Some(1)
    };
    let newest = known.cases_of(THROUGHPUT).filter(|(params, _)| is_alike(params)).last();
    let (params, summary) = newest?;
    let name = format!("{THROUGHPUT}{params}");
    Some(Speed {
        rate: summary.median,
        formula: THROUGHPUT.to_owned(),
        inputs: vec![(name, summary.median, Unit::BytesPerSecond)],
    })
}

/// What the first size is foretold from.
const INPUTS: &[&str] = &["file.call", "memory.bandwidth"];
/// The first size where nothing foretells one.
const FIRST: u64 = 100 << 20;
/// The file that is read to foretell it.
const CALIBRATION: u64 = 16 << 20;
const CALIBRATION_TIME: Duration = Duration::from_millis(200);
/// Getting the largest buffer takes less.
const BUFFERS: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  fathom file size --block 1                          some tens of MiB, read byte by byte
  fathom file size --block 64 --between 1s..3s
  fathom file size --block 4K --state cold --max 20GiB --folder /data
  fathom file size --block 16 --keep reasonable.bin   the file found stays in the folder

The first size is foretold from earlier results, or from a short read with this block; it is doubled
while it is read in less time, and halved while in more. That no size fits is an answer too, with
its reason and exit status 3.";

/// Find the size of a file whose reading takes a reasonable time.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct FindSize {
    /// Bytes of a block.
    #[arg(long, short, value_name = "SIZE", value_parser = block)]
    block: usize,
    /// From memory, from the device, or past the page cache.
    #[arg(long, value_enum, default_value_t = StateName::Warm)]
    state: StateName,
    /// What to look for.
    #[command(flatten)]
    sought: SoughtOptions,
    /// Keep the file that is found under this name, in the folder.
    #[arg(long, value_name = "NAME")]
    keep: Option<PathBuf>,
    /// Where the file lies.
    #[command(flatten)]
    temporary: TemporaryOptions,
}

/// Which size is sought.
#[derive(Clone, Debug, Args)]
pub struct SoughtOptions {
    /// The time that reading it is to take; the second at least twice the first.
    #[arg(long, value_name = "TIME..TIME", default_value = "5s..15s", value_parser = between)]
    pub(super) between: (Duration, Duration),
    /// No file larger than this [default: half of the free space and, warm, of the memory].
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(super) max: Option<u64>,
}

impl Procedure for FindSize {
    fn asked(&self) -> String {
        format!("--block {}", self.block)
    }

    fn prior_metrics(&self) -> &'static [&'static str] {
        INPUTS
    }

    fn check(&self) -> Result<(), ProcedureError> {
        let folder = Folder::choose(self.temporary.folder.as_deref())?;
        if let Some(name) = &self.keep {
            if name.components().count() != 1 || name.file_name().is_none() {
                let name = shown(name);
                return Err(ProcedureError::usage(format!(
                    "--keep {name}: give a name without a folder, and --folder"
                )));
            }
            if lstat(folder.join(name)).is_ok() {
                let path = shown(&folder.join(name));
                return Err(ProcedureError::failed(format!(
                    "{path} exists; give another name to --keep"
                )));
            }
        }
        Sought::new(&Host::default(), &folder, self.block, self.state, &self.sought).map(|_| ())
    }

    fn run(&self, recorder: &mut dyn Recorder) -> Result<Ending, ProcedureError> {
        let folder = Folder::choose(self.temporary.folder.as_deref())?;
        let host = recorder.host();
        let sought = Sought::new(host, &folder, self.block, self.state, &self.sought)?;
        if !sought.announce(recorder, &folder, self.temporary.yes) {
            return Ok(Ending::Stopped);
        }
        let (found, file) = find(recorder, &folder, &sought)?;
        let Found::Fits(_) = found else { return Ok(Ending::NotFound) };
        if let Some(name) = &self.keep {
            file.keep(&folder.join(name))?;
        }
        Ok(Ending::Done)
    }
}

/// What is sought, and the most that may be tried.
pub(super) struct Sought {
    block: usize,
    state: StateName,
    window: (f64, f64),
    most: Limit,
}

impl Sought {
    /// What is sought in this folder.
    ///
    /// # Errors
    /// Where not even a block fits.
    pub(super) fn new(
        host: &Host,
        folder: &Folder,
        block: usize,
        state: StateName,
        sought: &SoughtOptions,
    ) -> Result<Self, ProcedureError> {
        if state == StateName::AsIs {
            return Err(ProcedureError::usage(
                "--state as-is of a new file: give warm, cold or direct",
            ));
        }
        if sought.between.0 < Duration::from_millis(1) {
            return Err(ProcedureError::usage(
                "--between: a time below 1ms is none to wait for; give 1ms or more",
            ));
        }
        if let Some(max) = sought.max.filter(|max| *max < block as u64) {
            let (block, max) = (size(block as u64), size(max));
            return Err(ProcedureError::usage(format!(
                "--max {max}: less than one block of {block}; give more"
            )));
        }
        let asked = sought.max.map(|bytes| Limit { bytes, of: "what --max allows".to_owned() });
        let memory = memory(host).filter(|_| state == StateName::Warm);
        let limits = [Some(folder.room()?), memory, asked].into_iter().flatten();
        let most = limits.min_by_key(|limit| limit.bytes).expect("the folder's is one");
        if most.bytes < block as u64 {
            let (block, bytes) = (size(block as u64), size(most.bytes));
            return Err(ProcedureError::failed(format!(
                "a block of {block} is more than {}, {bytes}",
                most.of
            )));
        }
        let window = (sought.between.0.as_secs_f64(), sought.between.1.as_secs_f64());
        Ok(Self { block, state, window, most })
    }

    pub(super) fn announce(&self, recorder: &mut dyn Recorder, folder: &Folder, yes: bool) -> bool {
        let (from, to) = self.window;
        let what = format!("and reads it until that takes {} to {}", time(from), time(to));
        announce(recorder, folder, self.most.bytes, &what, yes)
    }

    fn params(&self) -> Params {
        let ms = |seconds: f64| (seconds * 1e3).round() as i64;
        Params::one("block", self.block as i64)
            .and("state", self.word())
            .and("from_ms", ms(self.window.0))
            .and("to_ms", ms(self.window.1))
    }

    fn word(&self) -> &'static str {
        match self.state {
            StateName::Cold => "cold",
            StateName::Direct => "direct",
            StateName::Warm | StateName::AsIs => "warm",
        }
    }

    /// Longer than it may take, by what getting buffers may cost: then it has taken too long,
    /// beyond doubt.
    fn limit(&self) -> Duration {
        Duration::from_secs_f64(self.window.1) + BUFFERS
    }

    /// Blocks of a size, at least one.
    fn blocks(&self, bytes: f64) -> u64 {
        (bytes.min(u64::MAX as f64) as u64 / self.block as u64).max(1)
    }
}

/// Finds the size, records it, and gives the file, which then has it.
///
/// # Errors
/// Where a file cannot be written or read.
pub(super) fn find(
    recorder: &mut dyn Recorder,
    folder: &Folder,
    sought: &Sought,
) -> Result<(Found, Temporary), ProcedureError> {
    let mut file = Temporary::new(folder)?;
    if recorder.predicted(ABOUT.id, &sought.params()).is_err() {
        calibrate(recorder, &mut file, sought)?;
    }
    let foretold = recorder.predicted(ABOUT.id, &sought.params());
    let first_words = foretold_words(&foretold);
    recorder.event(Event::Progress { done: 0, all: 1, what: &format!("foretold {first_words}") });
    let first = foretold.ok().and_then(|prediction| prediction.value).unwrap_or(FIRST as f64);
    let block = sought.block as u64;
    let mut last: Option<Series> = None;
    let mut tries = Vec::new();
    let most = sought.most.bytes / block;
    let found = search(sought.blocks(first), 1..=most, sought.window, |blocks| {
        let series = attempt(recorder, &mut file, sought, blocks * block)?;
        let Some(pass) = series.as_ref().and_then(Series::middle) else { return Ok(None) };
        let (bytes, all) = (pass.bytes(), blocks * block);
        // What its limit ended had taken too long, however little it had read by then.
        let least = if pass.outcome.stopped { sought.limit().as_secs_f64() } else { 0.0 };
        let seconds = pass.seconds().max(least);
        let rate = quantity(pass.rate(), Unit::BytesPerSecond);
        let over = match bytes < all {
            true => format!(", of which {} were read", size(bytes)),
            false => String::new(),
        };
        let text = format!("{}{over}: {}, {rate}", size(all), time(seconds));
        recorder.event(Event::Progress { done: 0, all: 1, what: &format!("tried {text}") });
        tries.push(text);
        last = series;
        Ok::<_, ProcedureError>(Some(seconds))
    })?;
    if let (Found::Stopped, None) = (found, &last) {
        return Ok((found, file));
    }
    let foretold = Fact::text("foretold", first_words);
    let facts = std::iter::once(foretold).chain(facts(sought, found, &tries)).collect();
    let measured = measured(sought, found, &tries, last.as_ref(), &file);
    recorder.record(Measured { facts, ..measured });
    recorder.show();
    Ok((found, file))
}

fn foretold_words(foretold: &Result<Prediction, NoModel>) -> String {
    let bytes = |bytes| quantity(bytes, Unit::Bytes);
    match foretold {
        Ok(prediction) => {
            let value = prediction.value.unwrap_or_default();
            let within =
                [prediction.low, prediction.high].map(|end| end.map_or_else(String::new, bytes));
            let within = within.join(" to ");
            format!("{} ({within}) = {}", bytes(value), prediction.formula)
        }
        Err(NoModel::NoKeptResult { metric }) => {
            format!("nothing (no result of {metric} is kept): {} is tried first", size(FIRST))
        }
        Err(_) => format!("nothing: {} is tried first", size(FIRST)),
    }
}

/// Reads a small file with the block for a moment, and keeps that as a result: from it the first
/// size is foretold.
fn calibrate(
    recorder: &mut dyn Recorder,
    file: &mut Temporary,
    sought: &Sought,
) -> Result<(), ProcedureError> {
    let bytes = CALIBRATION.max(sought.block as u64).min(sought.most.bytes);
    if !file.resize(bytes, recorder)? {
        return Ok(());
    }
    let mut series = Series::new(Manner::whole(sought.block, sought.state));
    if series.pass(recorder, file.source(), Some(CALIBRATION_TIME))? {
        series.record(recorder, file.source(), &Params::none(), Vec::new());
    }
    Ok(())
}

/// One size: made, and read for no longer than it may take. None where a person stopped it.
fn attempt(
    recorder: &mut dyn Recorder,
    file: &mut Temporary,
    sought: &Sought,
    bytes: u64,
) -> Result<Option<Series>, ProcedureError> {
    if !file.resize(bytes, recorder)? {
        return Ok(None);
    }
    let mut series = Series::new(Manner::whole(sought.block, sought.state));
    let is_read = series.pass(recorder, file.source(), Some(sought.limit()))?;
    Ok(is_read.then_some(series))
}

fn measured(
    sought: &Sought,
    found: Found,
    tries: &[String],
    last: Option<&Series>,
    file: &Temporary,
) -> Measured {
    let mut facts: Vec<(&str, String)> = vec![("tried", tries.join("; "))];
    if let Some(pass) = last.and_then(|series| series.passes.last()) {
        facts.push(("in memory before", conditions::proof(&pass.before)));
        facts.push(("XOR-32", format!("{:08x}", pass.outcome.sum.xor)));
    }
    let spoilt = last.and_then(|series| series.spoilt(file.source()));
    let verdict = match found {
        Found::Fits(_) => spoilt,
        _ => Some(no_size(sought, found)),
    };
    let value = match found {
        Found::Fits(fits) => Some((fits.size * sought.block as u64) as f64),
        _ => None,
    };
    Measured {
        metric: ABOUT.id,
        params: sought.params(),
        values: value.into_iter().collect(),
        checks: checked(facts),
        verdict,
        ..Measured::default()
    }
}

/// That no size fits, with the figures.
fn no_size(sought: &Sought, found: Found) -> Verdict {
    let (from, to) = sought.window;
    let bytes = |blocks: u64| blocks * sought.block as u64;
    let text = match found {
        Found::TooQuick(Try { size: blocks, seconds }) => {
            let rate = bytes(blocks) as f64 / seconds;
            format!(
                "no size fits: {}, {}, is read in {}; at {}, {} would need {}",
                size(bytes(blocks)),
                sought.most.of,
                time(seconds),
                quantity(rate, Unit::BytesPerSecond),
                time(from),
                size((rate * from) as u64)
            )
        }
        Found::TooSlow(Try { seconds, .. }) => format!(
            "no size fits: even one block of {} takes {}, more than {}",
            size(sought.block as u64),
            time(seconds),
            time(to)
        ),
        Found::Leaps { below, above } => format!(
            "no size fits: {} is read in {}, and {} in {} at least",
            size(bytes(below.size)),
            time(below.seconds),
            size(bytes(above.size)),
            time(above.seconds)
        ),
        Found::Stopped | Found::Fits(_) => {
            let text = "stopped before its end";
            return Verdict::because(State::Unavailable, Cause::Interrupted, text);
        }
    };
    Verdict::because(State::Unavailable, Cause::Missing, text)
}

/// A time in the unit that suits it.
fn time(seconds: f64) -> String {
    quantity(1e9 * seconds, Unit::Nanoseconds)
}

/// What was tried, and what was found.
fn facts(sought: &Sought, found: Found, tries: &[String]) -> Vec<Fact> {
    let mut facts: Vec<Fact> = tries.iter().map(|text| Fact::text("tried", text)).collect();
    if let Found::Fits(fits) = found {
        let bytes = fits.size * sought.block as u64;
        let text = format!("{} = {bytes} bytes: {}", size(bytes), time(fits.seconds));
        facts.push(Fact::text("found", text));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    fn asked(state: &str) -> Params {
        let times = Params::one("from_ms", 5_000).and("to_ms", 20_000);
        times.and("block", 100).and("state", state)
    }

    fn predicted(params: &Params, records: &[fathom_record::Record]) -> Result<f64, NoModel> {
        let known = Inputs::new(records);
        let prediction = ReasonableSize.predict(params, &Host::default(), &known)?;
        Ok(prediction.value.expect("a value"))
    }

    #[test]
    fn a_size_follows_from_what_a_call_and_a_byte_cost() {
        let call = Params::one("call", "read1");
        let dram = Params::one("op", "read").and("threads", 1);
        let dram = dram.and("level", "dram").and("page", "huge");
        let records =
            [smoke::record(CALL, &call, 90.0, 0.1), smoke::record(BANDWIDTH, &dram, 1e10, 1e6)];
        // 100 bytes take 90 ns and 10 ns: 1 GB/s, for 10 s.
        let size = predicted(&asked("warm"), &records).expect("a model");
        assert!((size / 1e10 - 1.0).abs() < 1e-9, "{size}");
        assert!(predicted(&asked("cold"), &records).is_err(), "a device is no memory");
    }

    #[test]
    fn else_it_follows_from_the_newest_speed_of_this_block_and_state() {
        let case = |block: i64, state: &str, file: i64| {
            let of = Params::one("block", block).and("state", state);
            of.and("threads", 1).and("way", "read").and("file_bytes", file)
        };
        let record = |params: &Params, rate| smoke::record(THROUGHPUT, params, rate, 1.0);
        let records = [
            record(&case(100, "cold", 1), 1e6),
            record(&case(100, "cold", 2), 3e6),
            record(&case(100, "warm", 3), 5e6),
            record(&case(200, "cold", 4), 7e6),
        ];
        assert_eq!(predicted(&asked("cold"), &records), Ok(3e7));
        assert_eq!(predicted(&asked("warm"), &records), Ok(5e7));
        let none = predicted(&asked("direct"), &records).expect_err("nothing is known of it");
        let metric = "file.read.throughput{block=100,state=direct}".to_owned();
        assert_eq!(none, NoModel::NoKeptResult { metric });
    }
}
