//! Lanes: threads that wait for devices, so that no reactor does.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fathom_fileio::memory::MemoryPages;
use fathom_fileio::residency::cached_pages;
use fathom_measure::clock::monotonic_raw_ns;
use rustix::fs::{Advice, fadvise, sendfile};
use rustix::io::Errno;

use crate::held::SMALL;
use crate::job::{Done, Eviction, Job, Kind, Work};
use crate::mailbox::Mail;
use crate::page::{Made, ServicePage};
use crate::refusal::Refusal;
use crate::send::SendResponse;
use crate::shared::{Handle, ServiceShared};
use crate::ticket::{IsOver, Ticket};
use crate::{cache, disk, dose, index, listing, media, metrics, telemetry};

/// Attempts to evict a file after its response: its pages stay while they are in a socket's
/// buffer.
const EVICTIONS_MAX: u32 = 100;
const EVICTION_PAUSE: Duration = Duration::from_millis(1);
/// Files that wait to be evicted; each is an open descriptor.
pub(crate) const EVICTIONS_WAITING_MAX: usize = 256;

/// Serves one queue until it is closed.
pub(crate) fn serve(shared: &Arc<ServiceShared>, kind: Kind, nowhere: &File) {
    let mut buffer = None;
    while let Some(Job { ticket, work }) = shared.queue(kind).pop() {
        if ticket.is_left() {
            continue;
        }
        let work = match work {
            // Only the section is serial: what follows, such as a dose of the disk, is not.
            Work::Open(mut request) if request.dose.serial_ns > 0 => {
                shared.trip();
                std::thread::sleep(Duration::from_nanos(request.dose.serial_ns));
                request.dose.serial_ns = 0;
                // There is room: a connection has one job, and those of the others are dropped.
                shared.queue(Kind::Read).push(Job { ticket, work: Work::Open(request) });
                continue;
            }
            work => work,
        };
        let done = catch_unwind(AssertUnwindSafe(|| {
            shared.trip();
            run(work, shared, &ticket, &mut buffer, nowhere)
        }));
        let (done, panic) = done.map_or_else(|it| (Done::Failed, Some(it)), |done| (done, None));
        shared.mailboxes[ticket.reactor].leave(Mail::Done { place: ticket.place, done });
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

/// Does a piece of work.
fn run(
    work: Work,
    shared: &ServiceShared,
    ticket: &Ticket,
    buffer: &mut Option<MemoryPages>,
    nowhere: &File,
) -> Done {
    match work {
        Work::Open(request) => {
            let dose = request.dose;
            if dose.is_long() {
                dose.spin();
            }
            let opened = shared.root.open_waiting(&request.path);
            if let Ok(opened) = &opened {
                let is_over = &|| shared.is_over(ticket);
                read_dose(&opened.file, buffer, dose.disk_bytes, is_over);
            }
            Done::Opened(request, opened)
        }
        Work::Load(mut response) => {
            let loaded = load(&mut response, nowhere);
            Done::Loaded(response, loaded)
        }
        Work::Page(page) => Done::Made(make(page, shared, ticket)),
    }
}

/// Makes a page as far as it is wanted.
pub(crate) fn make(page: ServicePage, shared: &ServiceShared, ticket: &Ticket) -> Made {
    let is_over = &|| shared.is_over(ticket);
    let (media, body) = match page {
        // It is finished while the service stops, as it would say that there is no more.
        ServicePage::Index { folder, path } => {
            let is_left = &|| ticket.is_left();
            match index::listing_of(&shared.root, &folder, &path, is_left) {
                Ok(html) => (media::HTML, html.into_bytes()),
                Err(_) => return Made::refusal(Refusal::Unreadable),
            }
        }
        ServicePage::Metrics => (media::OPENMETRICS, metrics::text(shared).into_bytes()),
        ServicePage::Telemetry => json(&telemetry::read(shared)),
        ServicePage::List => {
            let listing = listing::Listing::read(&shared.root, is_over);
            // It is not whole, and the end does not wait for 100,000 paths in JSON.
            if is_over() {
                return Made::refusal(Refusal::Stopping);
            }
            json(&listing)
        }
        ServicePage::Host => json(&fathom_measure::host::read()),
        ServicePage::Evict => json(&cache::evict(shared, is_over)),
        ServicePage::Warm => json(&cache::warm(shared, is_over)),
        ServicePage::Disk(time_ms) => {
            let rate = disk::measure(shared, time_ms, is_over);
            // Cut short: its last slots are no measurement.
            if is_over() {
                return Made::refusal(Refusal::Stopping);
            }
            json(&rate)
        }
    };
    let bytes = body.len() as u64;
    let held = shared.budget.hold(bytes);
    // Monitoring is answered whatever others hold.
    if held.is_none() && bytes > SMALL {
        return Made::refusal(Refusal::Held);
    }
    Made { status: 200, media, body, held }
}

fn json(value: &impl serde::Serialize) -> (&'static str, Vec<u8>) {
    let mut body = serde_json::to_vec(value).unwrap_or_default();
    body.push(b'\n');
    (media::JSON, body)
}

/// Where direct reads are not possible, or the memory is short, the dose is none.
fn read_dose(file: &File, buffer: &mut Option<MemoryPages>, bytes: u64, is_over: IsOver<'_>) {
    if bytes == 0 {
        return;
    }
    if buffer.is_none() {
        *buffer = MemoryPages::new(dose::PIECE).ok();
    }
    if let Some(buffer) = buffer {
        let _ = dose::read_direct(file, buffer, 0, bytes, is_over);
    }
}

/// Reads the window of a response into memory, without copying it: to /dev/null by sendfile.
/// An error, or an end before the one that the head promises, counts where nothing was read.
fn load(response: &mut SendResponse, nowhere: &File) -> Result<(), Errno> {
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

/// Evicts files until the queue is closed.
pub(crate) fn evict(shared: &ServiceShared) {
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
                shared.push_eviction(Eviction { file, attempts: attempts + 1 });
            }
            _ => _ = shared.evictions_missed.fetch_add(1, Relaxed),
        }
    }
}

/// The lanes of a service.
pub(crate) fn start(shared: &Arc<ServiceShared>, lanes: usize) -> std::io::Result<Vec<Handle>> {
    let mut handles = Vec::new();
    // Of all kinds one, and further ones that read.
    for kind in std::iter::repeat_n(Kind::Read, lanes - 1).chain(Kind::ALL) {
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
    fn long_work_that_is_cut_short_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::new(folder.path());
        options.listen = vec!["127.0.0.1:0".parse().unwrap()];
        let (shared, _) = crate::server::prepare(options).unwrap();
        let (ticket, claim) = Ticket::new(0, crate::ticket::TicketPlace::new(0));
        assert_eq!(make(ServicePage::Disk(1), &shared, &ticket).status, 200);
        assert_eq!(make(ServicePage::List, &shared, &ticket).status, 200);
        drop(claim);
        assert_eq!(make(ServicePage::Disk(60_000), &shared, &ticket).status, 503);
        assert_eq!(make(ServicePage::List, &shared, &ticket).status, 503);
    }

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
            shared.evict_later(file.try_clone().unwrap().into());
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
