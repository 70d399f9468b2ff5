//! Metrics of the network: work with a near and a far end.

mod ends;
pub mod icmp_rtt;
mod near;
pub mod rtt;
pub mod tcp_info;
