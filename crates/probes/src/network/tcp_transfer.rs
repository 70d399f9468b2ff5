//! network.tcp.transfer: one transfer of 128 MiB over a TCP connection to a far end.

use fathom_far::transfer::{Length, Transfer, TransferDirection};
use fathom_measure::sampler::LOOPBACK;
use rustix::net::sockopt;

use super::FAR_END;
use super::connections::TO;
use super::ends;
use crate::prelude::*;

metric!(TcpTransfer, ABOUT);

static ABOUT: About = About {
    id: "network.tcp.transfer",
    title: "TCP transfer",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "sending this many bytes by calls of 64 KiB until the far end's count of them arrives",
    not_timed: "starting the far end, connecting; slow start of a fresh connection: the connection \
                is kept, and the first two transfers over it are a warm-up",
    model: "a value: network.tcp.bandwidth in the same direction with the same chunk, since a \
            transfer is long compared with its start and its end",
    source: "the same calls over the same path",
    pitfalls: &[
        "a transfer includes a filling and a draining of all buffers, and the trip of the answer: \
         network.tcp.bandwidth leaves them out",
        "where the transfer would take more than 15 s, it is unavailable",
    ],
    parameters: &[Parameter::new("bytes", "128 MiB", "bytes of the transfer"), TO],
    needs: &["network.tcp.bandwidth"],
    requires: "a loopback interface and two CPUs, or another host",
    published: "2.97 GB/s on loopback, 5.6 MB/s between two hosts by 802.11ac (2016)",
    cases_share_visits: false,
    ..FAR_END
};

const BYTES: i64 = 128 << 20;
const SMOKE_BYTES: i64 = 1 << 20;
const CHUNK: u32 = 64 << 10;
/// Bytes that show how long the transfer will take.
const TRIAL_BYTES: u64 = 1 << 20;
const TIME_MAX_NS: f64 = 15e9;

fn params(bytes: i64, to: &str) -> Params {
    Params::one("bytes", bytes).and("to", to)
}

impl Probe for TcpTransfer {
    /// Not at quick effort: a visit takes most of a second.
    fn cases(&self, _: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
        let case = |bytes| vec![ProbeCase { params: params(bytes, LOOPBACK), cost_ns: 700e6 }];
        match (sizes.smoke, sizes.effort) {
            (true, _) => case(SMOKE_BYTES),
            (_, Effort::Quick) => Vec::new(),
            _ => case(BYTES),
        }
    }

    fn remote(&self, case: &ProbeCase, to: &str) -> Option<ProbeCase> {
        // Warm-up and three rounds of the longest still end before the worker is killed.
        Some(ProbeCase { params: params(case.params.integer("bytes")?, to), cost_ns: 12e9 })
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let to = case.params.text("to").unwrap_or(LOOPBACK);
        let same = Params::one("chunk_bytes", i64::from(CHUNK))
            .and("streams", 1)
            .and("cpus", 2)
            .and("direction", "send")
            .and("to", to);
        let name = format!("network.tcp.bandwidth{same}");
        let missing = || NoModel::MissingInput { metric: name.clone() };
        let rate = known.quantity("network.tcp.bandwidth", &same).ok_or_else(missing)?;
        let sum = Prediction::sum(0.0, rate, 0.2, &name, ABOUT.source);
        let sum = sum.without_parts().self_consistent();
        let meaning = "the rate is not steady for so long, or the start and the end take a part";
        Ok(sum.with_result(&name, rate, Unit::BytesPerSecond).otherwise(meaning))
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let parse =
            |params: &Params| Some((params.number("bytes")?, params.text("to")?.to_owned()));
        each_parsed(cases, sampler, parse, |index, (bytes, to), sampler| {
            measure(index, bytes, &to, sampler)
        })
    }
}

fn measure(case: usize, bytes: u64, to: &str, sampler: &mut Sampler) -> Result<()> {
    let place = sampler.resources().far_end(to)?;
    let work = fathom_far::ProtocolWork::Transfer { streams: 1, chunk_bytes: CHUNK };
    let (far, connections) = ends::open(work, &place, 2, sampler)?;
    let congestion = sockopt::tcp_congestion(&connections[0]).unwrap_or_default().to_string();
    let mut transfer = Transfer::new(connections, CHUNK as usize);
    let mut once = |block: u64, clock: &Clock| -> Result<f64> {
        let length = Length { block, blocks: 1, least_ns: 0.0 };
        let tracks = transfer.run(TransferDirection::Send, length, clock);
        let tracks = tracks.map_err(|error| ends::fault(to, error))?;
        let ends = tracks.first().and_then(|track| Some((track.first()?, track.last()?)));
        let (from, until) = ends.ok_or_else(|| SamplerFault::Failed("no count".to_owned()))?;
        Ok((until.1 as f64) * 1e9 / clock.ns(from.0, until.0))
    };
    let clock = sampler.clock().clone();
    once(TRIAL_BYTES, &clock)?;
    let takes_ns = bytes as f64 * 1e9 / once(TRIAL_BYTES, &clock)?;
    if takes_ns > TIME_MAX_NS {
        let text = format!("{bytes} bytes take {:.0} s, more than 15 s", takes_ns / 1e9);
        return Err(SamplerFault::Unavailable(text, None));
    }
    sampler.run(vec![single(case, bytes / u64::from(CHUNK), |clock| once(bytes, clock))]);
    let sent = transfer.bytes();
    drop(transfer);
    let outcome = far.finish().map_err(|error| ends::fault(to, error))?;
    let counts = format!("near {sent}, far {}", outcome.count);
    sampler.check(case, "bytes", sent == outcome.count, counts);
    let controls = format!("near {congestion}, far {}", outcome.congestion);
    let is_same = congestion == outcome.congestion || place.address.is_some();
    sampler.check(case, "tcp congestion", is_same, controls);
    sampler.keep_far_end(case, outcome.far);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn far_end_counts_all_bytes() {
        for (_, sample) in smoke::run(&TcpTransfer) {
            let Ok(sample) = sample else { continue };
            assert_eq!(sample.batch, 16);
            assert!(sample.far.is_some());
        }
    }

    #[test]
    fn published_figures_are_of_this_case() {
        let text = include_str!("../../../../data/reference/2016-i5-5257u.toml");
        let case = TcpTransfer.cases(&Host::default(), &Sizes::default());
        let bytes = case[0].params.integer("bytes").unwrap();
        for to in ["loopback", "remote"] {
            let params = format!("params = {{ to = \"{to}\", bytes = {bytes} }}");
            assert!(text.contains(&format!("metric = \"network.tcp.transfer\"\n{params}")), "{to}");
        }
    }
}
