//! `fathom file fast`: whole files, read and checked as fast as this machine can.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use fathom_fileio::fast::{Fast, From, Options, Part, fast as read_fast};
use fathom_fileio::read::{Fault, Way};
use fathom_fileio::subject::Kind;
use fathom_fileio::{Source, Sum, extents, traffic};
use fathom_measure::affinity;
use fathom_probes::Known;
use fathom_record::{Cause, Disturbance, Params, Reason, Record, Unit};
use fathom_report::{percent, quantity};

use super::found::Found;
use super::read::name_of;
use super::session::{Measured, Session, checked, refuse, shown, size};
use super::{MIB, state};
use crate::arguments::file::{FastArguments, PathName};
use crate::exit::Status;
use crate::terminal;

/// Files below this size are read by one thread each, several at a time.
const SMALL: u64 = 16 << 20;
/// So many files are told one by one.
const TOLD: usize = 1000;

/// What came of one file.
struct One {
    number: usize,
    state: &'static str,
    told: String,
    /// The share of data of a file that was not in memory; the rest is holes.
    data: Option<f64>,
    fast: Fast,
}

impl One {
    fn new(number: usize, source: &Source, fast: Fast) -> Self {
        let told = fast.before.as_ref().map_or_else(String::new, state::told);
        let state = fast.before.map_or("unknown", |before| state::word(before.state));
        let data = extents::of(source.file()).ok().filter(|_| state != "warm");
        Self { number, state, told, data: data.map(|found| found.share()), fast }
    }
}

/// What came of one pass over all of them.
#[derive(Default)]
struct Pass {
    ones: Vec<One>,
    ns: f64,
    /// Files that could not be opened or begun.
    failed: Vec<String>,
    /// Bytes that came from devices.
    device_bytes: Option<u64>,
    /// Threads that read small files side by side.
    beside: usize,
}

impl Pass {
    fn sum(&self) -> Sum {
        self.ones.iter().fold(Sum::default(), |mut sum, one| {
            sum.xor ^= one.fast.sum.xor;
            sum.position = sum.position.wrapping_add(one.fast.sum.position);
            sum.bytes += one.fast.sum.bytes;
            sum
        })
    }

    fn rate(&self) -> f64 {
        1e9 * self.sum().bytes as f64 / self.ns
    }

    fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.ones.iter().flat_map(|one| &one.fast.faults)
    }

    /// The most threads that read at once.
    fn threads(&self) -> usize {
        let parts = self.ones.iter().flat_map(|one| &one.fast.parts);
        parts.map(|part| part.choice.threads).fold(self.beside, usize::max)
    }

    /// In one word, what of the files was in memory.
    fn state(&self) -> &'static str {
        let words: Vec<&'static str> = self.ones.iter().map(|one| one.state).collect();
        super::state_of_all(&words)
    }
}

pub(super) fn fast(arguments: &FastArguments) -> anyhow::Result<Status> {
    let found = Found::of(&arguments.files, arguments.keep_going)?;
    let words: Vec<String> = arguments.files.iter().map(|word| shown(word)).collect();
    let mut session =
        Session::at_once(&arguments.common, format!("file fast {}", words.join(" ")))?;
    session.recall(&["memory.bandwidth"]);
    let mut passes: Vec<Pass> = Vec::new();
    let mut disturbance: Option<Disturbance> = None;
    for _ in 0..arguments.repeat {
        if session.stop().now().load(Ordering::Relaxed) && !passes.is_empty() {
            break;
        }
        let (pass, counted) = session.watched(found.bytes(), |progress| {
            session.observed(|_| pass(&session, arguments, &found, progress))
        });
        let pass = pass?;
        let counted = super::without_own_waits(counted, pass.threads());
        disturbance = Some(disturbance.map_or(counted.clone(), |sum| sum.plus(&counted)));
        passes.push(pass);
    }
    let last = &passes[passes.len() - 1];
    let not_read = || found.missing.iter().chain(&last.failed);
    let failed = not_read().next().is_some() || last.faults().next().is_some();
    for why in not_read() {
        terminal::warn(why);
    }
    let measured = measured(arguments, &found, &passes, disturbance.unwrap_or_default());
    let record = session.record(measured);
    say(&mut session, &record, arguments, &found, &passes);
    session.say_standing(&record);
    match session.end()? {
        Status::Done if failed => Ok(Status::Failed),
        status => Ok(status),
    }
}

