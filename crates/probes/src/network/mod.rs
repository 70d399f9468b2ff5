//! Metrics of the network: work with a near and a far end.

mod connections;
mod ends;
pub mod file_read_remote;
pub mod http_get;
mod ports;
mod service;
pub mod tcp_accept;
pub mod tcp_close;
pub mod tcp_connect;
pub mod tcp_info;
pub mod tcp_rtt;
pub mod tcp_teardown;
