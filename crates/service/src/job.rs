//! What lanes do, and for whom. How they do it is in `lane`.

use std::fs::File;

use rustix::io::Errno;

use crate::dose::Dose;
use crate::head::HeadConditions;
use crate::page::{Made, ServicePage};
use crate::refusal::Refusal;
use crate::root::Opened;
use crate::send::{Exchange, SendResponse};
use crate::ticket::Ticket;

/// A request for a file or a folder. It outlives its head while a lane opens what it asks for.
#[derive(Debug)]
pub(crate) struct FileRequest<B> {
    pub(crate) exchange: Exchange,
    pub(crate) is_get: bool,
    pub(crate) path: B,
    pub(crate) dose: Dose,
    pub(crate) conditions: HeadConditions<B>,
}

impl<B: AsRef<[u8]>> FileRequest<B> {
    pub(crate) fn map<'s, T>(&'s self, to: impl Fn(&'s [u8]) -> T) -> FileRequest<T> {
        let Self { exchange, is_get, ref path, dose, ref conditions } = *self;
        let path = to(path.as_ref());
        FileRequest { exchange, is_get, path, dose, conditions: conditions.map(to) }
    }
}

#[derive(Debug)]
pub(crate) enum Work {
    Open(Box<FileRequest<Vec<u8>>>),
    /// Read the next window of the response's file.
    Load(Box<SendResponse>),
    Page(ServicePage),
}

#[derive(Debug)]
pub(crate) enum Done {
    Opened(Box<FileRequest<Vec<u8>>>, Result<Opened, Refusal>),
    /// What could be read of the window.
    Loaded(Box<SendResponse>, Result<(), Errno>),
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
    /// The list of all files.
    List,
    /// What uses the disk for long, so that measurements of it do not disturb each other.
    Bulk,
    /// One at a time.
    Serial,
}

/// Requests to the service itself that wait.
pub(crate) const CONTROL_MAX: usize = 32;

// Name of its threads.
fathom_record::words!(
    Kind.name.ALL,
    Read = "lane",
    Page = "page",
    Control = "control",
    List = "list",
    Bulk = "bulk",
    Serial = "serial"
);

impl Kind {
    /// Jobs that may wait. A connection has one.
    pub(crate) fn waiting_max(self, connections_max: usize) -> usize {
        match self {
            Self::Control | Self::List | Self::Bulk => CONTROL_MAX,
            Self::Read | Self::Page | Self::Serial => connections_max,
        }
    }
}

impl Work {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Open(request) if request.dose.serial_ns > 0 => Kind::Serial,
            Self::Open(_) | Self::Load(_) => Kind::Read,
            Self::Page(ServicePage::Index { .. }) => Kind::Page,
            Self::Page(ServicePage::Telemetry | ServicePage::Metrics | ServicePage::Host) => {
                Kind::Control
            }
            Self::Page(ServicePage::List) => Kind::List,
            Self::Page(ServicePage::Evict | ServicePage::Warm | ServicePage::Disk(_)) => Kind::Bulk,
        }
    }

    /// How long a connection waits for it, if `wait_ns` is for a page or a read.
    pub(crate) fn limit_ns(&self, wait_ns: u64) -> u64 {
        match self {
            Self::Page(ServicePage::Disk(time_ms)) => wait_ns.saturating_add(time_ms * 1_000_000),
            // All files of the folder.
            Self::Page(ServicePage::Evict | ServicePage::Warm) => wait_ns.saturating_mul(10),
            _ => wait_ns,
        }
    }
}

/// A file whose pages are to leave memory.
#[derive(Debug)]
pub(crate) struct Eviction {
    pub(crate) file: File,
    pub(crate) attempts: u32,
}
