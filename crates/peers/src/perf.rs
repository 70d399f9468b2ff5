//! perf bench: a system call, a round trip by pipes, and the kernel's own memcpy and memset.

use fathom_record::{Params, PeerStatistic, Unit};

use crate::Peer;
use crate::process::{Invocation, Output};
use crate::row::{Machine, Reading, ReadingError, Row};
use crate::text::{before, first, without};

/// perf.
pub(crate) struct Perf;

impl Peer for Perf {
    fn name(&self) -> &'static str {
        "perf"
    }

    fn package(&self) -> &'static str {
        "linux-perf"
    }

    fn rows(&self, machine: &Machine) -> Vec<Row> {
        let mut rows = vec![
            time(
                ("os.syscall", Params::one("call", "getppid_called")),
                ("bench syscall basic", &["syscall", "basic", "--loop", "3000000"]),
                "both call getppid from a procedure, perf by the C library; perf's mean has every \
                 interruption in it, ours is a median",
            ),
            time(
                ("os.pipe.rtt", Params::one("calls", "libc")),
                ("bench sched pipe", &["sched", "pipe", "--loop", "100000"]),
                "both pass 4 bytes there and back between two processes on one CPU; perf's \
                 mean has every interruption in it, ours is a median",
            ),
        ];
        // Other architectures have no such function.
        if cfg!(target_arch = "x86_64") {
            let op = |op, work, words, counted, difference| {
                memory(machine, op, (work, words), counted, difference)
            };
            rows.push(op(
                "copy",
                "bench mem memcpy",
                "memcpy",
                2.0,
                "the kernel's unrolled loop of 8 bytes, ours of vectors; perf counts a copied byte \
                 once, here twice",
            ));
            rows.push(op(
                "write",
                "bench mem memset",
                "memset",
                1.0,
                "the kernel's unrolled loop of 8 bytes, ours of vectors",
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
        tells: PeerStatistic::Mean,
        takes_turns: metric == "os.pipe.rtt",
        seconds: 1.6,
        ..Row::usual(Box::new(bench), Box::new(nanoseconds))
    }
}

fn nanoseconds(outputs: &[Output]) -> Result<Reading, ReadingError> {
    let output = first(outputs);
    let us = before(&output.out, "usecs/op").ok_or_else(|| without("`usecs/op`", output))?;
    Reading::of(1e3 * us)
}

/// A row whose output ends in `GB/sec`, which are 2³⁰ bytes.
fn memory(
    machine: &Machine,
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
        params: params.and("page", machine.usual_page()),
        work,
        difference,
        tells: PeerStatistic::Mean,
        ..Row::usual(Box::new(bench), Box::new(move |outputs| rate(outputs, counted)))
    }
}

fn rate(outputs: &[Output], counted: f64) -> Result<Reading, ReadingError> {
    let output = first(outputs);
    let gib = before(&output.out, "GB/sec").ok_or_else(|| without("`GB/sec`", output))?;
    Reading::of(counted * gib * f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_call_and_a_round_trip_are_read_as_perf_6_1_187_prints_them() {
        let read = |text| nanoseconds(&[Output::printed(text)]).map(|reading| reading.value);
        let syscall = include_str!("../tests/outputs/perf-6.1.187-syscall.txt");
        assert_eq!(read(syscall), Ok(255.668));
        let pipe = include_str!("../tests/outputs/perf-6.1.187-pipe.txt");
        assert_eq!(read(pipe), Ok(6853.96));
        assert_eq!(read("0.0 usecs/op"), Err(ReadingError::NotPositive(0.0)));
        let error = read("\n perf: nothing of the kind\n").unwrap_err().to_string();
        assert_eq!(error, "no `usecs/op` in its output, which begins: perf: nothing of the kind");
    }

    #[test]
    fn gigabytes_are_read_as_powers_of_two() {
        let text = include_str!("../tests/outputs/perf-6.1.187-memcpy.txt");
        let reading = rate(&[Output::printed(text)], 2.0).unwrap();
        assert_eq!(reading.value, 2.0 * 9.137677 * 1_073_741_824.0);
    }
}
