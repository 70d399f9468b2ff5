//! file.capacity: how large a file stays in memory. `fathom file capacity` finds it.

mod knee;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use fathom_analysis::statistics;
use fathom_fileio::memory::Pages;
use fathom_fileio::room::{self, Room};
use fathom_fileio::{residency, traffic};
use fathom_measure::Clock;
use fathom_metric::notation::bytes;
use fathom_metric::{
    About, ByHand, Ending, Event, Inputs, Measured, Procedure, ProcedureError, Recorder,
};
use fathom_record::quantity::{percent, quantity};
use fathom_record::{
    Better, Cause, Fact, Host, NoModel, Origin, Params, Prediction, State, Unit, Verdict,
};
use rustix::fs::{Advice, fadvise};

use self::knee::{Knee, Look, Search};
use super::by_hand::{checked, size};
use super::temporary::{Folder, Temporary};

/// file.capacity.
pub struct Capacity;

static ABOUT: About = About {
    id: "file.capacity",
    title: "page cache",
    unit: Unit::Bytes,
    better: Better::Higher,
    timed: "nothing: the largest file that is still in memory as a whole after it was read twice, \
            by the kernel's count of its pages, found to 2 %",
    not_timed: "the time of a block, which is told beside every size, with its deviation",
    model: "what a new program could have (MemAvailable), or what the control group's limit leaves",
    source: "Linux mm/show_mem.c: si_mem_available; mm/memcontrol.c charges pages of files to the \
             group that reads them first",
    pitfalls: &[
        "a size that is looked at once while another program takes memory seems too large: it is \
         looked at twice before it counts",
        "the reading itself decides what stays: a file a little too large, read from its beginning \
         again and again, may lose nearly all of itself",
        "pages that wait to be written count as memory: all is written before it is read",
        "in a group of version 1 an order of magnitude smaller than the machine, the kernel's own \
         pages for the file count too",
    ],
    published: "2016: 5.5 of 8 GB",
    ..super::BASE
};

/// Memory that is free for pages is not free to the last: watermarks, and the kernel's own pages
/// for the file.
const TOLERANCE: f64 = 0.15;

/// What it should be by the room there was before it began, which no earlier result tells.
fn prediction(room_bytes: f64, origin: Origin) -> Prediction {
    Prediction::sum(room_bytes, 0.0, TOLERANCE, "room for pages beforehand", ABOUT.source)
        .with_quantity("room", room_bytes, Unit::Bytes, origin)
        .if_above("memory was freed meanwhile, or other programs were pushed out of it")
        .if_below(
            "others took memory meanwhile, or the kernel keeps what was used often before and \
             gives a file that is read from end to end only a part",
        )
}

impl ByHand for Capacity {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn predict(&self, _: &Params, host: &Host, _: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let limit = host.cgroup.memory_limit_bytes;
        let room = host.memory.available_bytes.into_iter().chain(limit).min();
        let room = room.ok_or_else(|| NoModel::unknown_fact(&["memory.available_bytes"]))?;
        Ok(prediction(room as f64, Origin::host(host, "memory.available_bytes")))
    }
}

const EXAMPLES: &str = "\
Examples:
  fathom file capacity                 how large a file stays in memory; asks before it writes
  fathom file capacity --yes           without asking
  fathom file capacity --max 4GiB      no larger than that: is that much cached?

A file grows, and each time is read twice. Where the second time no longer comes from memory as a
whole, the page cache ends. It pushes what other programs have read out of memory, and writes as
much as the machine has memory; nobody is asked where there is no terminal.";

/// How large a file stays in memory, found by reading ever larger ones twice.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct FindCapacity {
    /// The largest file to make [default: all of the memory, within what is free on the disk].
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    max: Option<u64>,
    /// Go on without asking.
    #[arg(long, short)]
    yes: bool,
    /// Where the file may lie [default: /var/tmp, or the current folder].
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// The file grows by so much, or by a part of what is predicted.
const STEP: u64 = 1 << 30;
const PARTS: u64 = 16;
/// Sizes are multiples of this.
const GRAIN: u64 = 1 << 20;
/// Read at a time.
const CHUNK: usize = 1 << 20;
/// The usual block, in which times are told.
const BLOCK: usize = 4096;
/// Less of a file than this was not in memory as a whole. Reclaim takes pages here and there from
/// a file that fits, and a whole file that does not.
const WHOLE: f64 = 0.995;

