//! Metrics of the network: work with a near and a far end.

mod ends;
pub mod icmp_rtt;
mod limit;
mod near;
pub mod rtt;
pub mod tcp_bandwidth;
pub mod tcp_transfer;
pub mod udp_bandwidth;

pub(crate) use fathom_far::tcp_info;
