//! stress-ng --vdso: clock_gettime. The operations of its other stressors match no metric.

use crate::prelude::*;

pub(crate) struct StressNg;

impl Peer for StressNg {
    fn name(&self) -> &'static str {
        "stress-ng"
    }

    fn rows(&self, _: &PeerMachine) -> Vec<Row> {
        let words = ["--vdso", "1", "--vdso-func", "clock_gettime", "--timeout", "1", "--metrics"];
        vec![Row {
            metric: "os.vdso.clock_gettime",
            params: Params::one("clock", "monotonic"),
            unit: Unit::Nanoseconds,
            work: "--vdso clock_gettime",
            difference: "both call the vDSO function; stress-ng subtracts an empty loop and \
                         reports the mean including interruptions",
            statistic: PeerStatistic::Mean,
            seconds: 1.5,
            ..Row::usual(
                Box::new(move |_| vec![Invocation::new("stress-ng", words)]),
                Box::new(nanoseconds),
            )
        }]
    }
}

fn nanoseconds(outputs: &[Output]) -> Result<PeerReading, RunError> {
    let output = &outputs[0];
    let text = [output.out.as_str(), &output.err].concat();
    let ns = before(&text, "nanosecs per call").or_else(|| before(&text, "nanoseconds per call"));
    PeerReading::from_value(ns.ok_or_else(|| missing("`nanosecs per call`", output))?)
}
