//! sysbench memory: a block read or written word by word. Its threads and cpu tests are loops of
//! its own that no metric does.

use fathom_record::{Params, PeerStatistic};

use crate::Peer;
use crate::process::{Invocation, Output};
use crate::row::{Machine, On, Reading, ReadingError, Row};
use crate::text::{before, first, without};

/// sysbench.
pub(crate) struct Sysbench;

impl Peer for Sysbench {
    fn name(&self) -> &'static str {
        "sysbench"
    }

    fn rows(&self, machine: &Machine) -> Vec<Row> {
        let cores = machine.host.cpu.allowed.len();
        let mut rows = vec![
            memory(machine, ("read", "memory read"), 1),
            memory(machine, ("write", "memory write"), 1),
        ];
        if cores > 1 {
            rows.push(memory(machine, ("read", "memory read, all CPUs"), cores));
        }
        rows
    }
}

/// By default its threads share one block of 1 KiB: each has one of its own that no cache holds.
fn memory(machine: &Machine, (op, work): (&'static str, &'static str), threads: usize) -> Row {
    let block = machine.memory_bytes();
    let command = move |_: &_| {
        let words = [
            "memory".to_owned(),
            format!("--threads={threads}"),
            "--memory-scope=local".to_owned(),
            format!("--memory-oper={op}"),
            format!("--memory-block-size={block}"),
            "--memory-total-size=100000G".to_owned(),
            "--time=1".to_owned(),
            "run".to_owned(),
        ];
        vec![Invocation::new("sysbench", words)]
    };
    let params = Params::one("level", "dram").and("op", op).and("threads", threads as i64);
    Row {
        metric: "memory.bandwidth",
        params: params.and("page", machine.usual_page()),
        work,
        difference: match op {
            "read" => {
                "a loop of words, ours of vectors, which also fetches ahead; its first thread \
                 wrote all blocks, here each its own"
            }
            _ => "a loop of words, ours of vectors; it has every interruption in its mean",
        },
        tells: PeerStatistic::Mean,
        on: if threads == 1 { On::One } else { On::All },
        seconds: 2.0,
        ..Row::usual(Box::new(command), Box::new(rate))
    }
}

fn rate(outputs: &[Output]) -> Result<Reading, ReadingError> {
    let output = first(outputs);
    let mib = before(&output.out, "MiB/sec").ok_or_else(|| without("`MiB/sec`", output))?;
    Reading::of(mib * f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_as_sysbench_1_0_20_prints_it() {
        let text = include_str!("../tests/outputs/sysbench-1.0.20-read.txt");
        assert_eq!(rate(&[Output::printed(text)]).unwrap().value, 18602.60 * 1_048_576.0);
        assert!(rate(&[Output::printed("FATAL: Cannot find benchmark 'memory'")]).is_err());
    }
}
