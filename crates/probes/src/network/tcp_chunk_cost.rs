//! network.tcp.chunk_cost: time per call and per byte, from bandwidths with chunks of three sizes.

use fathom_record::Counter;

use super::tcp_bandwidth::{CHUNKS, at_most_copied, of_chunk};
use crate::prelude::*;

metric!(TcpChunkCost, ABOUT);

static ABOUT: About = About {
    id: "network.tcp.chunk_cost",
    title: "TCP time per call and per byte",
    timed: "least-squares line through chunk ÷ network.tcp.bandwidth, per byte: per byte + per \
            call ÷ chunk, over chunks of 4 KiB, 64 KiB and 1 MiB, from the n-th process of each \
            case; median and interval over these lines",
    not_timed: "whatever costs neither a call nor a byte: connecting, slow start",
    model: "bounds: a call ≥ os.syscall{call=getppid}; a byte ≥ 1 ÷ the bound of \
            network.tcp.bandwidth{cpus=2}, one copy at each end. No value: it is derived from the \
            bandwidth, which has none",
    source: "Linux net/ipv4/tcp.c: tcp_sendmsg and tcp_recvmsg copy each byte once",
    pitfalls: &[
        "both ends work at the same time on two CPUs: these are the times between chunks and bytes \
         that arrive, which the slower end determines, not the CPU time of both ends",
        "where the default congestion control paces (BBR) the time is its own choice: the line is \
         through the cases with congestion=cubic",
        "a line assumes that a byte costs the same in all chunks: a note has the largest distance \
         of a case from it, and beyond 25 % there is no result. A chunk of 1 MiB may leave a cache \
         that holds 64 KiB",
    ],
    parameters: &[Parameter::new("of", "call, byte", "one more send and recv · one more byte")],
    needs: &["os.syscall", "memory.bandwidth", "network.tcp.bandwidth"],
    requires: "a loopback interface and two CPUs; standard effort",
    expects: Counters::from_counters(&[Counter::NotRunning, Counter::Interrupts]),
    noise_limit: 0.25,
    ..About::BASE
};

const BANDWIDTH: &str = "network.tcp.bandwidth";
/// A case that is farther from the line, as a share of its time, has another cause than the two.
const DISTANCE_MAX: f64 = 0.25;

impl Derived for TcpChunkCost {
    fn inputs(&self) -> &'static [&'static str] {
        &[BANDWIDTH]
    }

    fn depends_on(&self, _: &Params, record: &Record, known: &Inputs<'_>) -> bool {
        let is_used = |chunk| of_chunk(chunk, known.host()) == record.params;
        record.metric.as_str() == BANDWIDTH && CHUNKS.into_iter().any(is_used)
    }

    fn cases(&self) -> Vec<Params> {
        ["call", "byte"].map(|of| Params::one("of", of)).into()
    }

    fn is_for(&self, effort: Effort) -> bool {
        effort != Effort::Quick
    }

    fn reduce(&self, params: &Params, known: &Inputs<'_>) -> Result<DerivedEstimate, MissingInput> {
        let mut rates = Vec::new();
        for chunk in CHUNKS {
            let summary = known.input(BANDWIDTH, &of_chunk(chunk, known.host()))?;
            rates.push(&summary.process_medians);
        }
        let processes = rates.iter().map(|of_case| of_case.len()).min().unwrap_or(0);
        let lines: Vec<TcpChunkCostLine> = (0..processes)
            .filter_map(|process| {
                TcpChunkCostLine::through(rates.iter().map(|of_case| of_case[process]))
            })
            .collect();
        let distances: Vec<f64> = lines.iter().map(|line| line.distance).collect();
        let distance = statistics::median(&distances).unwrap_or(0.0);
        if distance > DISTANCE_MAX {
            let text = "the times are more than 25 % off a line over the chunk sizes";
            return Err(MissingInput::Absent(text));
        }
        let of = |line: &TcpChunkCostLine| match params.text("of") {
            Some("call") => line.per_call,
            _ => line.per_byte,
        };
        let percent = 100.0 * distance;
        let notes =
            vec![format!("cases up to {percent:.0} % off the line (median over processes)")];
        let per_process = lines.iter().map(of).collect();
        Ok(DerivedEstimate { per_process, difference: true, notes, ..DerivedEstimate::default() })
    }

    fn predict(&self, params: &Params, _: &Host, known: &Inputs<'_>) -> Model {
        if params.text("of") == Some("call") {
            return at_least_getppid(1.0, "a chunk is at least one system call", known);
        }
        let fastest = at_most_copied(2, known)?;
        let rate = fastest.high.ok_or(NoModel::NoCommonSet)?;
        let bound = Prediction::at_least(1e9 / rate, "≥ 1 ÷ copies per second", &fastest.source);
        Ok(Prediction { inputs: fastest.inputs, if_below: fastest.if_above, ..bound })
    }
}

/// Nanoseconds.
struct TcpChunkCostLine {
    per_call: f64,
    per_byte: f64,
    /// The largest distance of a case from the line, as a share of its time.
    distance: f64,
}

impl TcpChunkCostLine {
    /// The rates are in the order of [`CHUNKS`]. Times per byte, as rates have the same share of
    /// noise: times per chunk would give the largest all the weight.
    fn through(rates: impl Iterator<Item = f64>) -> Option<Self> {
        let ns: Vec<f64> = rates.map(|rate| 1e9 / rate).collect();
        let calls = CHUNKS.map(|chunk| 1.0 / f64::from(chunk));
        let line = statistics::line(&calls, &ns)?;
        let of_case =
            |(calls, ns): (&f64, &f64)| ((line.intercept + line.slope * calls) / ns - 1.0).abs();
        let distance = calls.iter().zip(&ns).map(of_case).fold(0.0, f64::max);
        Some(Self { per_call: line.slope, per_byte: line.intercept, distance })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn paced_default_is_replaced_by_cubic() {
        let mut host = Host::default();
        host.tcp.congestion = Some("bbr".to_owned());
        let uses = |chunk, of: &Host| {
            let record = smoke::record(BANDWIDTH, &of_chunk(chunk, Some(of)), 1e9, 1.0);
            let known = Inputs::new(&[]).on(&host);
            TcpChunkCost.depends_on(&Params::one("of", "call"), &record, &known)
        };
        assert_eq!(of_chunk(CHUNKS[0], Some(&host)).text("congestion"), Some("cubic"));
        for chunk in CHUNKS {
            assert!(uses(chunk, &host) && !uses(chunk, &Host::default()));
        }
    }
}
