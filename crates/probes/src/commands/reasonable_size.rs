//! file.reasonable_size: the file size whose read time is within a window. Found by
//! `fathom file size`.

mod search;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};
use fathom_metric::notation::{between, bytes};
use fathom_record::State;
use rustix::fs::lstat;

pub(super) use self::search::SearchEnd;
use self::search::{TimedSize, search_size};
use super::by_hand::{ByHandResult, checked, printable, size, sum_facts};
use super::cache_state;
use super::options::{StateName, TemporaryOptions, block};
use super::passes::{PassSeries, ReadConfig};
use super::temporary::{Temporary, TemporaryFolder, TemporaryLimit, announce, memory};
use crate::file::BASE;
use crate::prelude::*;

pub const REASONABLE_SIZE: ByHand = ByHand(ABOUT, predict);

const CALL: &str = "file.call";
const BANDWIDTH: &str = "memory.bandwidth";
const THROUGHPUT: &str = "file.read.throughput";
const TOLERANCE: f64 = 0.30;

const ABOUT: About = About {
    id: "file.reasonable_size",
    title: "reasonable file size",
    unit: Unit::Bytes,
    better: Better::Neither,
    timed: "reading a whole file; its size is doubled while this takes less time than the window, \
            and halved while it takes more; the result is the first size within the window",
    not_timed: "creating the file, evicting or warming it",
    model: "time ÷ (file.call{call=read1} ÷ block + 1 ÷ memory.bandwidth) for the times of the \
            window, warm; else time × file.read.throughput with this block as last measured",
    source: "size = time × rate",
    pitfalls: &[
        "the result holds for one block size only: a call costs about 100 ns plus its bytes",
        "warm, a file larger than the memory is never found: the result is then that no size fits",
        "the result is any size within the window, not the smallest",
    ],
    parameters: &[
        Parameter::new("block", "bytes", "bytes per call"),
        Parameter::new("state", "warm, cold, direct", "cache state of the file"),
        Parameter::new("from_ms", "ms", "shortest time of the window"),
        Parameter::new("to_ms", "ms", "longest time of the window"),
    ],
    needs: &[BANDWIDTH, THROUGHPUT],
    requires: "disk space, and if warm memory, for the size found; at most half of either is used",
    ..BASE
};

fn predict(params: &Params, _: &Host, known: &Inputs<'_>) -> Model {
    let integer = |name| params.integer(name).filter(|value| *value > 0);
    let values = integer("block").zip(integer("from_ms")).zip(integer("to_ms"));
    let Some(((block, from_ms), to_ms)) = values else {
        return Err(NoModel::no_such_case(params));
    };
    let [from, to] = [from_ms, to_ms].map(|ms| ms as f64 / 1e3);
    let state = params.text("state").unwrap_or_default();
    let read_rate = match state {
        "warm" => from_calls(block as f64, known).or_else(|| last_rate(block, state, known)),
        _ => last_rate(block, state, known),
    };
    let Some(ReadRate { rate, formula, inputs }) = read_rate else {
        let metric = format!("{THROUGHPUT}{{block={block},state={state}}}");
        return Err(NoModel::NoKeptResult { metric });
    };
    let formula = format!("√({from} s × {to} s) × {formula}");
    let mut prediction =
        Prediction::sum(rate * (from * to).sqrt(), 0.0, TOLERANCE, &formula, ABOUT.source);
    // Any size whose time is within the window may be found.
    prediction.low = Some((1.0 - TOLERANCE) * rate * from);
    prediction.high = Some((1.0 + TOLERANCE) * rate * to);
    // A size that takes a given time is a rate.
    prediction.self_consistency = inputs.iter().any(|(name, ..)| name.starts_with(THROUGHPUT));
    for (name, value, unit) in inputs {
        prediction = prediction.with_result(&name, value, unit);
    }
    Ok(prediction.otherwise("the read rate was not as predicted"))
}

/// The expected read rate.
struct ReadRate {
    rate: f64,
    formula: String,
    inputs: Vec<(String, f64, Unit)>,
}

/// From the cost of a call and the memory bandwidth.
fn from_calls(block: f64, known: &Inputs<'_>) -> Option<ReadRate> {
    let call = known.quantity(CALL, &Params::one("call", "read1"))?;
    let dram = Params::one("op", "read").and("threads", 1).and("level", "dram").and("page", "huge");
    let bandwidth = known.quantity(BANDWIDTH, &dram)?;
    Some(ReadRate {
        rate: 1e9 / (call / block + 1e9 / bandwidth),
        formula: format!("1 ÷ ({CALL}{{call=read1}} ÷ block + 1 ÷ {BANDWIDTH})"),
        inputs: vec![
            (format!("{CALL}{{call=read1}}"), call, Unit::Nanoseconds),
            (format!("{BANDWIDTH}{dram}"), bandwidth, Unit::BytesPerSecond),
        ],
    })
}