fn options<'a>(
    session: &'a Session,
    arguments: &FastArguments,
    progress: Option<&'a AtomicU64>,
) -> Options<'a> {
    Options {
        way: arguments.path.map(|path| match path {
            PathName::Pread => Way::Pread,
            PathName::Mmap => Way::Map,
            PathName::Direct => Way::Ring { depth: fathom_fileio::fast::DEPTH },
        }),
        threads: arguments.threads.map(usize::from),
        cpus: affinity::allowed().len(),
        block: arguments.block,
        keep_going: arguments.keep_going,
        stop: session.stop().now(),
        progress,
    }
}

/// All files once: large ones one after another by all threads, small ones side by side.
fn pass(
    session: &Session,
    arguments: &FastArguments,
    found: &Found,
    progress: Option<&AtomicU64>,
) -> anyhow::Result<Pass> {
    let options = options(session, arguments, progress);
    let is_small = |number: &usize| found.files.len() > 1 && found.files[*number].1 < SMALL;
    let all = 0..found.files.len();
    let (small, large): (Vec<usize>, Vec<usize>) = all.partition(is_small);
    let clock = session.clock();
    let mut pass = Pass::default();
    let before = traffic::fetched();
    let begin = clock.start();
    for number in large {
        let one = one(session, &found.files[number].0, number, &options);
        let is_alone = found.files.len() == 1;
        match one {
            Ok(one) => pass.ones.push(one),
            Err(error) if arguments.keep_going && !is_alone => pass.failed.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    side_by_side(session, found, &small, &options, &mut pass);
    pass.ns = clock.ns(begin, clock.stop());
    pass.device_bytes =
        before.zip(traffic::fetched()).map(|(before, after)| after.saturating_sub(before));
    if let Some(first) = pass.failed.first().filter(|_| !arguments.keep_going) {
        return Err(refuse(first));
    }
    if pass.ones.is_empty() {
        return Err(refuse(pass.failed.first().map_or("nothing was read", String::as_str)));
    }
    pass.ones.sort_by_key(|one| one.number);
    Ok(pass)
}

/// One file, with what of it was in memory before.
fn one(
    session: &Session,
    path: &Path,
    number: usize,
    options: &Options<'_>,
) -> anyhow::Result<One> {
    let source = Source::open(path).map_err(refuse)?;
    if source.subject().kind == Kind::Character {
        let path = shown(path);
        return Err(refuse(format!("{path} has no end: `file read` reads so many blocks of it")));
    }
    let fast = read_fast(&source, options, session.clock())
        .map_err(|error| refuse(format!("read {}: {error}", shown(path))))?;
    Ok(One::new(number, &source, fast))
}

fn side_by_side(
    session: &Session,
    found: &Found,
    small: &[usize],
    options: &Options<'_>,
    pass: &mut Pass,
) {
    let next = AtomicUsize::new(0);
    let threads = options.threads.unwrap_or(options.cpus).clamp(1, small.len().max(1));
    // A file of a page or two is not worth a second thread, a ring or a trial.
    let options = Options { threads: Some(1), way: options.way.or(Some(Way::Pread)), ..*options };
    let clock = session.clock().specification();
    let (ones, failed) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let work = || {
        let clock = fathom_measure::Clock::from_specification(clock);
        while let Some(number) = small.get(next.fetch_add(1, Ordering::Relaxed)) {
            if options.stop.load(Ordering::Relaxed) {
                return;
            }
            let (path, _) = &found.files[*number];
            match small_one(path, *number, &options, &clock) {
                Ok(one) => ones.lock().unwrap_or_else(|held| held.into_inner()).push(one),
                Err(why) => failed.lock().unwrap_or_else(|held| held.into_inner()).push(why),
            }
        }
    };
    pass.beside = if small.is_empty() { 0 } else { threads };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    pass.ones.extend(ones.into_inner().unwrap_or_else(|held| held.into_inner()));
    pass.failed.extend(failed.into_inner().unwrap_or_else(|held| held.into_inner()));
}

fn small_one(
    path: &Path,
    number: usize,
    options: &Options<'_>,
    clock: &fathom_measure::Clock,
) -> Result<One, String> {
    let source = Source::open(path).map_err(|error| error.to_string())?;
    let fast = read_fast(&source, options, clock)
        .map_err(|error| format!("read {}: {error}", shown(path)))?;
    Ok(One::new(number, &source, fast))
}

fn measured(
    arguments: &FastArguments,
    found: &Found,
    passes: &[Pass],
    disturbance: Disturbance,
) -> Measured {
    let last = &passes[passes.len() - 1];
    let sum = last.sum();
    let states: Vec<&str> = passes.iter().map(Pass::state).collect();
    let params = Params::one("state", super::state_of_all(&states))
        .and("files", found.files.len() as i64)
        .and("file_bytes", sum.bytes as i64);
    let mut facts = vec![
        ("files", named(arguments)),
        ("bytes", sum.bytes.to_string()),
        ("XOR-32", format!("{:08x}", sum.xor)),
    ];
    if let [one] = last.ones.as_slice() {
        facts.push(("position sum", format!("{:016x}", sum.position)));
        facts.push(("in memory before", one.told.clone()));
    }
    let values = match sum.bytes {
        0 => Vec::new(),
        _ => passes.iter().map(Pass::rate).collect(),
    };
    let verdict = super::unreadable(passes.iter().flat_map(Pass::faults))
        .or_else(|| super::nothing_done(sum.bytes));
    let is_shown = verdict.is_none();
    let parts = parts(last).iter().map(|part| part_told(part, is_shown)).collect();
    Measured {
        metric: "file.fast",
        params,
        values,
        disturbance,
        checks: checked(facts),
        verdict,
        doubts: doubts(passes),
        notes: parts,
        ..Measured::default()
    }
}

/// What speaks against the number, or against the sums: files that changed, passes that differ,
/// holes that no device was asked for.
fn doubts(passes: &[Pass]) -> Vec<Reason> {
    let mut doubts = Vec::new();
    let mut doubt = |cause, text: String| doubts.push(Reason::new(cause, text));
    let ones = || passes.iter().flat_map(|pass| &pass.ones);
    let is_changed = |one: &&One| {
        one.fast.changed.is_some_and(|change| change.modified || change.size.0 != change.size.1)
    };
    let changed = ones().filter(is_changed).count();
    if changed > 0 || ones().any(|one| one.fast.ended_at.is_some()) {
        doubt(Cause::NotAsAsked, "what is read changed while it was read".to_owned());
    }
    let is_whole = |pass: &&Pass| !pass.ones.iter().any(|one| one.fast.stopped);
    let mut whole = passes.iter().filter(is_whole);
    let first = whole.next().map(|pass| (pass.sum().xor, pass.sum().position));
    if whole.any(|pass| Some((pass.sum().xor, pass.sum().position)) != first) {
        doubt(Cause::WrongWork, "the passes read different content".to_owned());
    }
    if let Some(share) = ones().filter_map(|one| one.data).reduce(f64::min).filter(|it| *it < 1.0) {
        let text = format!(
            "only {} of a file is data: holes and reserved space are read without a device",
            percent(share)
        );
        doubt(Cause::NotAsAsked, text);
    }
    let states: Vec<&str> = passes.iter().map(Pass::state).collect();
    doubts.extend(super::other_states(&states));
    doubts.extend(super::too_short(passes.iter().map(|pass| pass.ns)));
    doubts
}

fn named(arguments: &FastArguments) -> String {
    let names: Vec<String> = arguments.files.iter().map(|word| shown(word)).collect();
    names.join(" ")
}

/// What was read by each way, over all files.
fn parts(pass: &Pass) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for part in pass.ones.iter().flat_map(|one| &one.fast.parts) {
        let same = |other: &&mut Part| {
            other.from == part.from
                && other.choice == part.choice
                && other.is_trial == part.is_trial
        };
        match parts.iter_mut().find(same) {
            Some(known) => {
                known.bytes += part.bytes;
                known.ns += part.ns;
            }
            None => parts.push(part.clone()),
        }
    }
    parts
}

/// A part in words, with its rate where that may be shown.
fn part_told(part: &Part, is_shown: bool) -> String {
    let is_past = matches!(part.choice.way, Way::Direct | Way::Ring { .. });
    let from = match part.from {
        _ if is_past => "past the page cache",
        From::Memory => "from memory",
        From::Device => "from the device",
        From::Unknown => "from where cannot be told",
    };
    let threads = match part.choice.threads {
        1 => "1 thread".to_owned(),
        threads => format!("{threads} threads"),
    };
    let (bytes, block) = (size(part.bytes), size(part.choice.block as u64));
    let trial = if part.is_trial { " (tried)" } else { "" };
    let way = name_of(part.choice.way);
    let rate = match is_shown {
        true => format!(": {}{trial}", quantity(part.rate(), Unit::BytesPerSecond)),
        false => trial.to_owned(),
    };
    format!("{bytes} {from} by {way}, {threads}, blocks of {block}{rate}")
}

fn trial_told(part: &Part) -> String {
    let from = if part.from == From::Device { "from the device" } else { "from memory" };
    let (way, rate) = (name_of(part.choice.way), quantity(part.rate(), Unit::BytesPerSecond));
    format!("{way} {rate} on {} {from}", size(part.bytes))
}

fn say(
    session: &mut Session,
    record: &Record,
    arguments: &FastArguments,
    found: &Found,
    passes: &[Pass],
) {
    let is_shown = record.verdict.shows_number();
    let last = &passes[passes.len() - 1];
    let sum = last.sum();
    if let [one] = last.ones.as_slice() {
        let path = &found.files[one.number].0;
        let mut facts = vec![("file", shown(path)), ("before", one.told.clone())];
        facts.extend(last.ones[0].fast.ended_at.map(|at| ("ended", format!("at byte {at}"))));
        session.say_facts(&facts);
    } else {
        let list = listed(last, found);
        session.say(&list);
    }
    let mut facts = Vec::new();
    if found.files.len() > 1 {
        facts.push(("files", format!("{} read", last.ones.len())));
    }
    match found.missing.len() + last.failed.len() {
        0 => {}
        count => facts.push(("not read", format!("{count} files, as told above"))),
    }
    if found.left_out > 0 {
        let example = found.example.clone().unwrap_or_default();
        facts.push(("left out", format!("{}, such as: {example}", found.left_out)));
    }
    let (bytes, seconds) = (sum.bytes, last.ns / 1e9);
    if passes.len() > 1 {
        facts.push(("passes", format!("{}; what follows is of the last", passes.len())));
    }
    facts.push(("read", format!("{bytes} bytes = {:.3} MiB", bytes as f64 / MIB)));
    facts.extend(ways(last, is_shown));
    let elsewhere = last.ns - parts(last).iter().map(|part| part.ns).sum::<f64>();
    if last.ones.len() == 1 && elsewhere > 0.0 {
        let text = format!(
            "{:.6} s for the look at what is in memory, buffers and threads",
            elsewhere / 1e9
        );
        facts.push(("beside", text));
    }
    if let Some(reason) = reason(arguments, last) {
        facts.push(("because", reason));
    }
    facts.push(("time", format!("{seconds:.6} s")));
    if bytes > 0 {
        facts.push(("speed", super::speed_told(record, bytes, last.ns, None)));
    }
    if bytes > 0 && is_shown {
        facts.extend(ceiling(session, arguments, last).map(|text| ("ceiling", text)));
    }
    facts.extend(last.device_bytes.map(|bytes| ("from devices", super::bytes_told(bytes))));
    if last.ones.len() == 1 {
        facts.push(("XOR-32", format!("{:08x}", sum.xor)));
        facts.push(("position sum", format!("{:016x}", sum.position)));
    }
    facts.extend(last.faults().map(|fault| ("unreadable", super::fault_told(fault))));
    if last.ones.iter().any(|one| one.fast.stopped) {
        facts.push(("stopped", format!("after {bytes} bytes")));
    }
    session.say_facts(&facts);
}

/// The ways in which it was read, those that were tried, and those that were refused.
fn ways(pass: &Pass, is_shown: bool) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let (tried, read): (Vec<Part>, Vec<Part>) =
        parts(pass).into_iter().partition(|part| part.is_trial);
    for (number, part) in read.iter().enumerate() {
        facts.push((if number == 0 { "by" } else { "" }, part_told(part, is_shown)));
    }
    if !tried.is_empty() && is_shown {
        let words: Vec<String> = tried.iter().map(trial_told).collect();
        facts.push(("tried", words.join("; ")));
    }
    let mut refused: Vec<&String> = pass.ones.iter().flat_map(|one| &one.fast.refused).collect();
    refused.sort_unstable();
    refused.dedup();
    facts.extend(refused.into_iter().map(|why| ("not", why.clone())));
    facts
}

