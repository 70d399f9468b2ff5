//! Metrics of the network: work with a near and a far end.

pub mod tcp_rtt;
