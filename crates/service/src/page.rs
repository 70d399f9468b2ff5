//! Responses that are made rather than read: folders, telemetry, listings and cache control.

use std::fs::File;

use crate::held::{Held, SMALL};
use crate::lane::{Kind, Ticket};
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::{cache, disk, index, listing, media, metrics, telemetry};

#[derive(Debug)]
pub(crate) enum Page {
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

impl Page {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Index { .. } => Kind::Page,
            Self::Telemetry | Self::Metrics | Self::Host => Kind::Control,
            Self::Evict | Self::Warm | Self::List | Self::Disk(_) => Kind::Bulk,
        }
    }

    pub(crate) fn is_work(&self) -> bool {
        matches!(self, Self::Index { .. })
    }

    /// Makes it as far as it is wanted.
    pub(crate) fn make(self, shared: &Shared, ticket: &Ticket) -> Made {
        let is_over = &|| ticket.is_over(shared);
        let (media, body) = match self {
            // It is finished while the service stops, as it would say that there is no more.
            Self::Index { folder, path } => {
                let is_left = &|| ticket.is_left();
                match index::of(&shared.root, &folder, &path, is_left) {
                    Ok(html) => (media::HTML, html.into_bytes()),
                    Err(_) => return Made::refusal(Refusal::Unreadable),
                }
            }
            Self::Metrics => (media::OPENMETRICS, metrics::text(shared).into_bytes()),
            Self::Telemetry => json(&telemetry::read(shared)),
            Self::List => json(&listing::Listing::read(&shared.root, is_over)),
            Self::Host => json(&fathom_measure::host::read()),
            Self::Evict => json(&cache::evict(shared, is_over)),
            Self::Warm => json(&cache::warm(shared, is_over)),
            Self::Disk(time_ms) => json(&disk::measure(shared, time_ms, is_over)),
        };
        let bytes = body.len() as u64;
        let held = shared.budget.hold(bytes);
        // Monitoring is answered whatever others hold.
        if held.is_none() && bytes > SMALL {
            return Made::refusal(Refusal::Held);
        }
        Made { status: 200, media, body, held }
    }
}

fn json(value: &impl serde::Serialize) -> (&'static str, Vec<u8>) {
    let mut body = serde_json::to_vec(value).unwrap_or_default();
    body.push(b'\n');
    (media::JSON, body)
}
