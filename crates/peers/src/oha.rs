//! oha: closed-loop clients.

use crate::load::{Generator, Load, SECONDS};
use crate::prelude::*;

pub(crate) struct Oha;

const GENERATOR: Generator = Generator {
    work: "-c 8 --no-tui",
    difference: "the same connections, kept; oha has no warm-up, and leaves out requests that its \
                 end cuts off",
    in_stalls: "its clients send nothing meanwhile, and count nothing of what would have waited",
    command: |url| {
        let time = format!("{SECONDS}s");
        Invocation::new(
            "oha",
            ["-z", &time, "-c", "8", "--no-tui", "--output-format", "json", &url],
        )
    },
    parse,
    has_quantiles: true,
};

impl Peer for Oha {
    fn name(&self) -> &'static str {
        "oha"
    }

    fn rows(&self, machine: &PeerMachine) -> Vec<Row> {
        GENERATOR.rows(machine)
    }
}

fn parse(output: &Output) -> Result<Load, RunError> {
    let report: Value = serde_json::from_str(&output.out).unwrap_or_default();
    let statuses = report["statusCodeDistribution"].as_object();
    let per_second = report["summary"]["requestsPerSec"].as_f64();
    let loads = statuses.zip(per_second);
    let (responses, rate) = loads.ok_or_else(|| missing("`requestsPerSec`", output))?;
    // What is under way at the end is its only error.
    let is_expected = |what: &str| what == "aborted due to deadline";
    let errors = report["errorDistribution"].as_object().into_iter().flatten();
    if errors.clone().any(|(what, _)| !is_expected(what)) || responses.keys().any(|it| it != "200")
    {
        return Err(RunError::Failed("oha reports failed requests".to_owned()));
    }
    let requests = responses.values().filter_map(Value::as_f64).sum();
    let quantile = |name: &str| Some((1e9 * report["latencyPercentiles"][name].as_f64()?).round());
    Ok(Load { requests, rate, median_ns: quantile("p50"), p99_ns: quantile("p99") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_oha_1_16_is_parsed() {
        let text = include_str!("../tests/outputs/oha-1.16.0.json");
        let load = parse(&Output::printed(text)).expect("a load");
        assert_eq!((load.requests, load.rate.round()), (202_235.0, 67_367.0));
        assert_eq!((load.median_ns, load.p99_ns), (Some(53_149.0), Some(666_709.0)));
        for failed in [text.replace(r#""200""#, r#""503""#), text.replace("aborted due", "refused")]
        {
            assert!(parse(&Output::printed(&failed)).is_err());
        }
        assert!(parse(&Output::printed("")).is_err());
    }
}
