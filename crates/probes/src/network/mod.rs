//! Metrics of the network: work with a near and a far end.

mod ends;
mod limit;
pub mod tcp_bandwidth;
pub mod tcp_rtt;
pub mod tcp_transfer;

pub(crate) use fathom_far::tcp_info;
