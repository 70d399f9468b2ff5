//! `fathom file read`: block by block, as often as asked.

use std::sync::atomic::Ordering;

use fathom_fileio::read::{Bypass, Outcome, Request, Way};
use fathom_fileio::residency::{self, Residency};
use fathom_fileio::{Source, Sum, traffic};
use fathom_record::{Cause, Check, Disturbance, Params, Reason, Record, State, Verdict};
use fathom_report::quantity;

use super::cap::Cap;
use super::session::{Measured, Session, refuse};
use super::{MIB, state};
use crate::arguments::file::{ReadArguments, StateName, WayName};
use crate::exit::Status;

/// So many passes are told one by one.
const TOLD: usize = 10;

/// How one pass went.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    pub(super) before: Residency,
    pub(super) outcome: Outcome,
    pub(super) device_bytes: Option<u64>,
}

impl Pass {
    pub(super) fn rate(&self) -> f64 {
        1e9 * self.outcome.sum.bytes as f64 / self.outcome.ns
    }

    pub(super) fn bytes(&self) -> u64 {
        self.outcome.sum.bytes
    }

    pub(super) fn seconds(&self) -> f64 {
        self.outcome.ns / 1e9
    }
}

pub(super) fn read(arguments: &ReadArguments) -> anyhow::Result<Status> {
    let source = Source::open(&arguments.file).map_err(refuse)?;
    let (state, way) = state_and_way(arguments, &source)?;
    let asked = format!("file read {}", super::session::shown(&arguments.file));
    let mut session = Session::begin(&arguments.common, asked)?;
    session.recall(super::MODEL_INPUTS);
    let mut passes: Vec<Pass> = Vec::new();
    let mut disturbance: Option<Disturbance> = None;
    let limit = session.stop().after(arguments.time_limit, source.subject().size.is_none());
    for _ in 0..arguments.repeat {
        if session.stop().now().load(Ordering::Relaxed) && !passes.is_empty() {
            break;
        }
        let (pass, counted) = pass(&session, arguments, &source, state, way)?;
        disturbance = Some(disturbance.map_or(counted.clone(), |sum| sum.plus(&counted)));
        let goes_on = pass.outcome.faults.is_empty() && !pass.outcome.stopped;
        passes.push(pass);
        if !goes_on {
            break;
        }
    }
    drop(limit);
    let cap = cap(arguments, &source, way, &passes);
    let record = session.record(measured(
        arguments,
        &source,
        (state, way),
        &passes,
        cap.as_ref(),
        disturbance.unwrap_or_default(),
    ));
    say(&mut session, &record, &source, arguments, way, &passes);
    cap.iter().for_each(|cap| session.say_facts(&cap.facts()));
    session.say_standing(&record);
    let faulty = passes.iter().any(|pass| !pass.outcome.faults.is_empty());
    match session.end()? {
        Status::Done if faulty => Ok(Status::Failed),
        status => Ok(status),
    }
}

/// What was asked for, in terms of each other.
fn state_and_way(arguments: &ReadArguments, source: &Source) -> anyhow::Result<(StateName, Way)> {
    super::check_length(arguments.block, arguments.count.unwrap_or(0))?;
    let past_cache = matches!(arguments.way, Some(WayName::Direct | WayName::Ring));
    let state = match (arguments.state, past_cache) {
        (StateName::AsIs, true) => StateName::Direct,
        (StateName::Cold | StateName::Warm, true) => {
            let text = "--way direct and ring read past the page cache: there is no cold or warm \
                        of them; leave --state away";
            return Err(refuse(text));
        }
        (state, _) => state,
    };
    // Calls behind the end read nothing.
    let blocks = source.subject().size.map(|bytes| bytes.div_ceil(arguments.block as u64));
    let count = arguments.count.map(|count| blocks.map_or(count, |blocks| count.min(blocks)));
    let way = match (arguments.way, state, arguments.threads) {
        (Some(WayName::Direct), ..) | (None, StateName::Direct, _) => Way::Direct,
        (Some(WayName::Ring), ..) => Way::Ring { depth: arguments.depth },
        (Some(_), StateName::Direct, _) => {
            let text = "--state direct reads past the page cache: give --way direct or ring, or \
                        none";
            return Err(refuse(text));
        }
        (Some(WayName::Mmap), ..) => Way::Map,
        (Some(WayName::Pread), ..) => Way::Pread,
        (Some(WayName::Read), _, 2..) => {
            return Err(refuse("--way read is one call after another: give --threads 1, or pread"));
        }
        (None, _, 2..) => Way::Pread,
        (Some(WayName::Read) | None, ..) => Way::Calls { count },
    };
    if arguments.count.is_none() && source.subject().kind == fathom_fileio::subject::Kind::Character
    {
        let path = super::session::shown(&arguments.file);
        return Err(refuse(format!("{path} has no end: say how many blocks, as --count 1000")));
    }
    Ok((state, way))
}

