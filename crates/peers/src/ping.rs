//! ping: ICMP echoes over loopback.

use crate::prelude::*;

pub(crate) struct Ping;

impl Peer for Ping {
    fn name(&self) -> &'static str {
        "ping"
    }

    fn package(&self) -> &'static str {
        "iputils-ping"
    }

    fn version(&self) -> Invocation {
        Invocation::new("ping", ["-V"])
    }

    fn rows(&self, _: &PeerMachine) -> Vec<Row> {
        let words = ["-n", "-U", "-A", "-c", "1000", "-s", "56", "127.0.0.1"];
        vec![Row {
            metric: "network.icmp.rtt",
            params: Params::one("bytes", 56).and("to", "loopback"),
            unit: Unit::Nanoseconds,
            work: "-U -A -s 56",
            difference: "both time send to receive in user space; ping stamps whole microseconds, \
                         prints each echo before the next one (2 ms later if not root), and its \
                         mean of 1000 includes the first and interruptions",
            statistic: PeerStatistic::Mean,
            seconds: 3.0,
            ..Row::usual(
                Box::new(move |_: &_| vec![Invocation::new("ping", words)]),
                Box::new(mean),
            )
        }]
    }
}

/// The mean of the round trips as printed: differences of truncated stamps are not shifted on
/// average. The mean that ping prints is itself cut to a microsecond, and a median would be whole.
fn mean(outputs: &[Output]) -> Result<PeerReading, RunError> {
    let output = &outputs[0];
    let echoes = output.out.lines().filter_map(|line| before(line.split_once(" time=")?.1, " ms"));
    let ms: Vec<f64> = echoes.collect();
    let mean = statistics::mean(&ms).ok_or_else(|| missing("`time= … ms`", output))?;
    let least = ms.iter().copied().fold(f64::INFINITY, f64::min);
    let detail = format!("minimum {:.0} µs of {} echoes", 1e3 * least, ms.len());
    Ok(PeerReading::from_value(1e6 * mean)?.with(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_ping_20221126_is_parsed() {
        let text = include_str!("../tests/outputs/ping-20221126.txt");
        let reading = mean(&[Output::printed(text)]).expect("echoes");
        assert_eq!(reading.detail, "minimum 2 µs of 400 echoes");
        assert!((reading.value - 2192.5).abs() < 1e-6, "{reading:?}");
        let lost = "PING 127.0.0.1 (127.0.0.1) 56(84) bytes of data.\n\n400 packets transmitted, \
                    0 received, 100% packet loss, time 9ms";
        assert!(mean(&[Output::printed(lost)]).is_err());
    }
}
