//! `fathom file capacity`: how large a file stays in memory.

mod knee;

use std::sync::atomic::{AtomicBool, Ordering};

use fathom_analysis::statistics;
use fathom_fileio::memory::Pages;
use fathom_fileio::residency;
use fathom_fileio::room::{self, Room};
use fathom_measure::Clock;
use fathom_probes::file::capacity::prediction;
use fathom_record::{Cause, Params, State, Unit, Verdict};
use fathom_report::{percent, quantity};
use indicatif::ProgressBar;
use rustix::fs::{Advice, fadvise};

use super::session::{Measured, Session, checked, refuse, size};
use super::temporary::{Folder, Temporary};
use crate::arguments::file::CapacityArguments;
use crate::exit::Status;
use knee::{Knee, Look, Search};

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

    fn told(&self) -> String {
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

pub(super) fn capacity(arguments: &CapacityArguments) -> anyhow::Result<Status> {
    let folder = Folder::on_device(arguments.folder.as_deref())?;
    let room = room::now().ok_or_else(|| anyhow::anyhow!("/proc/meminfo tells no memory"))?;
    let search = search(arguments, &folder, &room)?;
    let (most, reads) = (size(search.most), size(search.reads()));
    let what = format!("writes {most} at most to {}, and reads {reads} at most", folder.told());
    let mut session = Session::begin(&arguments.common, "file capacity".to_owned())?;
    session.say_facts(&[
        ("predicted", format!("{} ({})", size(room.bytes), room.source)),
        ("temporary", what.clone()),
    ]);
    if !arguments.yes && !session.may_go_on(&what) {
        crate::terminal::warn("not done, as was answered");
        return Ok(Status::Interrupted);
    }
    let mut file = Temporary::new(&folder)?;
    let mut points = Vec::new();
    let knee = search.knee(|bytes| -> anyhow::Result<Look> {
        let stop = session.stop().now();
        let point = look(&mut file, bytes, session.clock(), stop)?;
        let Some(point) = point else { return Ok(Look::Stopped) };
        session.say(&format!("{}\n", point.told()));
        let seen = if point.stays() { Look::Stays } else { Look::Leaves };
        points.push(point);
        Ok(seen)
    })?;
    let record = session.record(measured(knee, &search, &room, &points));
    let text = match knee {
        Knee::Found { stays, leaves } => format!("{} stay, {} do not", size(stays), size(leaves)),
        Knee::Above(bytes) | Knee::Stopped(bytes) => format!("at least {}", size(bytes)),
    };
    session.say_facts(&[("capacity", text)]);
    session.say_standing(&record);
    match (session.end()?, knee) {
        (Status::Done, Knee::Above(_)) => Ok(Status::Incomplete),
        (status, _) => Ok(status),
    }
}

/// How the search goes here.
fn search(arguments: &CapacityArguments, folder: &Folder, room: &Room) -> anyhow::Result<Search> {
    let free = folder.free()?;
    let wanted = arguments.max.unwrap_or(room.limit);
    let most = wanted.min(free);
    let step = (room.bytes.min(most) / PARTS).min(STEP) / GRAIN * GRAIN;
    let search = Search { step: step.max(GRAIN), most, grain: GRAIN };
    if search.most < search.grain {
        return Err(refuse(format!(
            "a file of {} at least is needed, and {} may be written in {} (--max {}); give more, \
             or another --folder",
            size(GRAIN),
            size(free),
            folder.told(),
            size(wanted)
        )));
    }
    Ok(search)
}

/// Reads the first bytes of the file twice; none where it was told to stop.
fn look(
    file: &mut Temporary,
    bytes: u64,
    clock: &Clock,
    stop: &AtomicBool,
) -> anyhow::Result<Option<Point>> {
    // A size below one that was looked at is the beginning of the same file.
    if bytes > file.bytes() && !file.resize(bytes, stop, &ProgressBar::hidden())? {
        return Ok(None);
    }
    let file = file.file();
    // What lies behind has been written or read before, and would count against the rest.
    fadvise(file, bytes, None, Advice::DontNeed)?;
    let resident = || residency::of(file).cached.min(bytes) as f64 / bytes as f64;
    if pass(file, bytes, clock, stop)?.is_none() {
        return Ok(None);
    }
    let first = resident();
    let before = fathom_fileio::traffic::fetched();
    let Some(times) = pass(file, bytes, clock, stop)? else { return Ok(None) };
    let device = before
        .zip(fathom_fileio::traffic::fetched())
        .map(|(before, after)| after.saturating_sub(before));
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
) -> anyhow::Result<Option<Vec<f64>>> {
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
        anyhow::ensure!(read > 0, "the temporary file ended at byte {at}");
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
        metric: "file.capacity",
        params: Params::none(),
        values,
        // Who takes time from this process takes no memory from the file: nothing is counted.
        checks: checked(vec![
            ("sizes looked at", points.len().to_string()),
            ("room beforehand", format!("{} ({})", room.bytes, room.source)),
        ]),
        verdict,
        notes: points.iter().map(Point::told).collect(),
        prediction: Some(prediction(room.bytes as f64, &room.source)),
        ..Measured::default()
    }
}