fn pass(
    session: &Session,
    arguments: &ReadArguments,
    source: &Source,
    state: StateName,
    way: Way,
) -> anyhow::Result<(Pass, Disturbance)> {
    let stop = session.stop().now();
    let before = state::prepare(source, state, arguments.drop_caches, stop)?;
    let range = match (way, arguments.count) {
        (Way::Calls { .. }, _) | (_, None) => None,
        (_, Some(count)) => Some(0..arguments.block as u64 * count),
    };
    let request = Request {
        way,
        range,
        origin: None,
        block: arguments.block,
        threads: usize::from(arguments.threads),
        keep_going: arguments.keep_going,
        stop,
        progress: None,
    };
    let device = traffic::fetched();
    let size = source.subject().size.unwrap_or(u64::MAX);
    let asked = arguments.count.map(|count| count.saturating_mul(arguments.block as u64));
    let bytes = asked.map_or(size, |asked| asked.min(size));
    let (outcome, counted) = session.watched(bytes, |progress| {
        let request = Request { progress, ..request.clone() };
        session.observed(|clock| fathom_fileio::read(source, &request, clock))
    });
    let counted = super::without_own_waits(counted, request.threads);
    let outcome = outcome
        .map_err(|error| refuse(format!("read {}: {error}", source.subject().path.display())))?;
    let device_bytes =
        device.zip(traffic::fetched()).map(|(before, after)| after.saturating_sub(before));
    Ok((Pass { before, outcome, device_bytes }, counted))
}

/// What the control group allows, where the passes went to the device at all.
fn cap(arguments: &ReadArguments, source: &Source, way: Way, passes: &[Pass]) -> Option<Cap> {
    let is_past_cache = matches!(way, Way::Direct | Way::Ring { .. });
    let is_warm = |pass: &Pass| pass.before.state == residency::State::Warm;
    if !is_past_cache && passes.iter().all(is_warm) {
        return None;
    }
    Cap::on_reads(source.file(), is_past_cache.then_some(arguments.block))
}

fn measured(
    arguments: &ReadArguments,
    source: &Source,
    (state, way): (StateName, Way),
    passes: &[Pass],
    cap: Option<&Cap>,
    disturbance: Disturbance,
) -> Measured {
    let last = &passes[passes.len() - 1];
    let states: Vec<&str> = passes.iter().map(|pass| state::word(pass.before.state)).collect();
    let word = match state {
        StateName::Direct => "direct",
        _ => super::state_of_all(&states),
    };
    let params = Params::one("block", arguments.block as i64)
        .and("state", word)
        .and("threads", i64::from(arguments.threads))
        .and("way", name_of(way))
        .and("file_bytes", last.outcome.sum.bytes as i64);
    let params = match way {
        Way::Ring { depth } => params.and("depth", i64::from(depth)),
        _ => params,
    };
    let verdict = super::unreadable(passes.iter().flat_map(|pass| &pass.outcome.faults))
        .or_else(|| passes.iter().find_map(|one| state::not_as_asked(source, state, &one.before)))
        .or_else(|| bypassed(passes))
        .or_else(|| super::nothing_done(last.outcome.sum.bytes));
    let values: Vec<f64> = match last.outcome.sum.bytes {
        0 => Vec::new(),
        _ => passes.iter().map(Pass::rate).collect(),
    };
    let remarks = cap.and_then(|cap| cap.reached(&values)).into_iter().collect();
    let mut doubts = state::doubts(source, state, &passes[0].before);
    doubts.extend(passes.iter().find_map(changed));
    doubts.extend(super::other_states(&states).filter(|_| state != StateName::Direct));
    doubts.extend(super::too_short(passes.iter().map(|pass| pass.outcome.ns)));
    if passes.iter().any(|pass| pass.outcome.sum.xor != passes[0].outcome.sum.xor)
        && !passes.iter().any(|pass| pass.outcome.stopped)
    {
        let text = "the passes read different content";
        doubts.push(Reason::new(Cause::WrongWork, text));
    }
    Measured {
        metric: "file.read.throughput",
        params,
        values,
        disturbance,
        checks: checks(source, last),
        verdict,
        doubts,
        remarks,
        notes: cap.map(|cap| cap.told.clone()).unwrap_or_default(),
        prediction: cap.and_then(|cap| cap.prediction(last.outcome.sum.bytes)),
        ..Measured::default()
    }
}

