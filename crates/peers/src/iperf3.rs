//! iperf3: one TCP stream over loopback, sending and receiving.

use crate::prelude::*;
use crate::server::{Server, ServerProtocol};

pub(crate) struct Iperf3;

/// As in Fathom. The default of iperf3 is 128 KiB.
const CHUNK_BYTES: i64 = 64 << 10;
/// A size of which the calls for each chunk cost next to nothing.
const LARGE_BYTES: i64 = 1 << 20;
/// Where the default congestion control paces, this one is compared, too.
const UNPACED: &str = "cubic";

impl Peer for Iperf3 {
    fn name(&self) -> &'static str {
        "iperf3"
    }

    fn rows(&self, machine: &PeerMachine) -> Vec<Row> {
        let usual =
            Iperf3Stream { chunk: CHUNK_BYTES, on: On::Two, reverse: false, congestion: None };
        let mut all = vec![Iperf3Stream { on: On::One, ..usual }];
        if machine.other_cpu().is_some() {
            all.extend([usual, Iperf3Stream { reverse: true, ..usual }]);
            let tcp = &machine.host.tcp;
            let is_paced = tcp.congestion.as_ref().is_some_and(|name| name.starts_with("bbr"));
            let mut at_full_pace = usual;
            if is_paced && tcp.congestion_available.iter().any(|name| name == UNPACED) {
                at_full_pace = Iperf3Stream { congestion: Some(UNPACED), ..usual };
                all.push(at_full_pace);
            }
            all.push(Iperf3Stream { chunk: LARGE_BYTES, ..at_full_pace });
        }
        all.into_iter().map(|stream| row(stream, machine)).collect()
    }
}

#[derive(Clone, Copy, Debug)]
struct Iperf3Stream {
    chunk: i64,
    on: On,
    reverse: bool,
    /// Other than the system's default.
    congestion: Option<&'static str>,
}

impl Iperf3Stream {
    fn params(self) -> Params {
        let cpus = if self.on == On::One { 1 } else { 2 };
        let direction = if self.reverse { "receive" } else { "send" };
        let params = Params::one("chunk_bytes", self.chunk).and("cpus", cpus);
        let params = params.and("direction", direction).and("streams", 1).and("to", "loopback");
        match self.congestion {
            Some(name) => params.and("congestion", name),
            None => params,
        }
    }

    /// Options of the client; the server follows them. Fathom sets the system's default congestion
    /// control at both ends.
    fn words(self, default: Option<&str>) -> Vec<String> {
        let chunk = self.chunk.to_string();
        let mut words = vec!["--json", "--omit", "1", "--time", "1", "--length", &chunk];
        if let Some(congestion) = self.congestion.or(default) {
            words.extend(["--congestion", congestion]);
        }
        if self.reverse {
            words.push("--reverse");
        }
        words.into_iter().map(str::to_owned).collect()
    }
}

fn row(stream: Iperf3Stream, machine: &PeerMachine) -> Row {
    let words = stream.words(machine.host.tcp.congestion.as_deref());
    let client = move |place: &PeerPlace| {
        let to = ["--client", "127.0.0.1", "--port"].map(str::to_owned);
        let to = to.into_iter().chain([place.port.to_string()]);
        vec![Invocation::new("iperf3", to.chain(words.iter().cloned()))]
    };
    Row {
        metric: "network.tcp.bandwidth",
        params: stream.params(),
        work: match stream {
            Iperf3Stream { reverse: true, .. } => "1 stream, --reverse",
            Iperf3Stream { chunk: LARGE_BYTES, .. } => "1 stream, --length 1M",
            Iperf3Stream { congestion: Some(_), .. } => "1 stream, --congestion cubic",
            _ => "1 stream",
        },
        difference: match stream.chunk {
            LARGE_BYTES => LARGE_DIFFERENCE,
            _ => DIFFERENCE,
        },
        statistic: PeerStatistic::Mean,
        on: stream.on,
        takes_turns: stream.on == On::One,
        seconds: 4.0,
        server: Some(Box::new(server)),
        ..Row::usual(Box::new(client), Box::new(rate))
    }
}

