//! `fathom file size`: the size of a file whose reading takes a reasonable time.

use std::time::Duration;

use fathom_record::{Cause, NoModel, Params, Prediction, State, Unit, Verdict};
use fathom_report::{quantity, range};
use rustix::fs::lstat;

use super::search::{Found, Try, search};
use super::series::{Manner, Series};
use super::session::{Measured, Session, checked, refuse, shown, size};
use super::temporary::{Folder, Limit, Temporary, announce, memory};
use crate::arguments::file::StateName;
use crate::arguments::file::size::{SizeArguments, SoughtArguments};
use crate::exit::Status;

const METRIC: &str = "file.reasonable_size";
/// What the first size is foretold from.
const INPUTS: &[&str] = &["file.call", "memory.bandwidth"];
/// The first size where nothing foretells one.
const FIRST: u64 = 100 << 20;
/// The file that is read to foretell it.
const CALIBRATION: u64 = 16 << 20;
const CALIBRATION_TIME: Duration = Duration::from_millis(200);
/// Getting the largest buffer takes less.
const BUFFERS: Duration = Duration::from_secs(1);

pub(super) fn size_of(arguments: &SizeArguments) -> anyhow::Result<Status> {
    let folder = Folder::choose(arguments.temporary.folder.as_deref())?;
    if let Some(name) = &arguments.keep {
        if name.components().count() != 1 || name.file_name().is_none() {
            let name = shown(name);
            return Err(refuse(format!(
                "--keep {name}: give a name without a folder, and --folder"
            )));
        }
        if lstat(folder.join(name)).is_ok() {
            let path = shown(&folder.join(name));
            return Err(refuse(format!("{path} exists; give another name to --keep")));
        }
    }
    let asked = format!("file size --block {}", arguments.block);
    let mut session = Session::begin(&arguments.common, asked)?;
    let yes = arguments.temporary.yes;
    let sought =
        Sought::new(&session, &folder, arguments.block, arguments.state, &arguments.sought)?;
    if let Some(status) = sought.announce(&mut session, &folder, yes) {
        return Ok(status);
    }
    let (found, file) = find(&mut session, &folder, &sought)?;
    if let (Found::Fits(_), Some(name)) = (found, &arguments.keep) {
        let path = folder.join(name);
        file.keep(&path)?;
        session.say_facts(&[("kept", shown(&path))]);
    }
    match (session.end()?, found) {
        // The answer is there, and it is not what was asked for.
        (Status::Done, Found::Fits(_)) => Ok(Status::Done),
        (Status::Done, _) => Ok(Status::Incomplete),
        (status, _) => Ok(status),
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
        session: &Session,
        folder: &Folder,
        block: usize,
        state: StateName,
        sought: &SoughtArguments,
    ) -> anyhow::Result<Self> {
        if state == StateName::AsIs {
            return Err(refuse("--state as-is of a new file: give warm, cold or direct"));
        }
        if sought.between.0 < Duration::from_millis(1) {
            return Err(refuse(
                "--between: a time below 1ms is none to wait for; give 1ms or more",
            ));
        }
        let asked = sought.max.map(|bytes| Limit { bytes, of: "what --max allows".to_owned() });
        let memory = memory(session.host()).filter(|_| state == StateName::Warm);
        let limits = [Some(folder.room()?), memory, asked].into_iter().flatten();
        let most = limits.min_by_key(|limit| limit.bytes).expect("the folder's is one");
        if most.bytes < block as u64 {
            let (block, bytes) = (size(block as u64), size(most.bytes));
            return Err(refuse(format!("a block of {block} is more than {}, {bytes}", most.of)));
        }
        let window = (sought.between.0.as_secs_f64(), sought.between.1.as_secs_f64());
        Ok(Self { block, state, window, most })
    }

    pub(super) fn announce(
        &self,
        session: &mut Session,
        folder: &Folder,
        yes: bool,
    ) -> Option<Status> {
        let (from, to) = self.window;
        let what = format!("and reads it until that takes {} to {}", time(from), time(to));
        announce(session, folder, self.most.bytes, &what, yes)
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

/// Finds the size, tells and records it, and gives the file, which then has it.
///
/// # Errors
/// Where a file cannot be written or read.
pub(super) fn find(
    session: &mut Session,
    folder: &Folder,
    sought: &Sought,
) -> anyhow::Result<(Found, Temporary)> {
    session.recall(INPUTS);
    let mut file = Temporary::new(folder)?;
    if session.predicted(METRIC, &sought.params()).is_err() {
        calibrate(session, &mut file, sought)?;
    }
    let foretold = session.predicted(METRIC, &sought.params());
    session.say_facts(&[("foretold", told(&foretold))]);
    let first = foretold.ok().and_then(|prediction| prediction.value).unwrap_or(FIRST as f64);
    let block = sought.block as u64;
    let mut last: Option<Series> = None;
    let mut tries = Vec::new();
    let most = sought.most.bytes / block;
    let found = search(sought.blocks(first), 1..=most, sought.window, |blocks| {
        let series = attempt(session, &mut file, sought, blocks * block)?;
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
        session.say_facts(&[("tried", text.clone())]);
        tries.push(text);
        last = series;
        Ok::<_, anyhow::Error>(Some(seconds))
    })?;
    if let (Found::Stopped, None) = (found, &last) {
        return Ok((found, file));
    }
    let record = session.record(measured(sought, found, &tries, last.as_ref(), &file));
    if let Found::Fits(fits) = found {
        let bytes = fits.size * block;
        let text = format!("{} = {bytes} bytes: {}", size(bytes), time(fits.seconds));
        session.say_facts(&[("found", text)]);
    }
    session.say_standing(&record);
    Ok((found, file))
}

fn told(foretold: &Result<Prediction, NoModel>) -> String {
    match foretold {
        Ok(prediction) => {
            let value = prediction.value.unwrap_or_default();
            let within = range(prediction.low, prediction.high, Unit::Bytes);
            format!("{} ({within}) = {}", quantity(value, Unit::Bytes), prediction.formula)
        }
        Err(none) => format!("nothing ({}): {} is tried first", none.0, size(FIRST)),
    }
}

/// Reads a small file with the block for a moment, and keeps that as a result: from it the first
/// size is foretold.
fn calibrate(session: &mut Session, file: &mut Temporary, sought: &Sought) -> anyhow::Result<()> {
    let bytes = CALIBRATION.max(sought.block as u64).min(sought.most.bytes);
    if !file.resize(bytes, session.stop().now(), &session.bar(bytes))? {
        return Ok(());
    }
    let mut series = Series::new(Manner::whole(sought.block, sought.state));
    if series.pass(session, file.source(), Some(CALIBRATION_TIME))? {
        series.record(session, file.source(), &Params::none());
    }
    Ok(())
}

/// One size: made, and read for no longer than it may take. None where a person stopped it.
fn attempt(
    session: &Session,
    file: &mut Temporary,
    sought: &Sought,
    bytes: u64,
) -> anyhow::Result<Option<Series>> {
    let bar = session.bar(bytes);
    bar.set_message(format!("writing {}", size(bytes)));
    let is_made = file.resize(bytes, session.stop().now(), &bar)?;
    bar.finish_and_clear();
    if !is_made {
        return Ok(None);
    }
    let mut series = Series::new(Manner::whole(sought.block, sought.state));
    let is_read = series.pass(session, file.source(), Some(sought.limit()))?;
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
        facts.push(("in memory before", super::state::told(&pass.before)));
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
        metric: METRIC,
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
