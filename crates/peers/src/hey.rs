//! hey: closed-loop clients.

use crate::load::{Generator, Load, SECONDS, after};
use crate::prelude::*;

pub(crate) struct Hey;

const GENERATOR: Generator = Generator {
    work: "-c 8 -cpus 1",
    difference: "the same connections, kept; hey prints times to 0.1 ms, and has no warm-up",
    in_stalls: "its clients send nothing meanwhile, and count nothing of what would have waited",
    command: |url| {
        let time = format!("{SECONDS}s");
        Invocation::new("hey", ["-z", &time, "-c", "8", "-cpus", "1", &url])
    },
    parse,
    has_quantiles: true,
};

impl Peer for Hey {
    fn name(&self) -> &'static str {
        "hey"
    }

    fn version(&self) -> Invocation {
        // It prints none; Debian knows it.
        Invocation::new("dpkg-query", ["--show", "--showformat=${Version}", "hey"])
    }

    fn rows(&self, machine: &PeerMachine) -> Vec<Row> {
        GENERATOR.rows(machine)
    }
}

fn parse(output: &Output) -> Result<Load, RunError> {
    let text = &output.out;
    let statuses = text.split_once("Status code distribution:").map_or("", |(_, after)| after);
    let is_other = |line: &&str| line.contains("responses") && !line.contains("[200]");
    if text.contains("Error distribution:") || statuses.lines().any(|line| is_other(&line)) {
        return Err(RunError::Failed("hey reports failed requests".to_owned()));
    }
    let per_second = after(text, "Requests/sec:").and_then(|word| word.parse().ok());
    let loads = before(statuses, " responses").zip(per_second);
    let (requests, rate) = loads.ok_or_else(|| missing("`Requests/sec:`", output))?;
    let quantile = |mark| Some((1e9 * after(text, mark)?.parse::<f64>().ok()?).round());
    // 0.0000 is no time.
    let quantile = |mark| quantile(mark).filter(|ns| *ns > 0.0);
    Ok(Load { requests, rate, median_ns: quantile("50% in"), p99_ns: quantile("99% in") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_hey_0_1_is_parsed() {
        let text = include_str!("../tests/outputs/hey-0.1.4.txt");
        let load = parse(&Output::printed(text)).expect("a load");
        assert_eq!((load.requests, load.rate), (20_113.0, 10_047.814_6));
        assert_eq!((load.median_ns, load.p99_ns), (Some(3e5), Some(79e5)));
        let failed = text.replace("[200]", "[503]");
        assert!(parse(&Output::printed(&failed)).is_err() && parse(&Output::printed("")).is_err());
    }
}
