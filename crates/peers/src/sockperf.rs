//! sockperf ping-pong: round trips over TCP and UDP.

use crate::prelude::*;
use crate::server::{Server, ServerProtocol};

pub(crate) struct Sockperf;

/// As in Fathom. sockperf's header has 14 bytes, so it cannot send 1.
const BYTES: i64 = 56;

impl Peer for Sockperf {
    fn name(&self) -> &'static str {
        "sockperf"
    }

    fn rows(&self, machine: &PeerMachine) -> Vec<Row> {
        let has_two = machine.other_cpu().is_some();
        let of = |protocol| {
            let mut rows = vec![ping_pong(protocol, On::One, false)];
            if has_two {
                rows.extend([false, true].map(|busy| ping_pong(protocol, On::Two, busy)));
            }
            rows
        };
        [ServerProtocol::Tcp, ServerProtocol::Udp].into_iter().flat_map(of).collect()
    }
}

fn ping_pong(protocol: ServerProtocol, on: On, busy: bool) -> Row {
    let client = move |place: &PeerPlace| {
        let size = ["--msg-size".to_owned(), BYTES.to_string()];
        let words = ["ping-pong".to_owned()].into_iter().chain(shared(protocol, busy, place));
        let words = words.chain(size).chain(["--time", "1"].map(str::to_owned));
        vec![Invocation::new("sockperf", words)]
    };
    let server = move |place: &PeerPlace| {
        let words = ["server".to_owned()].into_iter().chain(shared(protocol, busy, place));
        Server { invocation: Invocation::new("sockperf", words), protocol, port: place.port }
    };
    let (cpus, mode) = (if on == On::One { 1 } else { 2 }, if busy { "busy" } else { "block" });
    let params = Params::one("bytes", BYTES).and("cpus", cpus);
    let (metric, work) = match (protocol, busy) {
        (ServerProtocol::Tcp, false) => ("network.tcp.rtt", "ping-pong --tcp"),
        (ServerProtocol::Tcp, true) => ("network.tcp.rtt", "ping-pong --tcp --nonblocked"),
        (ServerProtocol::Udp, false) => ("network.udp.rtt", "ping-pong"),
        (ServerProtocol::Udp, true) => ("network.udp.rtt", "ping-pong --nonblocked"),
    };
    Row {
        metric,
        params: params.and("mode", mode).and("to", "loopback"),
        unit: Unit::Nanoseconds,
        work,
        difference: "the same payload, calls and placement; sockperf prints half a round trip, \
                     here doubled, and reads the clock at both calls, Fathom once a trip",
        on,
        takes_turns: on == On::One,
        seconds: 3.5,
        server: Some(Box::new(server)),
        ..Row::usual(Box::new(client), Box::new(round_trip))
    }
}

/// Options of both ends.
fn shared(protocol: ServerProtocol, busy: bool, place: &PeerPlace) -> Vec<String> {
    let port = place.port.to_string();
    let mut words = ["--ip", "127.0.0.1", "--port", &port].map(str::to_owned).to_vec();
    if protocol == ServerProtocol::Tcp {
        words.push("--tcp".to_owned());
    }
    if busy {
        words.push("--nonblocked".to_owned());
    }
    words
}

/// Twice the median half of a round trip.
fn round_trip(outputs: &[Output]) -> Result<PeerReading, RunError> {
    let output = &outputs[0];
    let percentile = |name: &str| {
        let line = output.out.lines().find(|line| line.contains(name))?;
        Some(2e3 * line.rsplit('=').next()?.trim().parse::<f64>().ok()?)
    };
    // With --full-rtt the numbers would not be halves.
    if !output.out.contains("Summary: Latency is") {
        return Err(missing("`Summary: Latency is`", output));
    }
    let median = percentile("percentile 50.000").ok_or_else(|| missing("median", output))?;
    let late = percentile("percentile 99.000").ok_or_else(|| missing("percentile 99", output))?;
    let detail = format!("p99 {:.2} µs", late / 1e3);
    Ok(PeerReading::from_value(median)?.with(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../tests/outputs/sockperf-3.7-tcp.txt");

    #[test]
    fn halves_of_sockperf_3_7_are_doubled() {
        let reading = round_trip(&[Output::printed(TEXT)]).expect("a median");
        assert_eq!((reading.value, reading.detail.as_str()), (4908.0, "p99 18.79 µs"));
        let whole = TEXT.replace("Summary: Latency is", "Summary: Round trip is");
        assert!(round_trip(&[Output::printed(&whole)]).is_err(), "with --full-rtt");
        let none = TEXT.replace("percentile 50.000 =    2.454", "");
        assert!(round_trip(&[Output::printed(&none)]).is_err());
    }
}