/// Why it was read in these ways.
fn reason(arguments: &FastArguments, pass: &Pass) -> Option<String> {
    if arguments.path.is_some() {
        return Some("--path fixes the way".to_owned());
    }
    let parts = parts(pass);
    let is_of = |from: From| parts.iter().any(|part| part.from == from && !part.is_trial);
    let is_past = parts
        .iter()
        .any(|part| !part.is_trial && matches!(part.choice.way, Way::Direct | Way::Ring { .. }));
    let tried = parts.iter().any(|part| part.is_trial);
    let mut why = Vec::new();
    if is_of(From::Memory) {
        why.push("what is in memory is quickest from there");
    }
    if is_past {
        why.push("what is not is read past the page cache, which spares a copy");
    }
    if tried {
        why.push("of the ways tried on the file itself the quickest read the rest");
    }
    (!why.is_empty()).then(|| why.join("; "))
}

/// How near it came to what all cores read of memory.
fn ceiling(session: &Session, arguments: &FastArguments, pass: &Pass) -> Option<String> {
    let known = session.known();
    let (most, origin) = match arguments.ceiling {
        Some(most) => (most as f64, "--ceiling".to_owned()),
        None => {
            let best = fathom_probes::file::bandwidth::all_cores(&Known::new(&known));
            let Some((name, most)) = best else {
                let text =
                    "not known: `fathom run memory.bandwidth` measures it, or give --ceiling";
                return Some(text.to_owned());
            };
            (most.value, name)
        }
    };
    let of = quantity(most, Unit::BytesPerSecond);
    Some(format!("{} of {of} ({origin})", percent(pass.rate() / most)))
}

/// A line for each file, as checking programs write them: sums first, name last.
fn listed(pass: &Pass, found: &Found) -> String {
    let line = |one: &One| {
        let path = shown(&found.files[one.number].0);
        let Sum { xor, position, bytes } = one.fast.sum;
        let state = one.state.to_uppercase();
        format!("{xor:08x} {position:016x} {bytes:>14} {state:<7} {path}\n")
    };
    let mut text: String = pass.ones.iter().take(TOLD).map(line).collect();
    if pass.ones.len() > TOLD {
        let more = pass.ones.len() - TOLD;
        text += &format!("… and {more} more files: --json has the sum of all\n");
    }
    text
}
