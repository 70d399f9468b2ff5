//! stress-ng --vdso: asking for the time. Its other stressors count operations of their own, each
//! of which is many things at once.

use fathom_record::{Params, PeerStatistic, Unit};

use crate::Peer;
use crate::process::{Invocation, Output};
use crate::row::{Machine, Reading, ReadingError, Row};
use crate::text::{before, first, without};

/// stress-ng.
pub(crate) struct StressNg;

impl Peer for StressNg {
    fn name(&self) -> &'static str {
        "stress-ng"
    }

    fn rows(&self, _: &Machine) -> Vec<Row> {
        let words = ["--vdso", "1", "--vdso-func", "clock_gettime", "--timeout", "1", "--metrics"];
        vec![Row {
            metric: "os.vdso.clock_gettime",
            params: Params::one("clock", "monotonic"),
            unit: Unit::Nanoseconds,
            work: "--vdso clock_gettime",
            difference: "both call the vDSO's function; stress-ng subtracts a loop that counts, \
                         and has every interruption of its second in the mean",
            tells: PeerStatistic::Mean,
            seconds: 1.5,
            ..Row::usual(
                Box::new(move |_| vec![Invocation::new("stress-ng", words)]),
                Box::new(nanoseconds),
            )
        }]
    }
}

fn nanoseconds(outputs: &[Output]) -> Result<Reading, ReadingError> {
    let output = first(outputs);
    let text = [output.out.as_str(), &output.err].concat();
    let ns = before(&text, "nanosecs per call").or_else(|| before(&text, "nanoseconds per call"));
    Reading::of(ns.ok_or_else(|| without("`nanosecs per call`", output))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_call_is_read_as_stress_ng_0_15_06_prints_it() {
        let text = include_str!("../tests/outputs/stress-ng-0.15.06-vdso.txt");
        assert_eq!(nanoseconds(&[Output::printed(text)]).unwrap().value, 52.44);
        assert!(nanoseconds(&[Output::printed("stress-ng: skipped, no vDSO")]).is_err());
    }
}
