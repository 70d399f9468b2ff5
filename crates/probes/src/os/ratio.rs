//! os.ratio: fork and process switch in units of a system call. Such ratios differ less between
//! machines than times do.

use crate::prelude::*;

metric!(Ratio, ABOUT);

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

    fn reduce(&self, params: &Params, known: &Inputs<'_>) -> Result<DerivedEstimate, MissingInput> {
        let (metric, case, _) = numerator(params);
        let of = &known.input(metric, &case)?.process_medians;
        let by = &known.input("os.syscall", &getppid())?.process_medians;
        let pairs = of.iter().zip(by).filter(|(_, by)| **by > 0.0);
        let per_process = pairs.map(|(of, by)| of / by).collect();
        let quotient = statistics::ratio_of_medians(by, of, SEED);
        Ok(DerivedEstimate { per_process, quotient, ..DerivedEstimate::default() })
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

    #[test]
    fn ratio_rests_on_its_two_cases_only() {
        let fork = Params::one("of", "fork");
        let rests = |metric: &str, params: Params| {
            let record = smoke::record(metric, &params, 1e6, 1.0);
            Ratio.depends_on(&fork, &record, &Inputs::new(&[]))
        };
        let of = |rss_bytes| Params::one("part", "fork").and("rss_bytes", rss_bytes);
        assert!(rests("os.syscall", getppid()) && rests("os.process.fork", of(MIB)));
        assert!(!rests("os.switch.process", Params::one("set_bytes", 0)));
        assert!(!rests("os.process.fork", of(1024 * MIB)));
    }
}
