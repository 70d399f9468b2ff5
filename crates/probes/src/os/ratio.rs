//! os.ratio: fork and process switch in units of a system call. Such ratios differ less between
//! machines than times do.

use crate::prelude::*;

/// os.ratio.
pub struct Ratio;

static ABOUT: About = About {
    id: "os.ratio",
    title: "cost in system calls",
    unit: Unit::Ratio,
    timed: "the headline of os.process.fork{part=fork,rss_bytes=1048576} or \
            os.switch.process{set_bytes=0} ÷ that of os.syscall{call=getppid}, with a bootstrap \
            interval over the processes of both",
    not_timed: "reaping the child; the pipe calls, which the switch metric subtracts",
    model: "a bound (METHOD 25): a fork ≥ 10 system calls, a switch ≥ 1. A faster system call \
            makes both ratios larger: compare kernels by their times first. No value: a ratio of \
            two results that have none",
    source: "bound: lmbench (McVoy & Staelin, USENIX 1996), tables of system calls, process \
             creation and context switches: fork costs hundreds of calls, a switch several",
    pitfalls: &[
        "the unit is the inlined system call instruction; a call through the C library costs \
         more, so ratios to it are smaller",
        "published ratios fork programs of other sizes, and mostly include the pipe in the \
         switch: read them for scale",
        "numerator and denominator come from different processes: the interval includes the \
         spread of both",
    ],
    parameters: &[Parameter::new(
        "of",
        "fork, switch",
        "the numerator: fork of 1 MiB · switch between processes",
    )],
    needs: &["os.syscall", "os.process.fork", "os.switch.process"],
    published: "fork 200, switch 6.5 (as published for a course's machine)",
    expects: Counters::TURNS,
    noise_limit: 0.15,
    ..About::BASE
};

const MIB: i64 = 1 << 20;
/// A fixed bootstrap seed: the same records give the same interval.
const SEED: u64 = 1;

/// The numerator's metric and case, and its lower bound in system calls.
fn numerator(params: &Params) -> (&'static str, Params, f64) {
    match params.text("of") {
        Some("fork") => {
            ("os.process.fork", Params::one("part", "fork").and("rss_bytes", MIB), 10.0)
        }
        _ => ("os.switch.process", Params::one("set_bytes", 0), 1.0),
    }
}

impl Derived for Ratio {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn inputs(&self) -> &'static [&'static str] {
        ABOUT.needs
    }

    fn depends_on(&self, params: &Params, record: &Record, _: &Inputs<'_>) -> bool {
        let (metric, case, _) = numerator(params);
        let is = |metric: &str, case: &Params| {
            record.metric.as_str() == metric && record.params == *case
        };
        is(metric, &case) || is("os.syscall", &getppid())
    }

    fn cases(&self) -> Vec<Params> {
        ["fork", "switch"].map(|of| Params::one("of", of)).into()
    }

    fn reduce(&self, params: &Params, known: &Inputs<'_>) -> Result<Estimate, MissingInput> {
        let (metric, case, _) = numerator(params);
        let of = &known.input(metric, &case)?.process_medians;
        let by = &known.input("os.syscall", &getppid())?.process_medians;
        let pairs = of.iter().zip(by).filter(|(_, by)| **by > 0.0);
        let per_process = pairs.map(|(of, by)| of / by).collect();
        let quotient = statistics::ratio_of_medians(by, of, SEED);
        Ok(Estimate { per_process, quotient, ..Estimate::default() })
    }

    fn predict(&self, params: &Params, _: &Host, known: &Inputs<'_>) -> Model {
        let (metric, _, least) = numerator(params);
        let call_ns = earlier("os.syscall", &getppid(), known)?;
        let call = format!("os.syscall{}", getppid());
        let formula = format!("{metric} ≥ {least} × {call}");
        let bound = Prediction::at_least(least, &formula, ABOUT.source);
        Ok(bound.with_input(&call, call_ns, Origin::this_run(&call)))
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
        let (fork, fork_case, _) = numerator(&Params::one("of", "fork"));
        let (switch, switch_case, _) = numerator(&Params::one("of", "switch"));
        vec![
            with("os.syscall", getppid(), &[100.0, 110.0, 90.0]),
            with(fork, fork_case, &[20_000.0, 22_000.0]),
            with(switch, switch_case, &[650.0, 660.0, 630.0]),
        ]
    }

    #[test]
    fn headline_is_the_ratio_of_headlines() {
        let records = records();
        let ratio = |of| Ratio.reduce(&Params::one("of", of), &Inputs::new(&records)).unwrap();
        assert_eq!(ratio("fork").per_process, [200.0, 200.0]);
        let switch = ratio("switch");
        assert_eq!(switch.per_process, [6.5, 6.0, 7.0]);
        let quotient = switch.quotient.unwrap();
        assert_eq!(quotient.ratio, 6.5);
        assert!(quotient.low < 6.4 && quotient.high > 6.6, "{quotient:?}");
    }

    #[test]
    fn missing_input_is_named() {
        let records = records();
        let error = Ratio.reduce(&Params::one("of", "fork"), &Inputs::new(&records[..1]));
        assert!(error.unwrap_err().to_string().contains("os.process.fork{part=fork"));
        let error = Ratio.reduce(&Params::one("of", "switch"), &Inputs::new(&records[1..]));
        let missing = MissingInput::Case { metric: "os.syscall", params: getppid() };
        assert_eq!(error.unwrap_err(), missing);
    }

    #[test]
    fn ratio_rests_on_its_two_cases_only() {
        let fork = Params::one("of", "fork");
        let rests = |record: &Record| Ratio.depends_on(&fork, record, &Inputs::new(&[]));
        assert_eq!(records().iter().map(rests).collect::<Vec<_>>(), [true, true, false]);
        let large = Params::one("part", "fork").and("rss_bytes", 1024 * MIB);
        assert!(!rests(&smoke::record("os.process.fork", &large, 1e6, 1.0)));
    }
}
