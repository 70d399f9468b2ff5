//! sysbench memory: reading or writing a block word by word. Its other tests match no metric.

use crate::prelude::*;

pub(crate) struct Sysbench;

impl Peer for Sysbench {
    fn name(&self) -> &'static str {
        "sysbench"
    }

    fn rows(&self, machine: &PeerMachine) -> Vec<Row> {
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

/// Each thread has a block that fits in no cache; by default they share one of 1 KiB.
fn memory(machine: &PeerMachine, (op, work): (&'static str, &'static str), threads: usize) -> Row {
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
        params: params.and("page", machine.default_page()),
        work,
        difference: match op {
            "read" => {
                "sysbench reads words, Fathom vectors with prefetching; sysbench's first thread \
                 writes all blocks, each thread of Fathom its own"
            }
            _ => {
                "sysbench writes words, Fathom vectors; sysbench reports the mean including \
                 interruptions"
            }
        },
        statistic: PeerStatistic::Mean,
        on: if threads == 1 { On::One } else { On::All },
        seconds: 2.0,
        ..Row::usual(Box::new(command), Box::new(rate))
    }
}

fn rate(outputs: &[Output]) -> Result<PeerReading, RunError> {
    let output = &outputs[0];
    let mib = before(&output.out, "MiB/sec").ok_or_else(|| missing("`MiB/sec`", output))?;
    PeerReading::from_value(mib * f64::from(1 << 20))
}
