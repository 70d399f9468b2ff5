//! What a core reads beside a chase: turns of reading with pauses between them, until it is told
//! to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fathom_measure::clock;
use fathom_measure::sampler::Fault;

use super::super::thread_team::{CheckResult, TaskFactory, TeamTask};
use super::super::stream::{Memory, Task};
use super::super::vectors::{Op, Vectors};
use crate::buffer::Page;

/// Bytes of a turn: about a microsecond, so that a batch has many, and ends soon.
const TURN_BYTES: usize = 32 << 10;
/// No batch reads for longer.
const BATCH_MAX_NS: u64 = 20_000_000_000;

/// What the chasing thread tells those who read, and what they tell it.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Order {
    /// Batches that have ended.
    ended: AtomicU64,
    /// The share of the time in which to read.
    percent: AtomicU32,
    counts: Counts,
}

/// On a line of its own, so that no count takes the flag away from those who look at it.
#[derive(Default)]
#[repr(align(128))]
struct Counts {
    bytes: AtomicU64,
    /// Time of all threads in batches, added up.
    thread_ns: AtomicU64,
}

impl Order {
    /// Begins a case: what is counted begins anew.
    pub(super) fn begin(&self, percent: u32) {
        self.percent.store(percent, Ordering::Relaxed);
        self.counts.bytes.store(0, Ordering::Relaxed);
        self.counts.thread_ns.store(0, Ordering::Relaxed);
    }

    /// Ends the batch under way.
    pub(super) fn end_batch(&self) {
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// Bytes that so many threads have read since the case began, and how many a second together.
    pub(super) fn read(&self, threads: usize) -> (u64, f64) {
        let bytes = self.counts.bytes.load(Ordering::Relaxed);
        let thread_ns = self.counts.thread_ns.load(Ordering::Relaxed).max(1);
        (bytes, 1e9 * bytes as f64 * threads as f64 / thread_ns as f64)
    }
}

/// How long to pause after a turn that took so long, if turns are to fill this share of the time.
fn pause_ns(turn_ns: u64, percent: u32) -> u64 {
    match u64::from(percent) {
        0 => u64::MAX,
        percent => turn_ns * (100 - percent.min(100)) / percent,
    }
}

/// Takes turns for a share of the time until it has ended: how many, and how long in all.
fn throttled(
    percent: u32,
    mut now_ns: impl FnMut() -> u64,
    mut has_ended: impl FnMut() -> bool,
    mut turn: impl FnMut(),
) -> (u64, u64) {
    let (begun, mut turns) = (now_ns(), 0);
    let mut at = begun;
    while !has_ended() && at - begun < BATCH_MAX_NS {
        turn();
        turns += 1;
        let done = now_ns();
        let until = done.saturating_add(pause_ns(done - at, percent));
        at = done;
        while at < until && !has_ended() {
            std::hint::spin_loop();
            at = now_ns();
        }
    }
    (turns, now_ns() - begun)
}

/// One thread's reading.
pub(super) struct Load {
    stream: Box<dyn TeamTask>,
    order: Arc<Order>,
    /// Batches of its own.
    batches: u64,
}

impl Load {
    /// Makes the part in the thread that is to read so many bytes over and over.
    pub(super) fn maker(bytes: usize, page: Page, memory: &Memory, order: &Arc<Order>) -> TaskFactory {
        let array_bytes = (bytes / TURN_BYTES).max(1) * TURN_BYTES;
        let task = Task {
            op: Op::Read,
            page,
            vectors: Vectors::widest(),
            reserve_bytes: array_bytes,
            array_bytes,
            chunk_bytes: TURN_BYTES,
            far: true,
        };
        let (stream, order) = (task.maker(memory), Arc::clone(order));
        Box::new(move || Ok(Box::new(Self { stream: stream()?, order, batches: 0 }) as _))
    }
}

impl TeamTask for Load {
    /// One batch: until the chase ends it. Says 1, or 0 where a byte was not what it should be.
    fn work(&mut self, _: u64) -> u64 {
        self.batches += 1;
        let Self { stream, order, batches } = self;
        let mut right = 0;
        let has_ended = || order.ended.load(Ordering::Acquire) >= *batches;
        let percent = order.percent.load(Ordering::Relaxed);
        let turn = || right += stream.work(1);
        let (turns, ns) = throttled(percent, clock::monotonic_raw_ns, has_ended, turn);
        order.counts.bytes.fetch_add(turns * TURN_BYTES as u64, Ordering::Relaxed);
        order.counts.thread_ns.fetch_add(ns, Ordering::Relaxed);
        u64::from(right == turns)
    }

    fn finish(self: Box<Self>) -> Result<CheckResult, Fault> {
        self.stream.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::smoke;

    /// Takes turns on a clock of its own: the share of the time that was read.
    fn share(percent: u32, turn_ns: impl Fn(u64) -> u64) -> f64 {
        let (clock, read) = (Cell::new(5), Cell::new(0));
        let now = || {
            clock.set(clock.get() + 20);
            clock.get()
        };
        let turn = || {
            let ns = turn_ns(clock.get());
            clock.set(clock.get() + ns);
            read.set(read.get() + ns);
        };
        let (turns, ns) = throttled(percent, now, || clock.get() > 10_000_000, turn);
        assert!(turns > 100 && ns >= 9_990_000, "{turns} turns in {ns} ns");
        read.get() as f64 / ns as f64
    }

    #[test]
    fn turns_fill_the_share_that_was_asked_for_whatever_they_take() {
        for (percent, expected) in [(25, 0.25), (50, 0.5), (100, 1.0)] {
            for turn_ns in [700, 3_000] {
                let even = share(percent, |_| turn_ns);
                assert!((even / expected - 1.0).abs() < 0.06, "{percent} %: {even}");
            }
            let uneven = share(percent, |at| 1_000 + at % 5_000);
            assert!((uneven / expected - 1.0).abs() < 0.06, "{percent} %: {uneven}");
        }
    }

    #[test]
    fn a_pause_ends_with_the_batch_and_no_share_is_a_pause_for_good() {
        assert_eq!((pause_ns(900, 100), pause_ns(900, 50), pause_ns(900, 25)), (0, 900, 2_700));
        assert_eq!(pause_ns(900, 0), u64::MAX);
        let clock = Cell::new(0);
        let now = || {
            clock.set(clock.get() + 10);
            clock.get()
        };
        let (turns, ns) = throttled(0, now, || clock.get() > 1_000, || ());
        assert!(turns == 1 && ns < 1_100, "{turns} {ns}");
    }

    #[test]
    fn a_batch_ends_when_it_is_told_and_its_bytes_are_counted_and_verified() {
        smoke::pinned(|_| {
            let order = Arc::new(Order::default());
            let maker = Load::maker(100_000, Page::Base, &Memory::default(), &order);
            let mut load = maker().unwrap();
            order.begin(100);
            order.end_batch();
            assert_eq!(load.work(1), 1);
            assert_eq!(order.read(1).0, 0, "it had ended before it began");
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while order.counts.thread_ns.load(Ordering::Relaxed) < 2 {
                        std::thread::sleep(std::time::Duration::from_millis(2));
                        order.end_batch();
                    }
                });
                order.begin(50);
                assert_eq!(load.work(1), 1);
            });
            let (bytes, rate) = order.read(2);
            assert!(bytes > 0 && bytes.is_multiple_of(TURN_BYTES as u64) && rate > 1e3, "{rate}");
            let (passed, text) = load.finish().unwrap();
            assert!(passed, "{text}");
        });
    }
}
