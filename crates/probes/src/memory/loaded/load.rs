//! The load of one core: bursts of reads with pauses, until the chase ends the batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fathom_measure::clock;

use super::super::stream::{StreamConfig, ThreadMemory};
use super::super::thread_team::{CheckResult, TaskFactory, TeamTask};
use super::super::vectors::{Op, Vectors};
use crate::prelude::*;

/// About 1 µs of reads: a batch has many bursts and ends soon after its signal.
const BURST_BYTES: usize = 32 << 10;
const BATCH_MAX_NS: u64 = 20_000_000_000;

/// Shared by the chasing thread and the readers.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct LoadControl {
    batches_ended: AtomicU64,
    /// Percentage of the time to read.
    percent: AtomicU32,
    counts: LoadCounts,
}

/// On a cache line of its own: updates must not evict the flag that the readers poll.
#[derive(Default)]
#[repr(align(128))]
struct LoadCounts {
    bytes: AtomicU64,
    /// Sum of the batch times of all threads.
    thread_ns: AtomicU64,
}

impl LoadControl {
    /// Starts a case with new counts.
    pub(super) fn begin(&self, percent: u32) {
        self.percent.store(percent, Ordering::Relaxed);
        self.counts.bytes.store(0, Ordering::Relaxed);
        self.counts.thread_ns.store(0, Ordering::Relaxed);
    }

    pub(super) fn end_batch(&self) {
        // Release, and Acquire in the readers: no load of the chase moves behind the end of the
        // batch.
        self.batches_ended.fetch_add(1, Ordering::Release);
    }

    /// Bytes read since the start of the case, and bytes per second of all threads together.
    pub(super) fn bytes_and_rate(&self, threads: usize) -> (u64, f64) {
        let bytes = self.counts.bytes.load(Ordering::Relaxed);
        let thread_ns = self.counts.thread_ns.load(Ordering::Relaxed).max(1);
        (bytes, 1e9 * bytes as f64 * threads as f64 / thread_ns as f64)
    }
}

/// The pause after a burst, so that bursts take `percent` of the time.
fn pause_ns(burst_ns: u64, percent: u32) -> u64 {
    match u64::from(percent) {
        0 => u64::MAX,
        percent => burst_ns * (100 - percent.min(100)) / percent,
    }
}

/// Alternates bursts and pauses until the batch ends. Returns the number of bursts and the time.
fn throttle(
    percent: u32,
    mut now_ns: impl FnMut() -> u64,
    mut has_ended: impl FnMut() -> bool,
    mut burst: impl FnMut(),
) -> (u64, u64) {
    let (start, mut bursts) = (now_ns(), 0);
    let mut now = start;
    while !has_ended() && now - start < BATCH_MAX_NS {
        burst();
        bursts += 1;
        let end = now_ns();
        let resume = end.saturating_add(pause_ns(end - now, percent));
        now = end;
        // Spins: a sleep of some microseconds would last as long as the timer slack (50 µs).
        while now < resume && !has_ended() {
            std::hint::spin_loop();
            now = now_ns();
        }
    }
    (bursts, now_ns() - start)
}

/// The reads of one thread.
pub(super) struct LoadTask {
    stream: Box<dyn TeamTask>,
    control: Arc<LoadControl>,
    batches: u64,
}

impl LoadTask {
    /// A task that reads `bytes` of memory repeatedly.
    pub(super) fn factory(
        bytes: usize,
        page: BufferPage,
        memory: &ThreadMemory,
        control: &Arc<LoadControl>,
    ) -> TaskFactory {
        let array_bytes = (bytes / BURST_BYTES).max(1) * BURST_BYTES;
        let config = StreamConfig {
            op: Op::Read,
            page,
            vectors: Vectors::widest(),
            reserve_bytes: array_bytes,
            array_bytes,
            chunk_bytes: BURST_BYTES,
            prefetch: true,
        };
        let (stream, control) = (config.factory(memory), Arc::clone(control));
        Box::new(move || Ok(Box::new(Self { stream: stream()?, control, batches: 0 }) as _))
    }
}

