//! What a command should cost: counted operations at the prices of this machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A time with its interval, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostTime {
    /// The most likely time.
    pub ns: f64,
    /// The lower end of the interval.
    pub low_ns: f64,
    /// The upper end of the interval.
    pub high_ns: f64,
}

impl CostTime {
    pub fn new(ns: f64, low_ns: f64, high_ns: f64) -> Self {
        Self { ns, low_ns, high_ns }
    }

    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self::new(self.ns * factor, self.low_ns * factor, self.high_ns * factor)
    }

    /// The sum of times whose errors are independent.
    pub fn sum(times: impl IntoIterator<Item = Self>) -> Self {
        let (mut ns, mut below, mut above) = (0.0, 0.0, 0.0);
        for time in times {
            ns += time.ns;
            below += (time.ns - time.low_ns).powi(2);
            above += (time.high_ns - time.ns).powi(2);
        }
        Self::new(ns, ns - f64::sqrt(below), ns + f64::sqrt(above))
    }

    /// This time without another one, with the errors of both.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self::sum([self, Self::new(-other.ns, -other.high_ns, -other.low_ns)])
    }

    pub fn half_width_ns(self) -> f64 {
        (self.high_ns - self.low_ns) / 2.0
    }
}

/// What a command should cost in the kernel, and what it does. Of a service all counts and times
/// are those of so many requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// Median wall time of the runs that were not counted; of a service the time in which it
    /// completed as many requests without counting.
    pub wall_ns: f64,
    /// Measured user time of a run: the mean, with its 95 % interval.
    pub user: CostTime,
    /// Measured system time of a run, likewise.
    pub system: CostTime,
    /// Samples that divided CPU time into both, of runs besides; absent where the ticks of the
    /// kernel did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// The sum of all terms: expected system time.
    pub expected: CostTime,
    /// Measured without expected system time.
    pub unexplained: CostTime,
    /// Wall time of the counted run ÷ that of the others.
    pub slowdown: f64,
    /// Of a service that was counted while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<CostService>,
    /// Counted operations with their prices, the largest time first; those without a price last.
    pub terms: Vec<CostTerm>,
    /// Time in system calls that wait, in the counted run, by what they wait for; of all threads.
    pub waits: Vec<CostWait>,
    /// System calls by name.
    pub calls: BTreeMap<String, u64>,
    /// Metrics without a result on this host, whose prices are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// What happened and cannot be counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncounted: Vec<String>,
}

/// One kind of operation, of one class of size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostTerm {
    /// The operation, such as `read, file`.
    pub operation: String,
    /// How often it happened.
    pub count: u64,
    /// Its mean size: bytes, the descriptors of a poll, or the pages of a fault of a cached file;
    /// absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<f64>,
    /// The price of one; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<CostPrice>,
    /// Count × price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<CostTime>,
    /// The same work done in another way that was measured on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what_if: Option<CostWhatIf>,
}

/// A service that was counted while it answered requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostService {
    /// Its processes.
    pub server: String,
    /// Requests that were completed while it was counted.
    pub requests: u64,
    /// CPUs that it can use: those that it may use, at most one for each thread that works.
    pub cpus: f64,
    /// Requests a second of the same load in its usual windows, without counting.
    pub throughput: f64,
}

impl Cost {
    /// Requests a second that the CPUs of a service can answer, if each takes the measured user
    /// time and the expected system time.
    pub fn ceiling(&self) -> Option<f64> {
        let service = self.service.as_ref()?;
        let all_ns = self.user.ns + self.expected.ns;
        (all_ns > 0.0).then(|| 1e9 * service.cpus * service.requests as f64 / all_ns)
    }
}

/// The price of an operation, from results of this host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostPrice {
    /// Time of one operation.
    pub time: CostTime,
    /// The results that it is made of.
    pub from: Vec<String>,
}

/// What a term would be if the same work were done in another way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostWhatIf {
    /// The other way, such as `in 64 KiB`.
    pub change: String,
    /// The time of all operations of the term then.
    pub time: CostTime,
    /// The results that it is made of.
    pub from: Vec<String>,
}

/// Time in system calls that wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostWait {
    /// What for: file, socket, pipe, child, futex, sleep, or events of several descriptors.
    pub what: String,
    /// Calls that may wait.
    pub count: u64,
    /// Their time, without what stopping at a call takes.
    pub ns: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn independent_errors_add_in_quadrature_on_each_side() {
        let sum = CostTime::sum([CostTime::new(10.0, 7.0, 11.0), CostTime::new(5.0, 1.0, 5.0)]);
        assert_eq!(sum, CostTime::new(15.0, 10.0, 16.0));
        let rest = CostTime::new(20.0, 20.0, 20.0).without(CostTime::new(15.0, 10.0, 16.0));
        assert_eq!(rest, CostTime::new(5.0, 4.0, 10.0));
        assert_eq!(CostTime::new(2.0, 1.0, 4.0).times(3.0), CostTime::new(6.0, 3.0, 12.0));
    }
}
