//! iperf3: the JSON of `--json`. Its intervals are the rounds of one process.

use fathom_record::{Params, Unit};
use jiff::Timestamp;
use serde::Deserialize;

use crate::json::{self, Number};
use crate::name;
use crate::parsed::{ParsedCase, ParsedDate, ParsedKind};
use crate::{ParseError, Parsed};

#[derive(Deserialize)]
struct Iperf3Output {
    start: Iperf3Start,
    #[serde(default)]
    intervals: Vec<Iperf3Interval>,
    #[serde(default)]
    end: Iperf3End,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Iperf3Start {
    version: Option<String>,
    /// `Linux db2 6.1.0 …`: the result of uname.
    system_info: Option<String>,
    timestamp: Option<Iperf3Timestamp>,
    test_start: Option<Iperf3Test>,
}

#[derive(Deserialize)]
struct Iperf3Timestamp {
    timesecs: i64,
}

#[derive(Deserialize)]
struct Iperf3Test {
    protocol: String,
    num_streams: u32,
    #[serde(default)]
    reverse: u32,
    #[serde(default)]
    bidir: u32,
}

#[derive(Deserialize)]
struct Iperf3Interval {
    sum: Iperf3Sum,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Iperf3End {
    /// Of UDP.
    sum: Option<Iperf3Sum>,
    sum_sent: Option<Iperf3Sum>,
    sum_received: Option<Iperf3Sum>,
}

#[derive(Deserialize)]
struct Iperf3Sum {
    bits_per_second: Number,
    /// Of the seconds that `--omit` leaves out.
    #[serde(default)]
    omitted: bool,
    retransmits: Option<Number>,
    jitter_ms: Option<Number>,
    lost_percent: Option<Number>,
}

pub(crate) fn parse(text: &str) -> Result<Parsed, ParseError> {
    let mut notes = Vec::new();
    let output: Iperf3Output = json::read(text, &mut notes)?;
    let Iperf3Start { version, system_info, timestamp, test_start } = output.start;
    let date = timestamp.and_then(|it| Timestamp::from_second(it.timesecs).ok());
    let host = system_info.as_deref().and_then(|words| words.split_whitespace().nth(1));
    let mut parsed = Parsed {
        version: version.map(|version| version.trim_start_matches("iperf ").to_owned()),
        host: host.map(str::to_owned),
        date: date.map(|moment| ParsedDate { text: moment.to_string(), moment }),
        notes,
        ..Parsed::default()
    };
    let Some(test) = test_start else {
        let why = output.error.unwrap_or_else(|| "no test was started".to_owned());
        return Err(ParseError::at_last(text, "error", why));
    };
    let direction = match (test.bidir, test.reverse) {
        (0, 0) => "send",
        (0, _) => "receive",
        // The other direction is in fields of its own, which are not read.
        _ => "send, bidir",
    };
    let case = ParsedCase::new(&test.protocol, name::safe(&test.protocol), Params::none());
    let case = case.and("direction", direction).and("streams", &test.num_streams.to_string());
    let rate = ParsedKind::rate(Unit::BytesPerSecond);
    let mut all = vec![case.series(rate)];
    let sums = output.intervals.iter().map(|interval| &interval.sum).filter(|sum| !sum.omitted);
    sums.for_each(|sum| all[0].push(0, sum.bits_per_second.0 / 8.0));
    match output.error.map(|error| name::title(&error)) {
        Some(error) if error.starts_with("interrupt") => {
            parsed.notes.push(format!("the run was interrupted: {error}"));
        }
        error => all[0].failure = error,
    }
    let Iperf3End { sum, sum_sent, sum_received } = output.end;
    let mut one = |aspect: &str, kind, value: Option<f64>| {
        all.extend(value.map(|value| case.aspect(aspect, kind).with(0, value)));
    };
    let of_bytes = |sum: &Option<Iperf3Sum>| sum.as_ref().map(|it| it.bits_per_second.0 / 8.0);
    one("sent", rate, of_bytes(&sum_sent));
    one("received", rate, of_bytes(&sum_received));
    let retransmits = sum_sent.and_then(|sum| sum.retransmits);
    one("retransmits", ParsedKind::amount(Unit::Ratio), retransmits.map(|it| it.0));
    let [jitter, lost] = sum.map_or([None; 2], |sum| [sum.jitter_ms, sum.lost_percent]);
    one("jitter", ParsedKind::time(6), jitter.map(|it| it.0));
    one("lost", ParsedKind::amount(Unit::Ratio), lost.map(|it| it.0 / 100.0));
    all.into_iter().try_for_each(|one| parsed.add(one)).map_err(|what| ParseError::new(1, what))?;
    Ok(parsed)
}
