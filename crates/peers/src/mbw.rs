//! mbw: copying an array word by word.

use crate::prelude::*;

pub(crate) struct Mbw;

impl Peer for Mbw {
    fn name(&self) -> &'static str {
        "mbw"
    }

    /// mbw does not print its version.
    fn version(&self) -> Invocation {
        Invocation::new("dpkg-query", ["-W", "-f=${Version}", "mbw"])
    }

    fn rows(&self, machine: &PeerMachine) -> Vec<Row> {
        let mib = (machine.memory_bytes() >> 20).to_string();
        let command = move |_: &_| vec![Invocation::new("mbw", ["-q", "-t", "1", "-n", "7", &mib])];
        let params = Params::one("level", "dram").and("op", "copy").and("threads", 1);
        vec![Row {
            metric: "memory.bandwidth",
            params: params.and("page", machine.default_page()),
            work: "DUMB (-t 1)",
            // Not MEMCPY: the C library's memcpy uses non-temporal stores, which is less work.
            difference: "mbw copies words, Fathom vectors; mbw counts a copied byte once, here \
                         converted to twice",
            ..Row::usual(Box::new(command), Box::new(rate))
        }]
    }
}

/// The median pass: the first one faults pages in.
fn rate(outputs: &[Output]) -> Result<PeerReading, RunError> {
    let output = &outputs[0];
    let passes = output.out.lines().filter(|line| !line.starts_with("AVG"));
    let rates: Vec<f64> =
        passes.filter_map(|line| before(line.split_once("Copy:")?.1, "MiB/s")).collect();
    let mib = fathom_analysis::statistics::median(&rates);
    let mib = mib.ok_or_else(|| missing("`Copy: … MiB/s`", output))?;
    PeerReading::from_value(2.0 * mib * f64::from(1 << 20))
}
