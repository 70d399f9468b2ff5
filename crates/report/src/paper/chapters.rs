//! The chapters of a paper, in the order of the study of a whole system of 2016.

use super::curves::Drawn;
use super::curves::Drawn::{Over, Rows};

/// A chapter, and what it is of.
pub(super) struct Chapter {
    pub(super) title: &'static str,
    /// Metrics; with a dot at the end all that begin so.
    metrics: &'static [&'static str],
    pub(super) figures: &'static [Drawn],
    /// What measures it.
    pub(super) command: &'static str,
}

impl Chapter {
    const fn new(
        title: &'static str,
        metrics: &'static [&'static str],
        figures: &'static [Drawn],
        command: &'static str,
    ) -> Self {
        Self { title, metrics, figures, command }
    }

    /// The command by hand that measures it, as a run names it.
    pub(super) fn procedure(&self) -> Option<&'static str> {
        self.command.strip_prefix("fathom ").filter(|it| !it.starts_with("run "))
    }

    pub(super) fn has(&self, metric: &str) -> bool {
        self.metrics.iter().any(|it| *it == metric || it.ends_with('.') && metric.starts_with(it))
    }
}

const SWITCH: [&str; 2] = ["os.switch.thread", "os.switch.process"];
const ROUND_TRIPS: [&str; 4] =
    ["network.tcp.rtt", "network.udp.rtt", "network.icmp.rtt", "network.http.get"];
const SET_UP: [&str; 5] = [
    "network.tcp.connect",
    "network.tcp.accept",
    "network.tcp.close_fin",
    "network.tcp.close_rst",
    "network.tcp.teardown",
];
const LEVELS: [&str; 4] =
    ["memory.latency.l1", "memory.latency.l2", "memory.latency.l3", "memory.latency.dram"];

pub(super) const CHAPTERS: [Chapter; 15] = [
    Chapter::new(
        "Overhead of measurement",
        &["cpu.frequency", "cpu.clock."],
        &[],
        "fathom run cpu.clock.read",
    ),
    Chapter::new("Overhead of a loop", &["cpu.loop.iteration"], &[], "fathom run cpu.loop"),
    Chapter::new(
        "Function call by arguments",
        &["cpu.call", "cpu.call.per_argument"],
        &[],
        "fathom run cpu.call",
    ),
    Chapter::new("System call", &["os.syscall", "os.syscall.fresh"], &[], "fathom run os.syscall"),
    Chapter::new(
        "Process and thread creation",
        &["os.process.", "os.thread."],
        &[],
        "fathom run os.process.fork os.thread.create",
    ),
    Chapter::new(
        "Context switch of processes and threads",
        &["os.switch.", "os.ratio"],
        &[Over("set_bytes", &SWITCH)],
        "fathom run os.switch.process os.switch.thread",
    ),
    Chapter::new(
        "Memory access by working set and level",
        &["memory.latency", "memory.latency.", "memory.cache."],
        &[Over("set_bytes", &["memory.latency"]), Rows("load latency by level", &LEVELS)],
        "fathom run memory.latency",
    ),
    Chapter::new(
        "Memory read and write bandwidth",
        &["memory.bandwidth"],
        &[Rows("memory bandwidth", &["memory.bandwidth"])],
        "fathom run memory.bandwidth",
    ),
    Chapter::new("Page fault", &["memory.fault"], &[], "fathom run memory.fault"),
    Chapter::new(
        "Network round trip, local and remote",
        &ROUND_TRIPS,
        &[
            Over("bytes", &["network.tcp.rtt", "network.udp.rtt", "network.http.get"]),
            Rows("round trip by size, protocol and mode", &ROUND_TRIPS),
        ],
        "fathom run network.tcp.rtt",
    ),
    Chapter::new(
        "Peak bandwidth, local and remote",
        &[
            "network.tcp.bandwidth",
            "network.tcp.chunk_cost",
            "network.tcp.transfer",
            "network.udp.bandwidth",
        ],
        &[
            Over("chunk_bytes", &["network.tcp.bandwidth"]),
            Over("streams", &["network.tcp.bandwidth"]),
        ],
        "fathom run network.tcp.bandwidth",
    ),
    Chapter::new(
        "Connection set-up and tear-down, local and remote",
        &SET_UP,
        &[Rows("set-up and tear-down of a connection", &SET_UP)],
        "fathom run network.tcp.connect network.tcp.close_fin",
    ),
    Chapter::new(
        "Size of the file cache",
        &["file.capacity", "file.capacity."],
        &[],
        "fathom file capacity",
    ),
    Chapter::new(
        "File read by size, sequential and random, local and remote",
        &["file.read.latency", "file.read.remote"],
        &[Over("file_bytes", &["file.read.latency"]), Over("file_bytes", &["file.read.remote"])],
        "fathom run file.read.latency file.read.remote",
    ),
    Chapter::new(
        "Contention by processes",
        &["file.contention", "file.contention."],
        &[],
        "fathom file contend",
    ),
];
