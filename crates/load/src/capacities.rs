//! What each resource gives, and how it was measured.

use fathom_analysis::load::Resource;
use fathom_analysis::statistics::mean_half_width;
use fathom_metric::Measured;
use fathom_record::{Basis, Cause, Fact, Interval, Params, State, Unit, Verdict, load_facts};

use crate::metrics;

/// Pacing is a limit of its own if another congestion control carries this many times more.
const PACED: f64 = 1.25;

/// Bytes per second, with the half width of its interval as a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub bytes_s: f64,
    pub half: f64,
}

impl Rate {
    /// Whether another one is clearly above it.
    pub fn is_below(self, other: Self) -> bool {
        let [high, low] = [self.bytes_s * (1.0 + self.half), other.bytes_s * (1.0 - other.half)];
        other.bytes_s > PACED * self.bytes_s && low > high
    }

    /// From the bytes of equal times.
    pub fn from_bytes(bytes: &[f64], seconds: f64) -> Option<Self> {
        let mean = bytes.iter().sum::<f64>() / bytes.len().max(1) as f64;
        let half = mean_half_width(bytes).unwrap_or(0.0) / mean;
        (mean > 0.0).then_some(Self { bytes_s: mean / seconds, half })
    }
}

/// What is known of each resource, and how it was measured.
#[derive(Clone, Debug, Default)]
pub struct Capacities {
    pub network: Option<Rate>,
    /// The CPU that was busy while the network was measured, which can then carry more.
    pub network_under: Option<Resource>,
    /// Of the congestion control in use, if another one carries much more.
    pub paced: Option<Rate>,
    /// `Err`: why there is none, such as a file system in memory.
    pub disk: Option<Result<Rate, String>>,
    /// CPU time per request of the server and of the client.
    pub server_ns: Option<f64>,
    pub client_ns: Option<f64>,
    /// CPUs of either end.
    pub server_cpus: f64,
    pub client_cpus: f64,
    /// Bytes that a request brings to the wire.
    pub request_bytes: Option<f64>,
    /// Bytes that a request reads from the disk: of a file, without heads.
    pub file_bytes: Option<f64>,
    pub methods: Vec<(&'static str, String)>,
}

impl Capacities {
    /// Bytes per second of all resources, by the words of the parameter `of`.
    pub fn rates(&self) -> Vec<(&'static str, Rate)> {
        let bytes = self.request_bytes;
        let by_cpu = |cpus: f64, ns: Option<f64>| {
            // A server may say that it used no time.
            let ns = ns.filter(|ns| *ns > 0.0)?;
            Some(Rate { bytes_s: cpus / (ns / 1e9) * bytes?, half: 0.0 })
        };
        let all = [
            ("network", self.network),
            ("pacing", self.paced),
            ("disk", self.disk.as_ref().and_then(|disk| disk.as_ref().ok().copied())),
            ("server-cpu", by_cpu(self.server_cpus, self.server_ns)),
            ("client", by_cpu(self.client_cpus, self.client_ns)),
        ];
        all.into_iter().filter_map(|(of, rate)| Some((of, rate?))).collect()
    }

    /// The time of a request on the network, if nothing else limited the measurement of that.
    pub fn network_demand_s(&self) -> Option<f64> {
        let network = self.network.filter(|_| self.network_under.is_none());
        Some(self.request_bytes? / self.paced.or(network)?.bytes_s)
    }

    /// A record for each resource.
    pub fn measured(&self, params: &Params) -> Vec<Measured> {
        let measured = |(of, rate): (&'static str, Rate)| {
            let limits = [(1.0 - rate.half).max(0.0), 1.0 + rate.half];
            let limits = limits.map(|share| rate.bytes_s * share);
            let interval = Interval::new(limits, 0.95, Basis::WithinRun);
            let bytes = if of == "disk" { self.file_bytes } else { self.request_bytes };
            let requests = bytes.map(|bytes| rate.bytes_s / bytes);
            let requests =
                requests.map(|rate| Fact::quantity(load_facts::REQUESTS, rate, Unit::PerSecond));
            let methods = self.methods.iter().filter(|(known, _)| *known == of);
            let methods = methods.map(|(_, text)| Fact::text(load_facts::METHOD, text.clone()));
            Measured {
                metric: metrics::CAPACITY.0.id,
                params: params.clone().and("of", of),
                values: vec![rate.bytes_s],
                headline: Some((rate.bytes_s, (rate.half > 0.0).then_some(interval))),
                verdict: Some(wide(rate.half)),
                facts: requests.into_iter().chain(methods).collect(),
                ..Measured::default()
            }
        };
        self.rates().into_iter().map(measured).collect()
    }
}

/// The verdict on a figure with an interval of this half width, as a share.
pub fn wide(half: f64) -> Verdict {
    let text = || format!("± {:.0} %", 100.0 * half);
    match half > metrics::CAPACITY.0.noise_limit {
        true => Verdict::because(State::Noisy, Cause::Spread, text()),
        false => Verdict::default(),
    }
}
