//! `fathom file cache`: what the page cache makes of a file: read cold, a second and a third time.

use fathom_analysis::statistics;
use fathom_fileio::Source;
use fathom_record::{Params, Record};
use fathom_report::binary_size;

use super::read::Pass;
use super::series::{Manner, Series};
use super::session::{Session, refuse, shown, size};
use super::temporary::{Folder, Temporary, announce};
use super::{MIB, state};
use crate::arguments::file::StateName;
use crate::arguments::file::cache::CacheArguments;
use crate::exit::Status;

/// Caching matters from here on: the second read is so many times as fast as the first.
const MATTERS: f64 = 1.5;
/// Reads of a round: cold, a second and a third.
const READS: usize = 3;
/// So many rounds of one process may have an interval, and the seed of its bootstrap.
const ROUNDS_MIN: usize = 6;
const SEED: u64 = 1;

pub(super) fn cache(arguments: &CacheArguments) -> anyhow::Result<Status> {
    let named = match &arguments.file {
        Some(path) => {
            let source = Source::open(path).map_err(refuse)?;
            if source.subject().size.is_none_or(|bytes| bytes == 0) {
                let path = shown(path);
                return Err(refuse(format!(
                    "{path} has no size, or none above 0: it has no pages"
                )));
            }
            Some(source)
        }
        None => None,
    };
    let sizes = arguments.sizes.as_ref().map_or(&[][..], |sizes| &sizes.0);
    let folder = match &named {
        Some(_) => None,
        None => Some(Folder::choose(arguments.temporary.folder.as_deref())?),
    };
    let largest = sizes.last().copied().unwrap_or_default();
    if let Some(folder) = &folder {
        folder.check(largest)?;
    }
    let asked = match &arguments.file {
        Some(path) => format!("file cache {}", shown(path)),
        None => "file cache".to_owned(),
    };
    let mut session = Session::begin(&arguments.common, asked)?;
    session.recall(super::MODEL_INPUTS);
    if let Some(source) = &named {
        one(&mut session, source, arguments)?;
    }
    if let Some(folder) = &folder {
        let times = (arguments.blocks.0.len() * READS) as u64 * u64::from(arguments.rounds);
        let read = size(sizes.iter().sum::<u64>().saturating_mul(times));
        let yes = arguments.temporary.yes;
        if let Some(status) =
            announce(&mut session, folder, largest, &format!("and reads {read}"), yes)
        {
            return Ok(status);
        }
        let mut file = Temporary::new(folder)?;
        for bytes in sizes {
            let bar = session.bar(*bytes);
            bar.set_message(format!("writing {}", size(*bytes)));
            let is_made = file.resize(*bytes, session.stop().now(), &bar)?;
            bar.finish_and_clear();
            if !is_made || !one(&mut session, file.source(), arguments)? {
                break;
            }
        }
    }
    session.end()
}

/// What was read with one block.
struct Block {
    block: usize,
    /// The first, the second and the third reads, a pass for each round.
    reads: [Series; READS],
    cold: Record,
    warm: Record,
}

/// One file with all blocks; false where a person stopped it.
fn one(session: &mut Session, source: &Source, arguments: &CacheArguments) -> anyhow::Result<bool> {
    session.say_facts(&[("file", state::place(source))]);
    let head = format!(
        "\n{:>10}{:>10}{:>12}{:>12}  {}\n",
        "block", "read", "MiB/s", "seconds", "in memory before"
    );
    session.say(&head);
    let mut blocks = Vec::new();
    let mut goes_on = true;
    for block in &arguments.blocks.0 {
        let (taken, on) = rounds(session, source, *block, arguments.rounds)?;
        goes_on = on;
        if let Some(taken) = taken {
            session.say(&lines(&taken));
            blocks.push(taken);
        }
        if !goes_on {
            break;
        }
    }
    tell(session, source, &blocks);
    Ok(goes_on)
}

/// The rounds with one block. A round that is not whole counts for nothing.
fn rounds(
    session: &mut Session,
    source: &Source,
    block: usize,
    rounds: u32,
) -> anyhow::Result<(Option<Block>, bool)> {
    // The second and the third find what the read before them left: nothing is done between.
    let states = [StateName::Cold, StateName::AsIs, StateName::AsIs];
    let mut reads = states.map(|state| Series::new(Manner::whole(block, state)));
    let bar = session.bar(u64::from(rounds));
    bar.set_message(binary_size(block as i64));
    let mut goes_on = true;
    for _ in 0..rounds {
        for series in &mut reads {
            goes_on &= goes_on && series.pass(session, source, None)?;
        }
        bar.inc(1);
        if !goes_on {
            break;
        }
    }
    bar.finish_and_clear();
    let whole = reads.iter().map(|series| series.passes.len()).min().unwrap_or(0);
    reads.iter_mut().for_each(|series| series.passes.truncate(whole));
    if whole == 0 {
        return Ok((None, goes_on));
    }
    let cold = reads[0].record(session, source, &Params::none());
    let [_, second, third] = &reads;
    let warm =
        session.record(second.with(third, StateName::Warm).measured(source, &Params::none()));
    Ok((Some(Block { block, reads, cold, warm }), goes_on))
}

