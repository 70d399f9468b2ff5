//! Lanes: threads that wait for devices, so that no reactor does.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use fathom_fileio::memory::Pages;
use fathom_fileio::residency::cached_pages;
use fathom_measure::clock::monotonic_raw_ns;
use rustix::fs::{Advice, fadvise, sendfile};
use rustix::io::Errno;

use crate::dose::{self, Dose};
use crate::mailbox::Mail;
use crate::page::{Made, Page};
use crate::refusal::Refusal;
use crate::root::Opened;
use crate::send::Response;
use crate::shared::{Handle, Shared};

/// Attempts to evict a file after its response: its pages stay while they are in a socket's
/// buffer.
const EVICTIONS_MAX: u32 = 100;
const EVICTION_PAUSE: Duration = Duration::from_millis(1);
/// Files that wait to be evicted; each is an open descriptor.
pub(crate) const EVICTIONS_WAITING_MAX: usize = 256;
/// Requests to the service itself that wait.
pub(crate) const CONTROL_MAX: usize = 32;

/// Whether nobody waits for a piece of work any more.
pub(crate) type IsOver<'o> = &'o (dyn Fn() -> bool + Sync);

/// Who waits for a lane.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) reactor: usize,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    pub(crate) is_cancelled: Arc<AtomicBool>,
}

impl Ticket {
    /// Whether the connection is gone, or the service stops: long work ends.
    pub(crate) fn is_over(&self, shared: &Shared) -> bool {
        self.is_left() || shared.stops()
    }

    pub(crate) fn is_left(&self) -> bool {
        self.is_cancelled.load(Relaxed)
    }
}

#[derive(Debug)]
pub(crate) enum Work {
    Open(Vec<u8>, Dose),
    /// Read the next window of the response's file.
    Load(Box<Response>),
    Page(Page),
}

#[derive(Debug)]
pub(crate) enum Done {
    Opened(Result<Opened, Refusal>),
    /// What could be read of the window.
    Loaded(Box<Response>, Result<(), Errno>),
    Made(Made),
    /// The lane has panicked.
    Failed,
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) ticket: Ticket,
    pub(crate) work: Work,
}

/// Which threads do a piece of work: long ones must not delay reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Page,
    /// What monitoring asks for.
    Control,
    Bulk,
    /// One at a time.
    Serial,
}

impl Kind {
    /// Name of its threads.
    fn name(self) -> &'static str {
        match self {
            Self::Read => "lane",
            Self::Page => "page",
            Self::Control => "control",
            Self::Bulk => "bulk",
            Self::Serial => "serial",
        }
    }
}

impl Work {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Open(_, dose) if dose.serial_ns > 0 => Kind::Serial,
            Self::Open(..) | Self::Load(_) => Kind::Read,
            Self::Page(page) => page.kind(),
        }
    }

    /// How long a connection waits for it, if `wait_ns` is for a page or a read.
    pub(crate) fn limit_ns(&self, wait_ns: u64) -> u64 {
        match self {
            Self::Page(Page::Disk(time_ms)) => wait_ns.saturating_add(time_ms * 1_000_000),
            // All files of the folder.
            Self::Page(Page::Evict | Page::Warm) => wait_ns.saturating_mul(10),
            _ => wait_ns,
        }
    }

    fn run(
        self,
        shared: &Shared,
        ticket: &Ticket,
        buffer: &mut Option<Pages>,
        nowhere: &File,
    ) -> Done {
        match self {
            Self::Open(path, dose) => {
                if dose.is_long() {
                    dose.spin();
                }
                let opened = shared.root.open_waiting(&path);
                if let Ok(opened) = &opened {
                    let is_over = &|| ticket.is_over(shared);
                    read_dose(&opened.file, buffer, dose.disk_bytes, is_over);
                }
                Done::Opened(opened)
            }
            Self::Load(mut response) => {
                let loaded = load(&mut response, nowhere);
                Done::Loaded(response, loaded)
            }
            Self::Page(page) => Done::Made(page.make(shared, ticket)),
        }
    }
}