/// As last measured with one thread.
fn last_rate(block: i64, state: &str, known: &Inputs<'_>) -> Option<ReadRate> {
    let is_alike = |params: &Params| {
        params.integer("block") == Some(block)
            && params.text("state") == Some(state)
            && params.integer("threads") == Some(1)
    };
    let newest = known.cases_of(THROUGHPUT).filter(|(params, _)| is_alike(params)).last();
    let (params, summary) = newest?;
    let name = format!("{THROUGHPUT}{params}");
    Some(ReadRate {
        rate: summary.median,
        formula: THROUGHPUT.to_owned(),
        inputs: vec![(name, summary.median, Unit::BytesPerSecond)],
    })
}

/// Inputs of the first size.
const INPUTS: &[&str] = &[CALL, BANDWIDTH];
/// The first size without a prediction.
const FIRST: u64 = 100 << 20;
/// Size and time limit of the calibration read.
const CALIBRATION: u64 = 16 << 20;
const CALIBRATION_TIME: Duration = Duration::from_millis(200);
/// Upper bound of the time to allocate the largest buffer.
const BUFFERS: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  fathom file size --block 1                          tens of MiB, read byte by byte
  fathom file size --block 64 --between 1s..3s
  fathom file size --block 4K --state cold --max 20GiB --folder /data
  fathom file size --block 16 --keep reasonable.bin   keep the file in the folder

The first size is predicted from earlier results, or from a short read with this block. It is
doubled while the read is faster than the window, and halved while it is slower. If no size fits,
the exit status is 3, and the reason is shown.";

/// Find the file size whose read time is within a window.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct FindSize {
    /// Block size.
    #[arg(long, short, value_name = "SIZE", value_parser = block)]
    block: usize,
    /// Cache state of the file.
    #[arg(long, value_enum, default_value_t = StateName::Warm)]
    state: StateName,
    #[command(flatten)]
    search: SearchOptions,
    /// Keep the file under this name in the folder.
    #[arg(long, value_name = "NAME")]
    keep: Option<PathBuf>,
    #[command(flatten)]
    temporary: TemporaryOptions,
}

/// Options of the search for a size.
#[derive(Clone, Debug, Args)]
pub struct SearchOptions {
    /// Window of the read time; the end must be at least twice the start.
    #[arg(long, value_name = "TIME..TIME", default_value = "5s..15s", value_parser = between)]
    pub(super) between: (Duration, Duration),
    /// Largest file [default: half of the free space and, if warm, of the memory].
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

    fn check(&self) -> ByHandResult<()> {
        let folder = TemporaryFolder::choose(self.temporary.folder.as_deref())?;
        if let Some(name) = &self.keep {
            if name.components().count() != 1 || name.file_name().is_none() {
                let name = printable(name);
                let text = format!("--keep {name}: must be a name without a folder; use --folder");
                return Err(ProcedureError::usage(text));
            }
            if lstat(folder.join(name)).is_ok() {
                let path = printable(&folder.join(name));
                return Err(ProcedureError::failed(format!("--keep: {path} exists")));
            }
        }
        SizeSearch::new(&Host::default(), &folder, self.block, self.state, &self.search).map(|_| ())
    }

    fn run(&self, recorder: &mut dyn Recorder) -> ByHandResult<Ending> {
        let folder = TemporaryFolder::choose(self.temporary.folder.as_deref())?;
        let host = recorder.host();
        let search = SizeSearch::new(host, &folder, self.block, self.state, &self.search)?;
        if !search.announce(recorder, &folder, self.temporary.yes) {
            return Ok(Ending::Stopped);
        }
        let (end, file) = find(recorder, &folder, &search)?;
        let SearchEnd::Fits(_) = end else { return Ok(Ending::NotFound) };
        if let Some(name) = &self.keep {
            file.keep(&folder.join(name))?;
        }
        Ok(Ending::Done)
    }
}

pub(super) struct SizeSearch {
    block: usize,
    state: StateName,
    /// In seconds.
    window: (f64, f64),
    most: TemporaryLimit,
}

