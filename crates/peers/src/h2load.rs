//! h2load: closed-loop clients, by HTTP/1.1.

use crate::load::{Generator, Load, SECONDS, after};
use crate::prelude::*;

pub(crate) struct H2load;

const GENERATOR: Generator = Generator {
    work: "--h1 -t 1 -c 8",
    difference: "the same connections, kept; h2load prints no median, and has no warm-up",
    in_stalls: "its clients send nothing meanwhile, and count nothing of what would have waited",
    command: |url| Invocation::new("h2load", ["--h1", "-t", "1", "-c", "8", "-D", SECONDS, &url]),
    parse,
    has_quantiles: false,
};

impl Peer for H2load {
    fn name(&self) -> &'static str {
        "h2load"
    }

    fn package(&self) -> &'static str {
        "nghttp2-client"
    }

    fn rows(&self, machine: &PeerMachine) -> Vec<Row> {
        GENERATOR.rows(machine)
    }
}

fn parse(output: &Output) -> Result<Load, RunError> {
    let text = &output.out;
    // `requests: 64124 total, 64132 started, 64124 done, 64124 succeeded, …`
    let total = after(text, "requests: ").and_then(|word| word.parse::<f64>().ok());
    let loads = total.zip(before(text, " req/s,")).zip(before(text, " succeeded,"));
    let ((requests, rate), succeeded) = loads.ok_or_else(|| missing("`req/s`", output))?;
    if succeeded < requests {
        return Err(RunError::Failed("h2load reports failed requests".to_owned()));
    }
    Ok(Load { requests, rate, ..Load::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_h2load_1_52_is_parsed() {
        let text = include_str!("../tests/outputs/h2load-1.52.0.txt");
        let load = parse(&Output::printed(text)).expect("a load");
        assert_eq!((load.requests, load.rate), (64_124.0, 32_062.0));
        let failed = text.replace("64124 succeeded", "64123 succeeded");
        assert!(parse(&Output::printed(&failed)).is_err() && parse(&Output::printed("")).is_err());
    }
}