/// What was seen at one size.
struct Point {
    bytes: u64,
    /// What 4 KiB took at the second time, and its standard deviation over the chunks.
    ns: f64,
    deviation: f64,
    /// How much was in memory after each time.
    resident: [f64; 2],
    /// Bytes that came from devices the second time.
    device: Option<u64>,
}

impl Point {
    fn stays(&self) -> bool {
        let fetched = self.device.map_or(0.0, |bytes| bytes as f64 / self.bytes as f64);
        self.resident.iter().all(|&share| share >= WHOLE) && fetched <= 1.0 - WHOLE
    }

    fn words(&self) -> String {
        let time = |ns| quantity(ns, Unit::Nanoseconds);
        format!(
            "{}: 4 KiB take {} ± {}; {} in memory after the first time, {} after the second{}",
            size(self.bytes),
            time(self.ns),
            time(self.deviation),
            percent(self.resident[0]),
            percent(self.resident[1]),
            if self.stays() { "" } else { ": does not stay" }
        )
    }
}

impl Procedure for FindCapacity {
    fn check(&self) -> Result<(), ProcedureError> {
        let folder = Folder::on_device(self.folder.as_deref())?;
        search(self, &folder, &room()?).map(|_| ())
    }

    fn run(&self, recorder: &mut dyn Recorder) -> Result<Ending, ProcedureError> {
        let folder = Folder::on_device(self.folder.as_deref())?;
        let room = room()?;
        let search = search(self, &folder, &room)?;
        let (most, reads) = (size(search.most), size(search.reads()));
        let folder_words = folder.words();
        let text = format!(
            "writes {most} at most to {folder_words}, and reads {reads} at most; {} predicted ({})",
            size(room.bytes),
            room.source
        );
        if !recorder.confirm(&text, !self.yes) {
            return Ok(Ending::Stopped);
        }
        let mut file = Temporary::new(&folder)?;
        let mut points = Vec::new();
        let knee = search.knee(|bytes| -> Result<Look, ProcedureError> {
            let Some(point) = look(&mut file, bytes, recorder)? else { return Ok(Look::Stopped) };
            let what = point.words();
            recorder.event(Event::Progress { done: bytes, all: search.most, what: &what });
            let seen = if point.stays() { Look::Stays } else { Look::Leaves };
            points.push(point);
            Ok(seen)
        })?;
        recorder.record(measured(knee, &search, &room, &points));
        Ok(if matches!(knee, Knee::Above(_)) { Ending::NotFound } else { Ending::Done })
    }
}

/// The memory that a file may have.
fn room() -> Result<Room, ProcedureError> {
    room::now().ok_or_else(|| ProcedureError::failed("/proc/meminfo tells no memory"))
}

/// Every size that was looked at, and the two between which the page cache ends.
fn facts(knee: Knee, room: &Room, points: &[Point]) -> Vec<Fact> {
    let predicted = format!("{} ({})", size(room.bytes), room.source);
    let mut facts = vec![Fact::text("room", predicted)];
    facts.extend(points.iter().map(|point| Fact::text("size", point.words())));
    facts.push(match knee {
        Knee::Found { stays, leaves } => {
            Fact::text("capacity", format!("{} stay, {} do not", size(stays), size(leaves)))
        }
        Knee::Above(bytes) | Knee::Stopped(bytes) => {
            Fact::text("capacity", format!("at least {}", size(bytes)))
        }
    });
    facts
}

/// How the search goes here.
fn search(options: &FindCapacity, folder: &Folder, room: &Room) -> Result<Search, ProcedureError> {
    let free = folder.free()?;
    let wanted = options.max.unwrap_or(room.limit);
    let most = wanted.min(free);
    let step = (room.bytes.min(most) / PARTS).min(STEP) / GRAIN * GRAIN;
    let search = Search { step: step.max(GRAIN), most, grain: GRAIN };
    if search.most < search.grain {
        let error = match wanted < GRAIN {
            true => ProcedureError::Usage,
            false => ProcedureError::Failed,
        };
        return Err(error(format!(
            "a file of {} at least is needed, and {} may be written in {} (--max {}); give more, \
             or another --folder",
            size(GRAIN),
            size(free),
            folder.words(),
            size(wanted)
        )));
    }
    Ok(search)
}