impl SizeSearch {
    /// Fails if a block exceeds the limits.
    pub(super) fn new(
        host: &Host,
        folder: &TemporaryFolder,
        block: usize,
        state: StateName,
        options: &SearchOptions,
    ) -> ByHandResult<Self> {
        if state == StateName::AsIs {
            let text = "--state as-is: must be warm, cold or direct for a new file";
            return Err(ProcedureError::usage(text));
        }
        if options.between.0 < Duration::from_millis(1) {
            return Err(ProcedureError::usage("--between: must be ≥ 1ms"));
        }
        if let Some(max) = options.max.filter(|max| *max < block as u64) {
            let (block, max) = (size(block as u64), size(max));
            let text = format!("--max {max}: less than a block of {block}");
            return Err(ProcedureError::usage(text));
        }
        let max = options.max.map(|bytes| TemporaryLimit { bytes, of: "--max".to_owned() });
        let memory = memory(host).filter(|_| state == StateName::Warm);
        let limits = [Some(folder.limit()?), memory, max].into_iter().flatten();
        let most = limits.min_by_key(|limit| limit.bytes).expect("at least the folder's");
        if most.bytes < block as u64 {
            let (block, bytes) = (size(block as u64), size(most.bytes));
            return Err(ProcedureError::failed(format!(
                "a block of {block} exceeds {}, {bytes}",
                most.of
            )));
        }
        let window = (options.between.0.as_secs_f64(), options.between.1.as_secs_f64());
        Ok(Self { block, state, window, most })
    }

    pub(super) fn announce(
        &self,
        recorder: &mut dyn Recorder,
        folder: &TemporaryFolder,
        yes: bool,
    ) -> bool {
        let (from, to) = self.window;
        let what = format!("and reads it until a read takes {} to {}", time(from), time(to));
        announce(recorder, folder, self.most.bytes, &what, yes)
    }

    fn params(&self) -> Params {
        let ms = |seconds: f64| (seconds * 1e3).round() as i64;
        Params::one("block", self.block as i64)
            .and("state", self.state.name())
            .and("from_ms", ms(self.window.0))
            .and("to_ms", ms(self.window.1))
    }

    /// Time limit of a read: the end of the window plus the allocation of buffers.
    fn limit(&self) -> Duration {
        Duration::from_secs_f64(self.window.1) + BUFFERS
    }

    /// Blocks of a size, at least one.
    fn blocks(&self, bytes: f64) -> u64 {
        (bytes.min(u64::MAX as f64) as u64 / self.block as u64).max(1)
    }
}

/// Searches the size and records the result. Returns the file, which has that size.
pub(super) fn find(
    recorder: &mut dyn Recorder,
    folder: &TemporaryFolder,
    search: &SizeSearch,
) -> ByHandResult<(SearchEnd, Temporary)> {
    let mut file = Temporary::new(folder)?;
    if recorder.predicted(ABOUT.id, &search.params()).is_err() {
        calibrate(recorder, &mut file, search)?;
    }
    let predicted = recorder.predicted(ABOUT.id, &search.params());
    let first_text = describe_prediction(&predicted);
    recorder.event(Event::Progress { done: 0, all: 1, what: &format!("predicted {first_text}") });
    let first = predicted.ok().and_then(|prediction| prediction.value).unwrap_or(FIRST as f64);
    let block = search.block as u64;
    let mut last: Option<PassSeries> = None;
    let mut tries = Vec::new();
    let sizes = 1..=search.most.bytes / block;
    let end = search_size(search.blocks(first), sizes, search.window, |blocks| {
        let series = attempt(recorder, &mut file, search, blocks * block)?;
        let Some(pass) = series.as_ref().and_then(PassSeries::median_pass) else { return Ok(None) };
        let (bytes, all) = (pass.bytes(), blocks * block);
        // A read that reached its time limit is above the window, however little it read.
        let least = if pass.outcome.stopped { search.limit().as_secs_f64() } else { 0.0 };
        let seconds = pass.seconds().max(least);
        let rate = quantity(pass.rate(), Unit::BytesPerSecond);
        let part = if bytes < all { format!(" ({} read)", size(bytes)) } else { String::new() };
        let text = format!("{}{part}: {}, {rate}", size(all), time(seconds));
        recorder.event(Event::Progress { done: 0, all: 1, what: &format!("tried {text}") });
        tries.push(text);
        last = series;
        Ok::<_, ProcedureError>(Some(seconds))
    })?;
    if let (SearchEnd::Stopped, None) = (end, &last) {
        return Ok((end, file));
    }
    // A search begins anywhere: noisy results give an estimate, and no prediction.
    let estimate = Fact::text("estimate", first_text);
    let facts = std::iter::once(estimate).chain(facts(search, end, &tries, last.as_ref()));
    let measured = measured(search, end, &tries, last.as_ref(), &file);
    recorder.record(Measured { facts: facts.collect(), ..measured });
    recorder.show();
    Ok((end, file))
}

fn describe_prediction(predicted: &Model) -> String {
    let bytes = |bytes| quantity(bytes, Unit::Bytes);
    match predicted {
        Ok(prediction) => {
            let value = prediction.value.unwrap_or_default();
            let range =
                [prediction.low, prediction.high].map(|end| end.map_or_else(String::new, bytes));
            format!("{} ({}) = {}", bytes(value), range.join(" to "), prediction.formula)
        }
        Err(NoModel::NoKeptResult { metric }) => {
            format!("unknown (no stored result of {metric}); first size {}", size(FIRST))
        }
        Err(_) => format!("unknown; first size {}", size(FIRST)),
    }
}

