//! Metrics of the network: work with a near and a far end.

mod connections;
mod ends;
pub mod file_read_remote;
pub mod http_get;
pub mod icmp_rtt;
mod near;
mod ports;
pub mod rtt;
mod service;
pub mod tcp_accept;
pub mod tcp_bandwidth;
pub mod tcp_chunk_cost;
pub mod tcp_close;
pub mod tcp_connect;
pub mod tcp_teardown;
pub mod tcp_transfer;
pub mod udp_bandwidth;

use fathom_record::Counter;

use crate::prelude::*;

pub(crate) use fathom_far::{limit, tcp_info};

/// Common to metrics with a far end: each end waits for the other, and what is received is
/// processed in interrupt context.
const FAR_END: About = About {
    expects: Counters::from_counters(&[Counter::NotRunning, Counter::Interrupts]),
    noise_limit: 0.10,
    has_far_end: true,
    ..About::BASE
};
