//! What a load does while it runs.

use std::collections::BTreeMap;

use serde::Serialize;

/// The part of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    #[default]
    WarmUp,
    /// Measured.
    Window,
    /// After a window of an open loop, until its backlog is gone.
    Backlog,
}

words!(Phase.word, WarmUp = "warm_up", Window = "window", Backlog = "backlog");

/// About a second of a load, or the shorter rest of a phase. Quantiles are of the successful
/// responses that ended in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Second {
    /// Its end, in nanoseconds since the start of the load.
    pub at_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// Such as `4 clients`.
    pub step: String,
    pub phase: Phase,
    /// Of a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Of an open loop, in requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Successful responses.
    pub responses: u64,
    pub responses_per_s: f64,
    pub body_bytes_per_s: f64,
    pub p50_ns: Option<f64>,
    pub p90_ns: Option<f64>,
    pub p99_ns: Option<f64>,
    /// Failed requests, by kind.
    pub failed: BTreeMap<String, u64>,
    /// Requests without a response, at its end.
    pub in_flight: u64,
    /// Of an open loop: requests that are due and not done, at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u64>,
}