const DIFFERENCE: &str = "the same chunk, congestion control and placement, counted at the \
                          receiver; the server of iperf3 calls select before each read, Fathom \
                          only where a buffer is empty; iperf3 leaves out the first second, and \
                          reports the mean of the next one including interruptions";
const LARGE_DIFFERENCE: &str = "as with 64 KiB, where iperf3 calls select once for each of 16 \
                                times as many chunks: that cost is nearly absent here; the mean \
                                and its interruptions remain";

/// A server for one client.
fn server(place: &PeerPlace) -> Server {
    let port = place.port.to_string();
    let words = ["--server", "--one-off", "--bind", "127.0.0.1", "--port", &port];
    let invocation = Invocation::new("iperf3", words);
    Server { invocation, protocol: ServerProtocol::Tcp, port: place.port }
}

fn rate(outputs: &[Output]) -> Result<PeerReading, RunError> {
    let output = &outputs[0];
    let whole: Option<Value> = serde_json::from_str(&output.out).ok();
    let whole = whole.ok_or_else(|| missing("JSON", output))?;
    if let Some(why) = whole["error"].as_str() {
        return Err(RunError::Failed(why.to_owned()));
    }
    let end = &whole["end"];
    let received = end["sum_received"]["bits_per_second"].as_f64();
    let received = received.ok_or_else(|| missing("`end.sum_received`", output))?;
    let retransmits = end["sum_sent"]["retransmits"].as_u64();
    let retransmits = retransmits.map_or(String::new(), |count| format!(", {count} retransmits"));
    let congestion = end["sender_tcp_congestion"].as_str().unwrap_or("unknown congestion control");
    let cpu = &end["cpu_utilization_percent"];
    let [near, far] = ["host_total", "remote_total"].map(|name| cpu[name].as_f64().unwrap_or(0.0));
    let detail =
        format!("{congestion}{retransmits}, CPU {near:.0} % of client, {far:.0} % of server");
    Ok(PeerReading::from_value(received / 8.0)?.with(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEND: &str = include_str!("../tests/outputs/iperf3-3.12-send.json");
    const REVERSE: &str = include_str!("../tests/outputs/iperf3-3.12-reverse.json");

    #[test]
    fn output_of_iperf3_3_12_is_parsed() {
        let reading = rate(&[Output::printed(SEND)]).expect("a rate");
        assert_eq!(reading.value, 6_098_288_428.589_447 / 8.0);
        let detail = "bbr, 14 retransmits, CPU 10 % of client, 22 % of server";
        assert_eq!(reading.detail, detail);
        let reading = rate(&[Output::printed(REVERSE)]).expect("a rate");
        assert_eq!(reading.value, 19_661_269_728.511_47 / 8.0);
        assert!(reading.detail.starts_with("cubic, 0 retransmits"), "{reading:?}");
        let refused = r#"{"start": {}, "end": {}, "error": "unable to connect to server"}"#;
        let error = RunError::Failed("unable to connect to server".to_owned());
        assert_eq!(rate(&[Output::printed(refused)]), Err(error));
    }

    #[test]
    fn unpaced_congestion_control_is_compared_beside_bbr() {
        let mut host = fathom_record::Host::default();
        host.cpu.allowed = vec![0, 1];
        let works = |host: &fathom_record::Host| -> Vec<&str> {
            Iperf3.rows(&PeerMachine { host, cpu: 1 }).iter().map(|row| row.work).collect()
        };
        assert_eq!(
            works(&host),
            ["1 stream", "1 stream", "1 stream, --reverse", "1 stream, --length 1M"]
        );
        host.tcp.congestion = Some("bbr".to_owned());
        host.tcp.congestion_available = vec!["reno".to_owned(), "cubic".to_owned()];
        assert_eq!(works(&host)[3..], ["1 stream, --congestion cubic", "1 stream, --length 1M"]);
        let rows = Iperf3.rows(&PeerMachine { host: &host, cpu: 1 });
        let large = rows.last().unwrap();
        assert_eq!(large.params.text("congestion"), Some("cubic"), "{}", large.case());
        assert_eq!(large.params.integer("chunk_bytes"), Some(1 << 20));
        host.cpu.allowed = vec![1];
        assert_eq!(works(&host), ["1 stream"], "one CPU");
    }
}