/// Reads the first bytes of the file twice; none where it was told to stop.
fn look(
    file: &mut Temporary,
    bytes: u64,
    recorder: &mut dyn Recorder,
) -> Result<Option<Point>, ProcedureError> {
    // A size below one that was looked at is the beginning of the same file.
    if bytes > file.bytes() && !file.resize(bytes, recorder)? {
        return Ok(None);
    }
    let file = file.file();
    let (clock, stop) = (recorder.clock(), recorder.stop().now());
    // What lies behind has been written or read before, and would count against the rest.
    fadvise(file, bytes, None, Advice::DontNeed)?;
    let resident = || residency::of(file).cached.min(bytes) as f64 / bytes as f64;
    if pass(file, bytes, clock, stop)?.is_none() {
        return Ok(None);
    }
    let first = resident();
    let before = traffic::fetched();
    let Some(times) = pass(file, bytes, clock, stop)? else { return Ok(None) };
    let device = traffic::since(before);
    let ns = statistics::mean(&times).unwrap_or(f64::NAN);
    let deviation = statistics::standard_deviation(&times).unwrap_or(0.0);
    Ok(Some(Point { bytes, ns, deviation, resident: [first, resident()], device }))
}

/// Reads the first bytes of a file: what 4 KiB took in each chunk.
fn pass(
    file: &std::fs::File,
    bytes: u64,
    clock: &Clock,
    stop: &AtomicBool,
) -> Result<Option<Vec<f64>>, ProcedureError> {
    let mut chunk = Pages::new(CHUNK)?;
    let mut times = Vec::new();
    let mut at = 0;
    while at < bytes {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let begin = clock.start();
        let read = rustix::io::pread(file, &mut chunk[..], at)?;
        let ns = clock.ns(begin, clock.stop());
        if read == 0 {
            return Err(ProcedureError::failed(format!("the temporary file ended at byte {at}")));
        }
        times.push(ns * BLOCK as f64 / read as f64);
        at += read as u64;
    }
    Ok(Some(times))
}

fn measured(knee: Knee, search: &Search, room: &Room, points: &[Point]) -> Measured {
    let (values, verdict) = match knee {
        Knee::Found { stays, .. } => (vec![stays as f64], None),
        // What is known by then is a lower limit, and said to be stopped.
        Knee::Stopped(stays) if stays > 0 => (vec![stays as f64], None),
        Knee::Stopped(_) => {
            let text = "stopped before any size was seen to stay";
            (Vec::new(), Some(Verdict::because(State::Unavailable, Cause::Interrupted, text)))
        }
        Knee::Above(stays) => {
            let most = size(search.most);
            let text = format!(
                "even {} stays in memory, and no file larger than {most} was to be made (--max, \
                 or the free space)",
                size(stays)
            );
            (Vec::new(), Some(Verdict::because(State::Unavailable, Cause::Missing, text)))
        }
    };
    Measured {
        metric: ABOUT.id,
        params: Params::none(),
        values,
        // Who takes time from this process takes no memory from the file: nothing is counted.
        checks: checked(vec![
            ("sizes looked at", points.len().to_string()),
            ("room beforehand", format!("{} ({})", room.bytes, room.source)),
        ]),
        verdict,
        facts: facts(knee, room, points),
        prediction: Some(prediction(
            room.bytes as f64,
            Origin::Counted { at: room.source.clone() },
        )),
        ..Measured::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tighter_of_machine_and_group_is_the_room() {
        let mut host = Host::default();
        let predict = |host: &Host| Capacity.predict(&Params::none(), host, &Inputs::new(&[]));
        assert!(predict(&host).is_err());
        host.memory.available_bytes = Some(8 << 30);
        assert_eq!(predict(&host).map(|it| it.value), Ok(Some(8.0 * f64::from(1 << 30))));
        host.cgroup.memory_limit_bytes = Some(1 << 30);
        assert_eq!(predict(&host).map(|it| it.value), Ok(Some(f64::from(1 << 30))));
    }
}
