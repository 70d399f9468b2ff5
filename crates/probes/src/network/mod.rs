//! Metrics of the network: work with a near and a far end.

mod ends;
pub mod tcp_info;
pub mod tcp_rtt;
