//! What a load generator counted in one window of a step: counts and histograms, which add up over
//! the generators that share a load.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Histogram, ServerUse};

/// The variable with the token that a share of a load sends to the server.
pub const SERVER_TOKEN: &str = "FATHOM_SERVER_TOKEN";

/// A window of a step, as one of several generators counted it. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadWindow {
    /// When it began, since the start of the run.
    pub begun_ns: u64,
    /// By how much that was after its planned time.
    pub late_ns: u64,
    /// Its length.
    pub window_ns: u64,
    /// The time from the first request to its begin.
    pub warm_up_ns: u64,
    /// Whether the throughput was steady before it.
    pub is_settled: bool,
    /// Its parts of equal length, in the order of time.
    pub slots: Vec<LoadSlot>,
    /// Complete responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests without a complete response, by the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<String, u64>,
    /// The path of a file of which a body had another content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong_path: Option<String>,
    /// Connections made, in the warm-up too.
    pub connections: u64,
    /// Those of them that were made within the window.
    pub window_connections: u64,
    /// Connections that the server closed between two requests.
    pub closed_idle: u64,
    /// Requests without a complete response at the end; of an open loop, at the end of the time
    /// that they had beyond it.
    pub in_flight: u64,
    /// The longest time for which one of them had been in flight.
    pub longest_in_flight_ns: u64,
    /// Of a closed loop: for how long each of them had been.
    pub in_flight_times: Histogram,
    /// Sum of the delays between the readiness of a connection and its handling.
    pub lag_ns: f64,
    /// Number of these delays.
    pub lags: u64,
    /// Of an open loop: how late requests were sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_late: Option<Histogram>,
    /// Of an open loop: requests that were due and not done at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u64>,
    /// Whether their number went down to what it was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_drained: Option<bool>,
    /// Times of connect, TLS handshake, first byte and body, if connections are new or encrypted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Histogram>,
    /// CPU time of each thread of the generator.
    pub threads: Vec<LoadThread>,
    /// How long a quota of CPU time held the generator back.
    pub throttled_ns: u64,
    /// CPUs of that quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<f64>,
    /// CPUs that all but the two ends used, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    /// What the server used, if this generator read its counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerUse>,
}

/// A part of a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadSlot {
    /// Its length, in nanoseconds.
    pub ns: u64,
    /// Complete responses.
    pub completed: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// Sum of their times, in nanoseconds.
    pub sum_ns: f64,
    /// Their times, in nanoseconds.
    pub times: Histogram,
    /// Of an open loop, whose times are from when the request was due: from when it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_from_send: Option<Histogram>,
}

/// What a thread of a load generator used in a window, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadThread {
    /// CPU time.
    pub cpu_ns: u64,
    /// Time in which it was ready and had no CPU.
    pub wait_ns: u64,
    /// Elapsed time.
    pub wall_ns: u64,
}
