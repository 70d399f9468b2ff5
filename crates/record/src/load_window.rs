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

impl LoadWindow {
    /// Complete responses.
    pub fn completed(&self) -> u64 {
        self.slots.iter().map(|slot| slot.completed).sum()
    }

    /// Requests without a complete response, but for those in flight at the end.
    pub fn failed(&self) -> u64 {
        self.faults.values().sum()
    }

    /// Adds what another thread, member or sweep counted. Lengths and slots stay.
    pub fn add_counts(&mut self, other: &Self) {
        add_each(&mut self.statuses, &other.statuses);
        add_each(&mut self.faults, &other.faults);
        self.wrong_path = self.wrong_path.take().or_else(|| other.wrong_path.clone());
        self.connections += other.connections;
        self.window_connections += other.window_connections;
        self.closed_idle += other.closed_idle;
        self.in_flight += other.in_flight;
        self.longest_in_flight_ns = self.longest_in_flight_ns.max(other.longest_in_flight_ns);
        self.in_flight_times.merge(&other.in_flight_times);
        self.lag_ns += other.lag_ns;
        self.lags += other.lags;
        merge(&mut self.sent_late, other.sent_late.as_ref());
        if self.phases.is_empty() {
            self.phases.clone_from(&other.phases);
        } else {
            self.phases.iter_mut().zip(&other.phases).for_each(|(own, more)| own.merge(more));
        }
    }

    /// Adds the slots of another thread or member, each to that at the same time.
    pub fn add_slots(&mut self, other: &Self) {
        self.slots.resize_with(self.slots.len().max(other.slots.len()), LoadSlot::default);
        self.slots.iter_mut().zip(&other.slots).for_each(|(own, more)| own.add(more));
    }
}

/// Adds the counts of each key.
pub fn add_each<K: Clone + Ord>(own: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (key, count) in more {
        *own.entry(key.clone()).or_default() += count;
    }
}

/// Adds a histogram to one that may be none yet.
fn merge(own: &mut Option<Histogram>, more: Option<&Histogram>) {
    match (own, more) {
        (Some(own), Some(more)) => own.merge(more),
        (own @ None, Some(more)) => *own = Some(more.clone()),
        (_, None) => {}
    }
}

/// A part of a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadSlot {
    /// Its length, in nanoseconds.
    pub ns: u64,
    /// Complete responses.
    pub completed: u64,
    /// Parts of bodies that arrived in it, less those of its complete responses that arrived
    /// before: with them, responses count by their arrival.
    #[serde(default)]
    pub partial: f64,
    /// Bytes of bodies that arrived in it, also of responses that were not complete then.
    pub body_bytes: u64,
    /// The same with heads; 0 beside bytes of bodies if it was not counted (before version 0.3).
    #[serde(default)]
    pub received_bytes: u64,
    /// Sum of their times, in nanoseconds.
    pub sum_ns: f64,
    /// Their times, in nanoseconds.
    pub times: Histogram,
    /// Of an open loop, whose times are from when the request was due: from when it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_from_send: Option<Histogram>,
}

impl LoadSlot {
    pub fn add(&mut self, other: &Self) {
        self.ns += other.ns;
        self.completed += other.completed;
        self.partial += other.partial;
        let is_known = |it: &Self| it.received_bytes > 0 || it.body_bytes == 0;
        let are_known = is_known(self) && is_known(other);
        self.received_bytes =
            if are_known { self.received_bytes + other.received_bytes } else { 0 };
        self.body_bytes += other.body_bytes;
        self.sum_ns += other.sum_ns;
        self.times.merge(&other.times);
        merge(&mut self.times_from_send, other.times_from_send.as_ref());
    }

    /// Responses by the arrival of their bodies.
    pub fn arrived(&self) -> f64 {
        (self.completed as f64 + self.partial).max(0.0)
    }

    /// The mean of its times.
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns / self.completed.max(1) as f64
    }
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

impl LoadThread {
    /// The share of the time in which it ran.
    pub fn used(&self) -> f64 {
        self.cpu_ns as f64 / self.wall_ns.max(1) as f64
    }

    /// The share of the time in which it was ready and had no CPU.
    pub fn waiting(&self) -> f64 {
        self.wait_ns as f64 / self.wall_ns.max(1) as f64
    }
}
