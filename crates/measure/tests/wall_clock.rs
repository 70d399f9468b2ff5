//! A step of the wall clock during a run.

use fathom_measure::clock::{CalibrationWatch, wall_ns};
use fathom_measure::host;
use rustix::time::{ClockId, Timespec, clock_settime};

#[test]
#[ignore = "lab: sets the wall clock of the machine"]
#[expect(clippy::print_stderr, reason = "a test that is skipped must say so")]
fn step_of_the_wall_clock_is_detected() {
    let watch = CalibrationWatch::begin(&host::read()).expect("a clock");
    assert!(!watch.end().wall_was_set);
    // A step of 0 is a step, too.
    let ns = wall_ns();
    let (tv_sec, tv_nsec) = ((ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64);
    if let Err(error) = clock_settime(ClockId::Realtime, Timespec { tv_sec, tv_nsec }) {
        return eprintln!("skipped: setting the wall clock: {error}");
    }
    let run = watch.end();
    assert!(run.wall_was_set && run.wall_step_ns == 0, "{run:?}");
    assert!(watch.end().wall_was_set, "although the kernel reports it once only");
}