/// Serves one queue until it is closed.
pub(crate) fn serve(shared: &Arc<Shared>, kind: Kind, nowhere: &File) {
    let mut buffer = None;
    while let Some(Job { ticket, work }) = shared.queue(kind).pop() {
        if ticket.is_left() {
            continue;
        }
        let work = match work {
            // Only the section is serial: what follows, such as a dose of the disk, is not.
            Work::Open(path, dose) if dose.serial_ns > 0 => {
                shared.trip();
                std::thread::sleep(Duration::from_nanos(dose.serial_ns));
                let work = Work::Open(path, Dose { serial_ns: 0, ..dose });
                // There is room: a connection has one job, and those of the others are dropped.
                shared.queue(Kind::Read).push(Job { ticket, work });
                continue;
            }
            work => work,
        };
        let done = catch_unwind(AssertUnwindSafe(|| {
            shared.trip();
            work.run(shared, &ticket, &mut buffer, nowhere)
        }));
        let (done, panic) = done.map_or_else(|it| (Done::Failed, Some(it)), |done| (done, None));
        let Ticket { reactor, slot, generation, .. } = ticket;
        shared.mailboxes[reactor].leave(Mail::Done { slot, generation, done });
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

/// Where direct reads are not possible, or the memory is short, the dose is none.
fn read_dose(file: &File, buffer: &mut Option<Pages>, bytes: u64, is_over: IsOver<'_>) {
    if bytes == 0 {
        return;
    }
    if buffer.is_none() {
        *buffer = Pages::new(dose::PIECE).ok();
    }
    if let Some(buffer) = buffer {
        let _ = dose::read_direct(file, buffer, 0, bytes, is_over);
    }
}

/// Reads the window of a response into memory, without copying it: to /dev/null by sendfile.
/// An error, or an end before the one that the head promises, counts where nothing was read.
fn load(response: &mut Response, nowhere: &File) -> Result<(), Errno> {
    let Some(part) = response.part() else { return Ok(()) };
    let (from, end) = part.window();
    let mut at = from;
    while at < end {
        let bytes = (end - at) as usize;
        match sendfile(nowhere, &part.file, Some(&mut at), bytes) {
            Err(Errno::INTR) => {}
            Ok(0) if at == from => return Err(Errno::NODATA),
            Err(error) if at == from => return Err(error),
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    response.set_loaded(at, monotonic_raw_ns());
    Ok(())
}

/// A file whose pages are to leave memory.
#[derive(Debug)]
pub(crate) struct Eviction {
    file: File,
    attempts: u32,
}

/// Evicts a file after its response.
pub(crate) fn evict_later(shared: &Shared, file: File) {
    if !shared.evictions.push(Eviction { file, attempts: 0 }) {
        shared.evictions_missed.fetch_add(1, Relaxed);
    }
}

/// Evicts files until the queue is closed.
pub(crate) fn evict(shared: &Shared) {
    while let Some(Eviction { file, attempts }) = shared.evictions.pop() {
        shared.trip();
        // They were only read: nothing is to be written back.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        match cached_pages(&file, 0, 0) {
            Ok(0) => {}
            Ok(_) if attempts < EVICTIONS_MAX => {
                if shared.evictions.len() == 0 {
                    std::thread::sleep(EVICTION_PAUSE);
                }
                if !shared.evictions.push(Eviction { file, attempts: attempts + 1 }) {
                    shared.evictions_missed.fetch_add(1, Relaxed);
                }
            }
            _ => _ = shared.evictions_missed.fetch_add(1, Relaxed),
        }
    }
}

/// The lanes of a service.
pub(crate) fn start(shared: &Arc<Shared>, lanes: usize) -> std::io::Result<Vec<Handle>> {
    let kinds = std::iter::repeat_n(Kind::Read, lanes).chain([
        Kind::Page,
        Kind::Control,
        Kind::Bulk,
        Kind::Serial,
    ]);
    let mut handles = Vec::new();
    for kind in kinds {
        let for_lane = Arc::clone(shared);
        // Before the service is ready: from then on only clients need descriptors.
        let nowhere = File::options().write(true).open("/dev/null")?;
        let run = move || serve(&for_lane, kind, &nowhere);
        handles.push(shared.spawn(kind.name().to_owned(), run)?);
    }
    if shared.cold {
        let for_lane = Arc::clone(shared);
        handles.push(shared.spawn("evict".to_owned(), move || evict(&for_lane))?);
    }
    Ok(handles)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;
    use crate::options::Options;

    #[test]
    fn files_that_stay_in_memory_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        // It is nowhere else than in memory.
        let file = memfd_create("file", MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&file, &[1; 5000]).unwrap();
        let mut options = Options::new(folder.path());
        options.listen = vec!["127.0.0.1:0".parse().unwrap()];
        let (shared, _) = crate::server::prepare(options).unwrap();
        let missed = || shared.evictions_missed.load(Relaxed);
        for _ in 0..=EVICTIONS_WAITING_MAX {
            evict_later(&shared, file.try_clone().unwrap().into());
        }
        assert_eq!((shared.evictions.len(), missed()), (EVICTIONS_WAITING_MAX, 1));
        std::thread::scope(|scope| {
            scope.spawn(|| evict(&shared));
            while missed() <= EVICTIONS_WAITING_MAX as u64 {
                std::thread::yield_now();
            }
            shared.close_queues();
        });
        assert_eq!(shared.evictions.len(), 0);
    }
}
