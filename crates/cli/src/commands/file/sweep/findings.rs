//! What the curves of a sweep tell together: what a call and a byte cost, from which block on one
//! has nearly the best, and where threads begin to pay. Kept as notes of the run as well.

use fathom_fileio::Source;
use fathom_probes::Known;
use fathom_record::{Host, Params, Record, Unit};
use fathom_report::{binary_size, percent, quantity};

use super::super::curve::{self, Fit};
use super::super::session::{Session, shown};
use super::points::State;
use super::told::{curves, places, word};
use crate::arguments::file::StateName;

/// A second-level cache where none is known: the smallest of today.
const CACHE: u64 = 512 << 10;

/// Says what was found, and keeps it.
pub(super) fn tell(session: &mut Session, source: &Source, states: &[State]) {
    let known = session.known();
    let mut facts = Vec::new();
    for state in states {
        if state.name == StateName::Warm {
            facts.extend(cost(state, session.host(), &known).map(|text| ("cost", text)));
        }
        facts.extend(knees(state).into_iter().map(|text| ("best", text)));
        facts.extend(threads(state).map(|text| ("threads", text)));
    }
    if facts.is_empty() {
        return;
    }
    session.say("\n");
    session.say_facts(&facts);
    let name = shown(&source.subject().path);
    for (_, text) in facts {
        session.note(format!("{name}: {text}"));
    }
}

/// t = calls × c + bytes ÷ b of one thread, beside what else is known of c and b.
fn cost(state: &State, host: &Host, known: &[Record]) -> Option<String> {
    let (_, points) = curves(state).into_iter().find(|(threads, _)| *threads == 1)?;
    let second = host.cpu.caches.iter().find(|cache| cache.level == 2);
    // Half of it: what is copied comes through the cache beside it.
    let most = second.map_or(CACHE, |cache| cache.size_bytes) / 2;
    let mut within = places(&points);
    within.retain(|(block, _)| *block <= most);
    let Fit { call_ns, bandwidth, off, points } = curve::fit(&within)?;
    let bandwidth = match bandwidth {
        Some(bandwidth) => quantity(bandwidth, Unit::BytesPerSecond),
        None => "a bandwidth too large to tell".to_owned(),
    };
    let call = quantity(call_ns, Unit::Nanoseconds);
    let mut text = format!(
        "t = calls × {call} + bytes ÷ {bandwidth}, warm by one thread, over the {points} blocks up \
         to {}, half of the second level; the worst lies {} off. Larger blocks leave that cache, \
         and cold ones are read ahead of: neither lies on this line",
        binary_size(most as i64),
        percent(off)
    );
    let beside = beside(known);
    if !beside.is_empty() {
        text += &format!(". Beside it: {}", beside.join(", "));
    }
    Some(text)
}

/// Earlier results of what c and b are made of.
fn beside(known: &[Record]) -> Vec<String> {
    let known = Known::new(known);
    let dram = Params::one("op", "read").and("threads", 1).and("level", "dram").and("page", "huge");
    let call = Params::one("call", "read1");
    let inputs = [
        ("file.call", call.clone(), Unit::Nanoseconds),
        ("os.syscall", call, Unit::Nanoseconds),
        ("memory.bandwidth", dram, Unit::BytesPerSecond),
    ];
    let told = |(metric, params, unit): (&str, Params, Unit)| {
        let value = known.quantity(metric, &params)?.value;
        Some(format!("{metric}{params} = {}", quantity(value, unit)))
    };
    inputs.into_iter().filter_map(told).collect()
}

/// From which block on each curve has nearly its best.
fn knees(state: &State) -> Vec<String> {
    let knee = |(threads, points): (u16, Vec<&super::points::Point>)| {
        let places = places(&points);
        let ((from, to), (at, rate)) = (curve::knee(&places)?, curve::best(&places)?);
        let is_last = places.last().is_some_and(|(block, _)| *block == to);
        let nearly = match (is_last, from == to) {
            (true, _) => format!("from {} on one has 95 % of it", binary_size(from as i64)),
            (_, true) => "no other block has 95 % of it".to_owned(),
            _ => {
                let (from, to) = (binary_size(from as i64), binary_size(to as i64));
                format!("from {from} to {to} one has 95 % of it")
            }
        };
        Some(format!(
            "{}, {threads} thread{}: {} with {}; {nearly}",
            word(state.name),
            if threads == 1 { "" } else { "s" },
            quantity(rate, Unit::BytesPerSecond),
            binary_size(at as i64),
        ))
    };
    curves(state).into_iter().filter_map(knee).collect()
}

/// From which block on threads pay, and the best number of them.
fn threads(state: &State) -> Option<String> {
    let curves = curves(state);
    let (_, one) = curves.iter().find(|(threads, _)| *threads == 1)?;
    let one = places(one);
    let mut text = Vec::new();
    let mut best = curve::best(&one).map(|(block, rate)| (rate, 1, block));
    for (threads, points) in curves.iter().filter(|(threads, _)| *threads > 1) {
        let many = places(points);
        text.push(match curve::pays_from(&one, &many) {
            Some(from) => format!("{threads} threads pay from {} on", binary_size(from as i64)),
            None => format!("{threads} threads do not pay up to the largest block"),
        });
        let their = curve::best(&many).map(|(block, rate)| (rate, *threads, block));
        best = [best, their].into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0));
    }
    let (rate, number, block) = best.filter(|_| !text.is_empty())?;
    let plural = if number == 1 { "" } else { "s" };
    text.push(format!(
        "best: {number} thread{plural} with {}, {}",
        binary_size(block as i64),
        quantity(rate, Unit::BytesPerSecond)
    ));
    Some(format!("{}: {}", word(state.name), text.join("; ")))
}