pub(super) fn checks(source: &Source, last: &Pass) -> Vec<Check> {
    let Sum { xor, position, bytes } = last.outcome.sum;
    let mut facts = vec![
        ("file", state::place(source)),
        ("XOR-32", format!("{xor:08x}")),
        ("position sum", format!("{position:016x}")),
        ("bytes", bytes.to_string()),
        ("calls", last.outcome.calls.to_string()),
        ("in memory before", state::told(&last.before)),
    ];
    facts.extend(last.device_bytes.map(|bytes| ("bytes from devices", bytes.to_string())));
    super::session::checked(facts)
}

pub(super) fn bypassed(passes: &[Pass]) -> Option<Verdict> {
    let buffered = |pass: &Pass| pass.outcome.bypass == Some(Bypass::Buffered);
    let text = "the file system took direct reads, and read by way of the page cache";
    let verdict = || Verdict::because(State::Invalid, Cause::NotAsAsked, text);
    passes.iter().any(buffered).then(verdict)
}

pub(super) fn changed(pass: &Pass) -> Option<Reason> {
    let change = pass.outcome.changed?;
    let text = match change.size {
        (then, now) if then != now => {
            format!("the file changed while it was read: from {then} to {now} bytes")
        }
        _ if change.modified => "the file's content changed while it was read".to_owned(),
        _ => return None,
    };
    Some(Reason::new(Cause::NotAsAsked, text))
}

/// A way in one word, as records and `--way` have it.
pub(super) fn name_of(way: Way) -> &'static str {
    match way {
        Way::Pread => "pread",
        Way::Map => "mmap",
        Way::Direct => "direct",
        Way::Ring { .. } => "ring",
        Way::Calls { .. } => "read",
    }
}

fn say(
    session: &mut Session,
    record: &Record,
    source: &Source,
    arguments: &ReadArguments,
    way: Way,
    passes: &[Pass],
) {
    let last = &passes[passes.len() - 1];
    let Outcome { sum, ns, calls, fallbacks, .. } = &last.outcome;
    let (bytes, seconds) = (sum.bytes, ns / 1e9);
    let threads = match arguments.threads {
        1 => "1 thread".to_owned(),
        threads => format!("{threads} threads"),
    };
    let blocks = bytes.div_ceil(arguments.block as u64);
    let mut facts = vec![
        ("file", state::place(source)),
        (
            "read",
            format!(
                "{blocks} blocks of {} bytes: {bytes} bytes = {:.3} MiB; by {}, {threads}",
                arguments.block,
                bytes as f64 / MIB,
                name_of(way)
            ),
        ),
    ];
    if passes.len() > 1 && passes.len() <= TOLD {
        for (number, pass) in (1..).zip(passes) {
            let rate = match record.verdict.shows_number() {
                true => quantity(pass.rate(), fathom_record::Unit::BytesPerSecond),
                false => super::NO_NUMBER.to_owned(),
            };
            let word = match pass.outcome.bypass {
                Some(_) => "direct".to_owned(),
                None => state::word(pass.before.state).to_uppercase(),
            };
            let text = format!("pass {number}: {word}, {:.6} s, {rate}", pass.outcome.ns / 1e9);
            facts.push(("", text));
        }
    }
    if passes.len() > 1 {
        facts.push(("passes", format!("{}; what follows is of the last", passes.len())));
    }
    let guest = super::guest(session, last.before.state);
    facts.push(("before", state::told(&last.before) + guest));
    facts.push(("time", format!("{seconds:.6} s")));
    if bytes > 0 {
        facts.push(("speed", super::speed_told(record, bytes, *ns, Some(*calls))));
    }
    facts.push(("XOR-32", format!("{:08x}", sum.xor)));
    facts.push(("position sum", format!("{:016x}", sum.position)));
    if let Some(bytes) = last.device_bytes {
        facts.push(("from devices", super::bytes_told(bytes)));
    }
    if *fallbacks > 0 {
        facts.push(("beside", format!("{fallbacks} of {calls} calls of another kind")));
    }
    facts.extend(last.outcome.faults.iter().map(|fault| ("unreadable", super::fault_told(fault))));
    if let Some(at) = last.outcome.ended_at {
        facts.push(("ended", format!("the file ends at byte {at}")));
    }
    if last.outcome.stopped {
        facts.push(("stopped", format!("after {bytes} bytes")));
    }
    session.say_facts(&facts);
}
