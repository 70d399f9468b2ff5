//! ApacheBench: closed-loop clients.

use crate::load::{Generator, Load, SECONDS, after};
use crate::prelude::*;

pub(crate) struct Ab;

const GENERATOR: Generator = Generator {
    work: "-k -c 8",
    difference: "the same connections, kept; ab sends HTTP/1.0, prints times in whole \
                 milliseconds, which are not compared, and has no warm-up",
    in_stalls: "its clients send nothing meanwhile, and count nothing of what would have waited",
    command: |url| {
        // A time alone means at most 50,000 requests.
        let words = ["-q", "-k", "-t", SECONDS, "-n", "100000000", "-c", "8", &url];
        Invocation::new("ab", words)
    },
    parse,
    has_quantiles: false,
};

impl Peer for Ab {
    fn name(&self) -> &'static str {
        "ab"
    }

    fn package(&self) -> &'static str {
        "apache2-utils"
    }

    fn version(&self) -> Invocation {
        Invocation::new("ab", ["-V"])
    }

    fn rows(&self, machine: &PeerMachine) -> Vec<Row> {
        GENERATOR.rows(machine)
    }
}

fn parse(output: &Output) -> Result<Load, RunError> {
    let text = &output.out;
    let number = |mark| after(text, mark)?.parse::<f64>().ok();
    let failed = number("Failed requests:").unwrap_or(0.0);
    if failed > 0.0 || text.contains("Non-2xx responses:") {
        return Err(RunError::Failed("ab reports failed requests".to_owned()));
    }
    let loads = number("Complete requests:").zip(number("Requests per second:"));
    let (requests, rate) = loads.ok_or_else(|| missing("`Requests per second:`", output))?;
    Ok(Load { requests, rate, ..Load::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_ab_2_3_is_parsed() {
        let text = include_str!("../tests/outputs/ab-2.3.txt");
        let load = parse(&Output::printed(text)).expect("a load");
        assert_eq!((load.requests, load.rate), (61_955.0, 30_977.45));
        let failed = text.replace("Failed requests:        0", "Failed requests:        3");
        assert!(parse(&Output::printed(&failed)).is_err() && parse(&Output::printed("")).is_err());
    }
}