/// Reads a small file with this block and records the result, from which the first size is
/// predicted.
fn calibrate(
    recorder: &mut dyn Recorder,
    file: &mut Temporary,
    search: &SizeSearch,
) -> ByHandResult<()> {
    let bytes = CALIBRATION.max(search.block as u64).min(search.most.bytes);
    if !file.resize(bytes, recorder)? {
        return Ok(());
    }
    let mut series = PassSeries::new(ReadConfig::whole(search.block, search.state));
    if series.pass(recorder, file.source(), Some(CALIBRATION_TIME))? {
        series.record(recorder, file.source(), &Params::none(), Vec::new());
    }
    Ok(())
}

/// Resizes the file and reads it within the limit. `None` if the user stopped it.
fn attempt(
    recorder: &mut dyn Recorder,
    file: &mut Temporary,
    search: &SizeSearch,
    bytes: u64,
) -> ByHandResult<Option<PassSeries>> {
    if !file.resize(bytes, recorder)? {
        return Ok(None);
    }
    let mut series = PassSeries::new(ReadConfig::whole(search.block, search.state));
    let is_read = series.pass(recorder, file.source(), Some(search.limit()))?;
    Ok(is_read.then_some(series))
}

fn measured(
    search: &SizeSearch,
    end: SearchEnd,
    tries: &[String],
    last: Option<&PassSeries>,
    file: &Temporary,
) -> Measured {
    let mut facts: Vec<(&str, String)> = vec![("tried", tries.join("; "))];
    if let Some(pass) = last.and_then(|series| series.passes.last()) {
        facts.push(("in memory before", cache_state::describe(&pass.before)));
        facts.push(("XOR-32", format!("{:08x}", pass.outcome.sum.xor)));
    }
    let (values, verdict) = match end {
        SearchEnd::Fits(fits) => (
            vec![(fits.size * search.block as u64) as f64],
            last.and_then(|series| series.invalid_verdict(file.source())),
        ),
        _ => (Vec::new(), Some(no_size(search, end))),
    };
    Measured {
        metric: ABOUT.id,
        params: search.params(),
        values,
        disturbance: last.and_then(|series| series.disturbance.clone()).into_iter().collect(),
        checks: checked(facts),
        verdict,
        ..Measured::default()
    }
}

/// The verdict if no size fits.
fn no_size(search: &SizeSearch, end: SearchEnd) -> Verdict {
    let (from, to) = search.window;
    let bytes = |blocks: u64| blocks * search.block as u64;
    let text = match end {
        SearchEnd::TooFast(TimedSize { size: blocks, seconds }) => {
            let rate = bytes(blocks) as f64 / seconds;
            let most_ms = (1e3 * seconds) as u64;
            format!(
                "no size fits: {} ({}) is read in {}; at {}, {} would need {}; try \
                 --between {}ms..{most_ms}ms",
                size(bytes(blocks)),
                search.most.of,
                time(seconds),
                quantity(rate, Unit::BytesPerSecond),
                time(from),
                size((rate * from) as u64),
                most_ms / 3
            )
        }
        SearchEnd::TooSlow(TimedSize { seconds, .. }) => format!(
            "no size fits: even one block of {} takes {}, more than {}",
            size(search.block as u64),
            time(seconds),
            time(to)
        ),
        SearchEnd::Jump { below, above } => format!(
            "no size fits: {} is read in {}, but {} in at least {}",
            size(bytes(below.size)),
            time(below.seconds),
            size(bytes(above.size)),
            time(above.seconds)
        ),
        SearchEnd::Stopped | SearchEnd::Fits(_) => {
            let text = "stopped by the user";
            return Verdict::because(State::Unavailable, Cause::Interrupted, text);
        }
    };
    Verdict::because(State::Unavailable, Cause::Missing, text)
}

fn time(seconds: f64) -> String {
    quantity(1e9 * seconds, Unit::Nanoseconds)
}

fn facts(
    search: &SizeSearch,
    end: SearchEnd,
    tries: &[String],
    last: Option<&PassSeries>,
) -> Vec<Fact> {
    let mut facts: Vec<Fact> = tries.iter().map(|text| Fact::text("tried", text)).collect();
    if let SearchEnd::Fits(fits) = end {
        let bytes = fits.size * search.block as u64;
        let text = format!("{} = {bytes} bytes: {}", size(bytes), time(fits.seconds));
        facts.push(Fact::text("found", text));
        // Of the generated data, so that another program can check what was read.
        let pass = last.and_then(|series| series.passes.last());
        facts.extend(pass.into_iter().flat_map(|pass| sum_facts(pass.outcome.sum)));
    }
    facts
}
