//! A measuring command as the child process of a member of a fleet: what it says on standard output
//! before its document, and its start at a time that all members share.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use fathom_fleet::ChildLine;
use fathom_measure::clock::monotonic_raw_ns;

use crate::arguments::MemberOptions;

/// Progress is reported this often.
const EVERY_NS: u64 = 1_000_000_000;
/// The last part of the wait is spent awake: a timer is late by its slack of 50 µs, and an idle CPU
/// wakes up slowly.
const AWAKE_NS: u64 = 1_000_000;

const NS: u64 = 1_000_000_000;
/// A start is announced less than a second before, even to a thousand members.
const WAIT_NS_MAX: u64 = 60 * NS;

/// Reports to the member, if there is one.
pub(super) struct Reports {
    are_wanted: bool,
    last_ns: u64,
}

impl Reports {
    pub(super) fn from_options(options: MemberOptions) -> Self {
        Self { are_wanted: options.member, last_ns: 0 }
    }

    pub(super) fn are_wanted(&self) -> bool {
        self.are_wanted
    }

    /// `done` is from 0 to 1.
    pub(super) fn progress(&mut self, done: f64, what: &str) {
        let now_ns = monotonic_raw_ns();
        if self.are_wanted && now_ns.saturating_sub(self.last_ns) >= EVERY_NS {
            self.last_ns = now_ns;
            // If the member has gone, this process is killed.
            let _ = say(&ChildLine::Progress { done, what: what.to_owned() });
        }
    }
}

pub(super) fn say(line: &ChildLine) -> std::io::Result<()> {
    let text = serde_json::to_string(line)? + "\n";
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush())
}

/// Waits for the common start, if there is one, and returns its time by CLOCK_MONOTONIC_RAW.
pub(super) fn wait_for_start(options: MemberOptions) -> anyhow::Result<Option<u64>> {
    if !options.wait_start {
        return Ok(None);
    }
    say(&ChildLine::Ready { ready: true }).context("report to the member")?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("read the time to start")?;
    let Ok(start_ns) = line.trim().parse::<u64>() else {
        bail!("--wait-start: expected a time in nanoseconds on standard input");
    };
    let left_ns = start_ns.saturating_sub(monotonic_raw_ns());
    if left_ns > WAIT_NS_MAX {
        bail!("--wait-start: {} s from now, at most {} s", left_ns / NS, WAIT_NS_MAX / NS);
    }
    std::thread::sleep(Duration::from_nanos(left_ns.saturating_sub(AWAKE_NS)));
    // Members that share a CPU let each other see the time.
    while monotonic_raw_ns() < start_ns {
        std::thread::yield_now();
    }
    let started_ns = monotonic_raw_ns();
    std::thread::yield_now();
    say(&ChildLine::Started { started_ns }).context("report to the member")?;
    Ok(Some(started_ns))
}
