//! What the load generators share: one file of 4 KiB from `fathom serve`, which has the other CPU,
//! by 8 clients on one CPU, without think time.

use crate::prelude::*;
use crate::server::{Server, ServerProtocol};

/// Seconds of a peer's run, and of each of three sweeps.
pub(crate) const SECONDS: &str = "3";
const CLIENTS: i64 = 8;
/// Requests a second while the server stalls: a small part of what it can answer.
const STALLED_RATE: i64 = 500;

/// What a generator printed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Load {
    pub(crate) requests: f64,
    /// Per second.
    pub(crate) rate: f64,
    /// Nanoseconds; absent if it prints none, or none with digits.
    pub(crate) median_ns: Option<f64>,
    pub(crate) p99_ns: Option<f64>,
}

/// A generator: its command line for an address, what it prints, and how its method differs.
#[derive(Clone, Copy)]
pub(crate) struct Generator {
    pub(crate) work: &'static str,
    pub(crate) difference: &'static str,
    /// What it does while its server stands still.
    pub(crate) in_stalls: &'static str,
    pub(crate) command: fn(String) -> Invocation,
    pub(crate) parse: fn(&Output) -> Result<Load, RunError>,
    /// Whether it prints quantiles of response times.
    pub(crate) has_quantiles: bool,
}

impl Generator {
    /// Throughput, response times and CPU time of a request. None without a second CPU, which the
    /// server has.
    pub(crate) fn rows(self, machine: &PeerMachine) -> Vec<Row> {
        if machine.other_cpu().is_none() {
            return Vec::new();
        }
        let rate = |load: &Load, _: &Output| Some(load.rate);
        let cpu = |load: &Load, output: &Output| Some(output.cpu_ns as f64 / load.requests);
        let median = |load: &Load, _: &Output| load.median_ns;
        let p99 = |load: &Load, _: &Output| load.p99_ns;
        let ns = Unit::Nanoseconds;
        let mut rows = vec![
            self.row("load.throughput", Unit::PerSecond, None, rate),
            self.row("load.client.cpu_per_request", ns, None, cpu),
        ];
        if self.has_quantiles {
            rows.push(self.row("load.response_time", ns, None, median));
            rows.push(self.row("load.response_time", ns, Some(0.99), p99));
            rows.push(self.of_stalled_server(p99));
        }
        rows
    }

    /// What coordinated omission hides: clients that wait for a server that stands still send it
    /// nothing, and have no times of what they would have sent.
    fn of_stalled_server(self, p99: fn(&Load, &Output) -> Option<f64>) -> Row {
        let row = self.row("load.response_time", Unit::Nanoseconds, Some(0.99), p99);
        let params = Params::one("arrivals", "uniform")
            .and("file_bytes", crate::row::SERVED_BYTES as i64)
            .and("mode", "random")
            .and("rate", STALLED_RATE)
            .and("to", "loopback");
        Row {
            params,
            difference: self.in_stalls,
            work: "a server that stands still for 0.2 s of each second",
            ours: Ours::Load(ours_open),
            stalls: true,
            ..row
        }
    }

    fn row(
        self,
        metric: &'static str,
        unit: Unit,
        quantile: Option<f64>,
        value: fn(&Load, &Output) -> Option<f64>,
    ) -> Row {
        let commands = move |place: &PeerPlace| vec![(self.command)(url(place) + "4k")];
        let parse = move |outputs: &[Output]| {
            let load = (self.parse)(&outputs[0])?;
            let value = value(&load, &outputs[0]);
            PeerReading::from_value(value.ok_or_else(|| missing("response times", &outputs[0]))?)
        };
        Row {
            metric,
            params: Params::one("clients", CLIENTS)
                .and("file_bytes", crate::row::SERVED_BYTES as i64)
                .and("mode", "random")
                .and("think_s", 0)
                .and("to", "loopback"),
            unit,
            work: self.work,
            difference: self.difference,
            statistic: match metric {
                "load.response_time" => PeerStatistic::Median,
                _ => PeerStatistic::Mean,
            },
            ours: Ours::Load(ours),
            on: On::Two,
            serves: true,
            quantile,
            seconds: 15.0,
            server: Some(Box::new(server)),
            ..Row::usual(Box::new(commands), Box::new(parse))
        }
    }
}

fn url(place: &PeerPlace) -> String {
    format!("http://127.0.0.1:{}/", place.port)
}

fn ours(place: &PeerPlace) -> Vec<String> {
    let (url, clients) = (url(place), CLIENTS.to_string());
    let words = [&url, "--clients", &clients, "--threads", "1", "--time", "9s", "--json"];
    words.map(str::to_owned).to_vec()
}

fn ours_open(place: &PeerPlace) -> Vec<String> {
    let (url, rate) = (url(place), STALLED_RATE.to_string());
    let words = [&url, "--rate", &rate, "--arrivals", "uniform", "--time", "9s", "--json"];
    words.map(str::to_owned).to_vec()
}

fn server(place: &PeerPlace) -> Server {
    let (folder, address) =
        (place.served.display().to_string(), format!("127.0.0.1:{}", place.port));
    let words = ["serve", &folder, "--listen", &address];
    let invocation = Invocation::new(place.fathom.clone(), words);
    Server { invocation, protocol: ServerProtocol::Tcp, port: place.port }
}

/// The number after a mark: `10253.00` in `Requests/sec:  10253.00` for `Requests/sec:`.
pub(crate) fn after<'t>(text: &'t str, mark: &str) -> Option<&'t str> {
    text.split_once(mark)?.1.split_whitespace().next()
}

/// Nanoseconds of `26us`, `1.25ms`, `2.01s`, `1.50m`.
pub(crate) fn time_ns(word: &str) -> Option<f64> {
    let unit = word.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let factor = match &word[unit..] {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        _ => return None,
    };
    Some(word[..unit].parse::<f64>().ok()? * factor)
}