impl TeamTask for LoadTask {
    /// Reads until the chase ends the batch. Returns 1, or 0 after a wrong byte.
    fn run(&mut self, _: u64) -> u64 {
        self.batches += 1;
        let Self { stream, control, batches } = self;
        let mut right = 0;
        let has_ended = || control.batches_ended.load(Ordering::Acquire) >= *batches;
        let percent = control.percent.load(Ordering::Relaxed);
        let burst = || right += stream.run(1);
        let (bursts, ns) = throttle(percent, clock::monotonic_raw_ns, has_ended, burst);
        // Once per batch, so that counting adds no traffic between the cores.
        control.counts.bytes.fetch_add(bursts * BURST_BYTES as u64, Ordering::Relaxed);
        control.counts.thread_ns.fetch_add(ns, Ordering::Relaxed);
        u64::from(right == bursts)
    }

    fn finish(self: Box<Self>) -> Result<CheckResult> {
        self.stream.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The share of the time in bursts, on a simulated clock.
    fn share(percent: u32, burst_ns: impl Fn(u64) -> u64) -> f64 {
        let (clock, read) = (Cell::new(5), Cell::new(0));
        let now = || {
            clock.set(clock.get() + 20);
            clock.get()
        };
        let burst = || {
            let ns = burst_ns(clock.get());
            clock.set(clock.get() + ns);
            read.set(read.get() + ns);
        };
        let (bursts, ns) = throttle(percent, now, || clock.get() > 10_000_000, burst);
        assert!(bursts > 100 && ns >= 9_990_000, "{bursts} bursts in {ns} ns");
        read.get() as f64 / ns as f64
    }

    #[test]
    fn bursts_take_the_requested_share_of_the_time() {
        for (percent, expected) in [(25, 0.25), (50, 0.5), (100, 1.0)] {
            let shares = [
                share(percent, |_| 700),
                share(percent, |_| 3_000),
                share(percent, |at| 1_000 + at % 5_000),
            ];
            let is_near = |share: &f64| (share / expected - 1.0).abs() < 0.06;
            assert!(shares.iter().all(is_near), "{percent} %: {shares:?}");
        }
    }

    #[test]
    fn pause_ends_with_the_batch() {
        let clock = Cell::new(0);
        let now = || {
            clock.set(clock.get() + 10);
            clock.get()
        };
        let (bursts, ns) = throttle(0, now, || clock.get() > 1_000, || ());
        assert!(bursts == 1 && ns < 1_100, "{bursts} {ns}");
    }

    /// Reads that end the batch with burst 5, and of which burst 3 may be wrong.
    struct Script {
        control: Arc<LoadControl>,
        bursts: u64,
        has_error: bool,
    }

    impl TeamTask for Script {
        fn run(&mut self, iterations: u64) -> u64 {
            self.bursts += 1;
            if self.bursts == 5 {
                self.control.end_batch();
            }
            iterations - u64::from(self.has_error && self.bursts == 3)
        }

        fn finish(self: Box<Self>) -> Result<CheckResult> {
            Ok((!self.has_error, format!("{} bursts", self.bursts)))
        }
    }

    #[test]
    fn batch_ends_on_signal_with_its_bytes_counted() {
        for has_error in [false, true] {
            let control = Arc::new(LoadControl::default());
            let script = Script { control: Arc::clone(&control), bursts: 0, has_error };
            let load =
                LoadTask { stream: Box::new(script), control: Arc::clone(&control), batches: 0 };
            let mut load = Box::new(load);
            control.begin(50);
            assert_eq!(load.run(1), u64::from(!has_error));
            assert_eq!(control.bytes_and_rate(1).0, 5 * BURST_BYTES as u64);
            control.end_batch();
            assert_eq!(load.run(1), 1);
            assert_eq!(control.bytes_and_rate(1).0, 5 * BURST_BYTES as u64, "it had ended already");
            control.begin(100);
            assert_eq!(control.bytes_and_rate(1), (0, 0.0), "a new case");
            assert_eq!(load.finish(), Ok((!has_error, "5 bursts".to_owned())));
        }
    }
}
