//! Responses that are made rather than read: folders, telemetry, listings and cache control.

use std::fs::File;

use crate::held::Held;
use crate::media;
use crate::refusal::Refusal;

/// Most time of one measurement of the disk.
pub(crate) const DISK_TIME_MS_MAX: u64 = 60_000;

#[derive(Debug)]
pub(crate) enum ServicePage {
    Index {
        folder: File,
        path: Vec<u8>,
    },
    Telemetry,
    Metrics,
    List,
    Host,
    Evict,
    Warm,
    /// For so many milliseconds.
    Disk(u64),
}

/// A body with its status and type.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) status: u16,
    pub(crate) media: &'static str,
    pub(crate) body: Vec<u8>,
    /// Of a body that may be large.
    pub(crate) held: Option<Held>,
}

impl Made {
    pub(crate) fn refusal(why: Refusal) -> Self {
        let body = format!("{} {}\n", why.status(), why.text()).into_bytes();
        Self { status: why.status(), media: media::TEXT, body, held: None }
    }
}
