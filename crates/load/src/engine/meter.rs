//! What the generator has done since the start of a run, for those who look at it meanwhile.
//!
//! Each thread writes counters of its own, without locked instructions; only a failure takes a
//! lock.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::buckets::{BUCKETS, bucket, quantile_ns};
use super::fault::Fault;

/// Counters of one thread, on cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Dial {
    times: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
    body_bytes: AtomicU64,
    in_flight: AtomicU64,
}

/// Only one thread writes.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}

impl Dial {
    pub(crate) fn begin(&self) {
        add(&self.in_flight, 1);
    }

    /// A request has ended, in whichever way.
    pub(crate) fn end(&self) {
        self.in_flight.store(self.in_flight.load(Relaxed).saturating_sub(1), Relaxed);
    }

    pub(crate) fn complete(&self, response_ns: u64, body_bytes: u64) {
        add(&self.times[bucket(response_ns)], 1);
        add(&self.sum_ns, response_ns);
        add(&self.body_bytes, body_bytes);
    }
}

#[derive(Debug)]
pub struct Meter {
    dials: Vec<Dial>,
    faults: Mutex<BTreeMap<Fault, u64>>,
}

impl Meter {
    pub fn new(threads: u32) -> Self {
        let dial = |_| Dial {
            times: [const { AtomicU64::new(0) }; BUCKETS],
            sum_ns: AtomicU64::new(0),
            body_bytes: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
        };
        Self { dials: (0..threads).map(dial).collect(), faults: Mutex::default() }
    }

    pub(crate) fn dial(&self, thread: u32) -> Option<&Dial> {
        self.dials.get(thread as usize)
    }

    pub(crate) fn note(&self, fault: Fault) {
        if let Ok(mut faults) = self.faults.lock() {
            *faults.entry(fault).or_default() += 1;
        }
    }

    /// No thread runs: what was in flight is no more.
    pub fn rest(&self) {
        self.dials.iter().for_each(|dial| dial.in_flight.store(0, Relaxed));
    }

    pub fn read(&self) -> MeterCounts {
        let mut counts = MeterCounts { times: vec![0; BUCKETS], ..MeterCounts::default() };
        for dial in &self.dials {
            for (sum, count) in counts.times.iter_mut().zip(&dial.times) {
                *sum += count.load(Relaxed);
            }
            counts.sum_ns += dial.sum_ns.load(Relaxed);
            counts.body_bytes += dial.body_bytes.load(Relaxed);
            counts.in_flight += dial.in_flight.load(Relaxed);
        }
        counts.faults = self.faults.lock().map(|faults| faults.clone()).unwrap_or_default();
        counts
    }
}

/// The counters of all threads at a time, or their growth since one.
#[derive(Clone, Debug, Default)]
pub struct MeterCounts {
    /// Successful responses by the bucket of their time.
    pub times: Vec<u64>,
    pub sum_ns: u64,
    pub body_bytes: u64,
    pub faults: BTreeMap<Fault, u64>,
    pub in_flight: u64,
}

impl MeterCounts {
    /// What was added since an earlier reading; in flight is as it is.
    pub fn since(&self, before: &Self) -> Self {
        let of = |at: usize| before.times.get(at).copied().unwrap_or(0);
        let more = |(fault, count): (&Fault, &u64)| {
            let more = count - before.faults.get(fault).unwrap_or(&0);
            (more > 0).then_some((*fault, more))
        };
        Self {
            times: self.times.iter().enumerate().map(|(at, count)| count - of(at)).collect(),
            sum_ns: self.sum_ns - before.sum_ns,
            body_bytes: self.body_bytes - before.body_bytes,
            faults: self.faults.iter().filter_map(more).collect(),
            in_flight: self.in_flight,
        }
    }

    pub fn completed(&self) -> u64 {
        self.times.iter().sum()
    }

    pub fn quantile_ns(&self, q: f64) -> Option<f64> {
        quantile_ns(&self.times, q)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_of_all_threads_since_a_reading() {
        let meter = Meter::new(2);
        let dials = [0, 1].map(|thread| meter.dial(thread).unwrap());
        assert!(meter.dial(2).is_none());
        dials.iter().for_each(|dial| dial.begin());
        dials[0].complete(1_000_000, 7);
        dials[0].end();
        meter.note(Fault::Timeout);
        let before = meter.read();
        assert_eq!((before.completed(), before.in_flight, before.body_bytes), (1, 1, 7));
        dials[1].complete(8_000_000, 5);
        meter.note(Fault::Status(503));
        let more = meter.read().since(&before);
        assert_eq!((more.completed(), more.in_flight, more.body_bytes), (1, 1, 5));
        assert_eq!((more.sum_ns, &more.faults), (8_000_000, &[(Fault::Status(503), 1)].into()));
        let median = more.quantile_ns(0.5).unwrap();
        assert!((median / 8e6 - 1.0).abs() < 1.0 / 64.0, "{median}");
        meter.rest();
        assert_eq!(meter.read().in_flight, 0);
    }
}
