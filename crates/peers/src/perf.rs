//! perf bench: a system call, a pipe round trip, and the kernel's memcpy and memset.

use crate::prelude::*;

pub(crate) struct Perf;

impl Peer for Perf {
    fn name(&self) -> &'static str {
        "perf"
    }

    fn package(&self) -> &'static str {
        "linux-perf"
    }

    fn rows(&self, machine: &PeerMachine) -> Vec<Row> {
        let mut rows = vec![
            time(
                ("os.syscall", Params::one("call", "getppid_called")),
                ("bench syscall basic", &["syscall", "basic", "--loop", "3000000"]),
                "both call getppid in a function, perf through the C library; perf reports the \
                 mean including interruptions, Fathom the median",
            ),
            time(
                ("os.pipe.rtt", Params::one("calls", "libc")),
                ("bench sched pipe", &["sched", "pipe", "--loop", "100000"]),
                "both pass bytes there and back between two processes on one CPU; perf reports \
                 the mean including interruptions, Fathom the median",
            ),
        ];
        // perf has x86-64-unrolled on no other architecture.
        if cfg!(target_arch = "x86_64") {
            let op = |op, work, words, counted, difference| {
                memory(machine, op, (work, words), counted, difference)
            };
            rows.push(op(
                "copy",
                "bench mem memcpy",
                "memcpy",
                2.0,
                "perf uses the kernel's unrolled loop of 8-byte words, Fathom vectors; perf counts \
                 a copied byte once, here converted to twice",
            ));
            rows.push(op(
                "write",
                "bench mem memset",
                "memset",
                1.0,
                "perf uses the kernel's unrolled loop of 8-byte words, Fathom vectors: on Zen 4 \
                 vectors take 3 to 15 % longer in 4K pages, and the same in huge pages; an array \
                 of perf below four last-level caches (at most 2 GiB) may stay partly cached",
            ));
        }
        rows
    }
}

/// A row whose output ends in `usecs/op`.
fn time(
    (metric, params): (&'static str, Params),
    (work, words): (&'static str, &'static [&'static str]),
    difference: &'static str,
) -> Row {
    let bench = move |_: &_| vec![Invocation::new("perf", ["bench"].iter().chain(words).copied())];
    Row {
        metric,
        params,
        unit: Unit::Nanoseconds,
        work,
        difference,
        statistic: PeerStatistic::Mean,
        takes_turns: metric == "os.pipe.rtt",
        seconds: 1.6,
        ..Row::usual(Box::new(bench), Box::new(nanoseconds))
    }
}

fn nanoseconds(outputs: &[Output]) -> Result<PeerReading, RunError> {
    let output = &outputs[0];
    let us = before(&output.out, "usecs/op").ok_or_else(|| missing("`usecs/op`", output))?;
    PeerReading::from_value(1e3 * us)
}

/// A row whose output ends in `GB/sec`, by which perf means 2³⁰ bytes, or in a smaller unit.
fn memory(
    machine: &PeerMachine,
    op: &'static str,
    (work, function): (&'static str, &'static str),
    counted: f64,
    difference: &'static str,
) -> Row {
    let size = format!("{}MB", machine.memory_bytes() >> 20);
    let bench = move |_: &_| {
        let words = ["bench", "mem", function, "-s", &size, "-l", "5", "-f", "x86-64-unrolled"];
        vec![Invocation::new("perf", words)]
    };
    let params = Params::one("level", "dram").and("op", op).and("threads", 1);
    Row {
        metric: "memory.bandwidth",
        params: params.and("page", machine.default_page()),
        work,
        difference,
        statistic: PeerStatistic::Mean,
        ..Row::usual(Box::new(bench), Box::new(move |outputs| rate(outputs, counted)))
    }
}

fn rate(outputs: &[Output], counted: f64) -> Result<PeerReading, RunError> {
    let output = &outputs[0];
    let units = [("GB/sec", 1 << 30), ("MB/sec", 1 << 20), ("KB/sec", 1 << 10), ("bytes/sec", 1)];
    let rate = units
        .into_iter()
        .find_map(|(unit, bytes)| Some(before(&output.out, unit)? * f64::from(bytes)));
    PeerReading::from_value(counted * rate.ok_or_else(|| missing("`GB/sec`", output))?)
}