/// Three lines for a block: what each read gave, and what of the file was in memory before it.
fn lines(taken: &Block) -> String {
    let mut text = String::new();
    for (name, series) in ["first", "second", "third"].into_iter().zip(&taken.reads) {
        let record = if name == "first" { &taken.cold } else { &taken.warm };
        let (rate, seconds) = match series.middle().filter(|_| record.verdict.shows_number()) {
            Some(pass) => (format!("{:.0}", pass.rate() / MIB), format!("{:.6}", pass.seconds())),
            None => ("–".to_owned(), record.verdict.state.word().to_owned()),
        };
        let block = if name == "first" { binary_size(taken.block as i64) } else { String::new() };
        let proof = proof(&series.passes);
        text += &format!("{block:>10}{name:>10}{rate:>12}{seconds:>12}  {proof}\n");
    }
    text
}

/// The state before the last pass with its proof, and in how many passes it was another.
fn proof(passes: &[Pass]) -> String {
    let Some(last) = passes.last() else { return String::new() };
    let word = |pass: &Pass| state::word(pass.before.state);
    let briefly = state::briefly(&last.before);
    match passes.iter().filter(|pass| word(pass) != word(last)).count() {
        0 => briefly,
        some => format!("{briefly}; another in {some} of {}", passes.len()),
    }
}

/// What the first and the second read took in each round.
fn times([first, second, _]: &[Series; READS]) -> [Vec<f64>; 2] {
    [first, second].map(|series| series.passes.iter().map(|pass| pass.outcome.ns).collect())
}

/// The ratios, from which block on caching matters, and what would be thought of both.
fn tell(session: &mut Session, source: &Source, blocks: &[Block]) {
    let believed =
        |one: &&Block| [&one.cold, &one.warm].iter().all(|record| record.verdict.shows_number());
    let mut facts = Vec::new();
    let mut medians = Vec::new();
    for one in blocks {
        let block = binary_size(one.block as i64);
        if !believed(&one) {
            let records = [&one.cold, &one.warm];
            let reasons = records.iter().flat_map(|record| &record.verdict.reasons);
            let why = reasons.map(|reason| reason.text.as_str()).next().unwrap_or("no number");
            facts.push(("cold ÷ warm", format!("{block}: none, {why}")));
            continue;
        }
        let [cold, warm] = times(&one.reads);
        let Some(ratio) = statistics::ratio_of_medians(&warm, &cold, SEED) else { continue };
        let median = ratio.ratio;
        let within = match cold.len() >= ROUNDS_MIN {
            true => format!(" ({:.2} to {:.2}, within this run)", ratio.low, ratio.high),
            false => format!(" (no interval below {ROUNDS_MIN} rounds)"),
        };
        let thought = thought(session, source, one)
            .map_or(String::new(), |ratio| format!("; {ratio:.2} by memory's bandwidth"));
        facts.push(("cold ÷ warm", format!("{block}: {median:.2}{within}{thought}")));
        medians.push((one.block, median));
    }
    if let Some(text) = matters(&medians) {
        facts.push(("caching", text));
    }
    session.say("\n");
    session.say_facts(&facts);
    let name = shown(&source.subject().path);
    for (what, text) in &facts {
        session.note(format!("{name}: {what} {text}"));
    }
}

/// From which block on caching matters; none where nothing was measured.
fn matters(medians: &[(usize, f64)]) -> Option<String> {
    let (largest, _) = medians.last()?;
    let small = medians.iter().rev().take_while(|(_, ratio)| *ratio >= MATTERS);
    Some(match small.last() {
        Some((block, _)) => format!(
            "matters from {} on: the second read is at least {MATTERS} × as fast as the first",
            binary_size(*block as i64)
        ),
        None if medians.iter().any(|(_, ratio)| *ratio >= MATTERS) => {
            "differs from block to block: see the ratios".to_owned()
        }
        None => format!(
            "does not matter up to {}: no second read is {MATTERS} × as fast as the first",
            binary_size(*largest as i64)
        ),
    })
}

/// The ratio that is to be thought of: the device as it was measured, against calls and bytes as
/// earlier results have them.
fn thought(session: &Session, source: &Source, one: &Block) -> Option<f64> {
    let known = session.known();
    let known = fathom_probes::Known::new(&known);
    let call = known.quantity("os.syscall", &Params::one("call", "read1"))?.value;
    let dram = Params::one("op", "read").and("threads", 1).and("level", "dram").and("page", "huge");
    let bandwidth = known.quantity("memory.bandwidth", &dram)?.value;
    let bytes = source.subject().size? as f64;
    let warm_ns = bytes / one.block as f64 * call + 1e9 * bytes / bandwidth;
    Some(1e9 * one.reads[0].middle()?.seconds() / warm_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caching_matters_from_the_first_block_with_which_it_pays() {
        let told = |medians: &[(usize, f64)]| matters(medians).unwrap_or_default();
        assert!(
            told(&[(4096, 1.2), (65536, 1.5), (1 << 20, 4.0)]).starts_with("matters from 64 KiB")
        );
        assert!(told(&[(4096, 1.2), (65536, 1.49)]).starts_with("does not matter up to 64 KiB"));
        assert_eq!(matters(&[]), None);
    }
}
