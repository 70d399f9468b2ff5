//! wrk: closed-loop clients.

use crate::load::{Generator, Load, SECONDS, after, time_ns};
use crate::prelude::*;

pub(crate) struct Wrk;

const GENERATOR: Generator = Generator {
    work: "-t1 -c8 --latency",
    difference: "the same connections, kept; wrk reads through 8 KiB, has no warm-up, and adds \
                 the times of requests that waiting connections would have sent at the mean rate",
    in_stalls: "wrk adds what its connections would have sent meanwhile at their mean rate",
    command: |url| {
        let time = format!("-d{SECONDS}s");
        Invocation::new("wrk", ["-t1", "-c8", &time, "--latency", &url])
    },
    parse,
    has_quantiles: true,
};

impl Peer for Wrk {
    fn name(&self) -> &'static str {
        "wrk"
    }

    fn version(&self) -> Invocation {
        // Exits with 1, and prints it.
        Invocation::new("sh", ["-c", "wrk --version || true"])
    }

    fn rows(&self, machine: &PeerMachine) -> Vec<Row> {
        GENERATOR.rows(machine)
    }
}

fn parse(output: &Output) -> Result<Load, RunError> {
    let text = &output.out;
    if text.contains("Non-2xx") || text.contains("Socket errors") {
        return Err(RunError::Failed("wrk reports failed requests".to_owned()));
    }
    let per_second = after(text, "Requests/sec:").and_then(|word| word.parse().ok());
    let loads = before(text, " requests in ").zip(per_second);
    let (requests, rate) = loads.ok_or_else(|| missing("`Requests/sec:`", output))?;
    let times = text.split_once("Latency Distribution").map_or("", |(_, after)| after);
    let quantile = |mark| time_ns(after(times, mark)?);
    Ok(Load { requests, rate, median_ns: quantile("50%"), p99_ns: quantile("99%") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_wrk_4_1_is_parsed() {
        let output = Output::printed(include_str!("../tests/outputs/wrk-4.1.0.txt"));
        let load = parse(&output).expect("a load");
        let expected = Load {
            requests: 20_639.0,
            rate: 10_253.0,
            median_ns: Some(184e3),
            p99_ns: Some(288.76e6),
        };
        assert_eq!(load, expected);
        let failed = Output::printed("  Non-2xx or 3xx responses: 7\nRequests/sec:  1.00\n");
        assert!(parse(&failed).is_err() && parse(&Output::printed("")).is_err());
    }
}
