//! os.ratio: how many system calls a process costs, and a switch: the proportions of a kernel,
//! which change less from machine to machine than its times do.

use fathom_analysis::statistics;
use fathom_record::{Counters, Host, NoModel, Origin, Params, Prediction, Record, Unit};

use fathom_metric::order::earlier;
use fathom_metric::{About, Derived, Estimate, Inputs, MissingInput, Parameter};

/// os.ratio.
pub struct Ratio;

static ABOUT: About = About {
    id: "os.ratio",
    title: "in system calls",
    unit: Unit::Ratio,
    timed: "nothing: os.process.fork{part=fork, rss_bytes=1 MiB}, or os.switch.process of no set, \
            ÷ os.syscall{call=getppid}, headline by headline, with the interval of a bootstrap \
            over the processes of both",
    not_timed: "the reaping of the child; the pipe that passes the turn, which the switch has \
                subtracted",
    model: "a bound (METHOD 25): a fork ≥ 10 system calls, a switch ≥ 1. That a system call \
            became cheaper makes both ratios larger: a kernel is compared by its times first",
    source: "bound: lmbench (McVoy & Staelin, USENIX 1996), tables of system calls, process \
             creation and context switches, where fork is hundreds of calls and a switch several",
    pitfalls: &[
        "the bare instruction is the unit: by the C library's procedure a call costs more, and \
         the ratios are smaller",
        "published ratios count a fork of whatever size its program had, and mostly with the \
         pipe's cost in the switch: read them for scale",
        "the two results come from processes of their own: the interval holds the spread of both",
    ],
    parameters: &[Parameter {
        name: "of",
        values: "fork, switch",
        meaning: "what is counted in system calls",
    }],
    needs: &["os.syscall", "os.process.fork", "os.switch.process"],
    published: "fork 200, switch 6.5 (as published for a course's machine)",
    expects: Counters::TURNS,
    noise_limit: 0.15,
    ..About::BASE
};

const MIB: i64 = 1 << 20;
/// Seed of the bootstrap: the same records have the same interval.
const SEED: u64 = 1;

/// The case that is divided, and how many system calls it should be at least.
fn counted(params: &Params) -> (&'static str, Params, f64) {
    match params.text("of") {
        Some("fork") => {
            ("os.process.fork", Params::one("part", "fork").and("rss_bytes", MIB), 10.0)
        }
        _ => ("os.switch.process", Params::one("set_bytes", 0), 1.0),
    }
}

fn call() -> Params {
    Params::one("call", "getppid")
}

impl Derived for Ratio {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn inputs(&self) -> &'static [&'static str] {
        ABOUT.needs
    }

    fn depends_on(&self, params: &Params, record: &Record, _: &Inputs<'_>) -> bool {
        let (metric, case, _) = counted(params);
        let is = |metric: &str, case: &Params| {
            record.metric.as_str() == metric && record.params == *case
        };
        is(metric, &case) || is("os.syscall", &call())
    }

    fn cases(&self) -> Vec<Params> {
        ["fork", "switch"].map(|of| Params::one("of", of)).into()
    }

    fn reduce(&self, params: &Params, known: &Inputs<'_>) -> Result<Estimate, MissingInput> {
        let (metric, case, _) = counted(params);
        let (dividend, divisor) =
            (known.input(metric, &case)?, known.input("os.syscall", &call())?);
        let pairs = dividend.process_medians.iter().zip(&divisor.process_medians);
        let per_process = pairs.filter(|(_, by)| **by > 0.0).map(|(it, by)| it / by).collect();
        let (of, by) = (&dividend.process_medians, &divisor.process_medians);
        let quotient = statistics::ratio_of_medians(by, of, SEED);
        Ok(Estimate { per_process, quotient, ..Estimate::default() })
    }

    fn predict(
        &self,
        params: &Params,
        _: &Host,
        known: &Inputs<'_>,
    ) -> Result<Prediction, NoModel> {
        let (metric, _, least) = counted(params);
        let call_ns = earlier("os.syscall", &call(), known)?;
        let formula = format!("{metric} ≥ {least} × os.syscall{}", call());
        Ok(Prediction::at_least(least, &formula, ABOUT.source).with_input(
            &format!("os.syscall{}", call()),
            call_ns,
            Origin::this_run(format!("os.syscall{}", call())),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    fn records() -> Vec<Record> {
        let with = |metric: &str, params: Params, medians: &[f64]| {
            let mut record = smoke::record(metric, &params, medians[0], 0.0);
            record.summary.as_mut().unwrap().process_medians = medians.to_vec();
            record
        };
        let (fork, fork_case, _) = counted(&Params::one("of", "fork"));
        let (switch, switch_case, _) = counted(&Params::one("of", "switch"));
        vec![
            with("os.syscall", call(), &[100.0, 110.0, 90.0]),
            with(fork, fork_case, &[20_000.0, 22_000.0]),
            with(switch, switch_case, &[650.0, 660.0, 630.0]),
        ]
    }

    #[test]
    fn each_process_of_the_one_is_divided_by_one_of_the_other() {
        let records = records();
        let ratio = |of| Ratio.reduce(&Params::one("of", of), &Inputs::new(&records)).unwrap();
        assert_eq!(ratio("fork").per_process, [200.0, 200.0]);
        assert_eq!(ratio("switch").per_process, [6.5, 6.0, 7.0]);
    }

    #[test]
    fn the_headline_is_the_quotient_of_both_headlines_however_the_processes_are_paired() {
        let records = records();
        let switch = Ratio.reduce(&Params::one("of", "switch"), &Inputs::new(&records)).unwrap();
        let quotient = switch.quotient.unwrap();
        assert_eq!(quotient.ratio, 6.5);
        assert!(quotient.low < 6.4 && quotient.high > 6.6, "{quotient:?}");
    }

    #[test]
    fn a_ratio_without_both_is_none_and_names_what_is_missing() {
        let records = records();
        let error = Ratio.reduce(&Params::one("of", "fork"), &Inputs::new(&records[..1]));
        assert!(error.unwrap_err().to_string().contains("os.process.fork{part=fork"));
        let error = Ratio.reduce(&Params::one("of", "switch"), &Inputs::new(&records[1..]));
        let missing = MissingInput::Case { metric: "os.syscall", params: call() };
        assert_eq!(error.unwrap_err(), missing);
    }

    #[test]
    fn it_rests_on_the_two_cases_that_are_divided_and_no_other() {
        let fork = Params::one("of", "fork");
        let rests = |record: &Record| Ratio.depends_on(&fork, record, &Inputs::new(&[]));
        assert_eq!(records().iter().map(rests).collect::<Vec<_>>(), [true, true, false]);
        let large = Params::one("part", "fork").and("rss_bytes", 1024 * MIB);
        assert!(!rests(&smoke::record("os.process.fork", &large, 1e6, 1.0)));
    }

    #[test]
    fn the_claim_is_an_order() {
        let records = records();
        let claim = Ratio
            .predict(&Params::one("of", "fork"), &Host::default(), &Inputs::new(&records))
            .unwrap();
        assert_eq!((claim.low, claim.value), (Some(10.0), None));
    }
}
