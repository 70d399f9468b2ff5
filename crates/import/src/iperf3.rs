//! iperf3: the JSON of `--json`. Its intervals are the rounds of one process.

use fathom_record::{Params, Unit};
use jiff::Timestamp;
use serde::Deserialize;

use crate::json::{self, Number};
use crate::name;
use crate::parsed::{ParsedCase, ParsedDate, ParsedKind, ParsedSeries};
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
    #[serde(default, deserialize_with = "json::if_valid")]
    version: Option<String>,
    /// `Linux db2 6.1.0 …`: the result of uname.
    #[serde(default, deserialize_with = "json::if_valid")]
    system_info: Option<String>,
    #[serde(default, deserialize_with = "json::if_valid")]
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
    #[serde(default, deserialize_with = "json::if_valid")]
    num_streams: u32,
    #[serde(default, deserialize_with = "json::if_valid")]
    reverse: u32,
    #[serde(default, deserialize_with = "json::if_valid")]
    bidir: u32,
}

#[derive(Deserialize)]
struct Iperf3Interval {
    #[serde(default, deserialize_with = "json::if_valid")]
    sum: Option<Iperf3Sum>,
    /// Of `--bidir`: what comes from the server.
    sum_bidir_reverse: Option<Iperf3Sum>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Iperf3End {
    /// Of UDP.
    sum: Option<Iperf3Sum>,
    sum_sent: Option<Iperf3Sum>,
    sum_received: Option<Iperf3Sum>,
    sum_bidir_reverse: Option<Iperf3Sum>,
    sum_sent_bidir_reverse: Option<Iperf3Sum>,
    sum_received_bidir_reverse: Option<Iperf3Sum>,
}

#[derive(Clone, Copy, Deserialize)]
struct Iperf3Sum {
    bits_per_second: Number,
    /// Of the seconds that `--omit` leaves out.
    #[serde(default, deserialize_with = "json::if_valid")]
    omitted: bool,
    /// Whether it is of what was sent; of UDP also what never arrived.
    #[serde(default, deserialize_with = "json::if_valid")]
    sender: Option<bool>,
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
    let Iperf3End { sum, sum_sent, sum_received, .. } = output.end;
    let is_back = test.bidir == 0 && test.reverse != 0;
    let mut ways = vec![Iperf3Way {
        direction: if is_back { "receive" } else { "send" },
        sums: output.intervals.iter().filter_map(|it| it.sum).collect(),
        sum,
        sum_sent,
        sum_received,
    }];
    if test.bidir != 0 {
        ways.push(Iperf3Way {
            direction: "receive",
            sums: output.intervals.iter().filter_map(|it| it.sum_bidir_reverse).collect(),
            sum: output.end.sum_bidir_reverse,
            sum_sent: output.end.sum_sent_bidir_reverse,
            sum_received: output.end.sum_received_bidir_reverse,
        });
    }
    let mut failure = output.error.map(|error| name::title(&error));
    if let Some(error) = failure.take_if(|error| error.starts_with("interrupt")) {
        parsed.notes.push(format!("the run was interrupted: {error}"));
    }
    for way in ways {
        for one in way.series(&test, failure.as_ref()) {
            parsed.add(one).map_err(|what| ParseError::new(1, what))?;
        }
    }
    Ok(parsed)
}

/// One direction of a test.
struct Iperf3Way {
    direction: &'static str,
    sums: Vec<Iperf3Sum>,
    sum: Option<Iperf3Sum>,
    sum_sent: Option<Iperf3Sum>,
    sum_received: Option<Iperf3Sum>,
}

impl Iperf3Way {
    fn series(&self, test: &Iperf3Test, failure: Option<&String>) -> Vec<ParsedSeries> {
        let Self { direction, sums, sum, sum_sent, sum_received } = self;
        let case = ParsedCase::new(&test.protocol, name::safe(&test.protocol), Params::none());
        let case = case.and("direction", direction).and("streams", &test.num_streams.to_string());
        // A rate beside that of the other direction is not one alone.
        let case = if test.bidir == 0 { case } else { case.and("bidir", "1") };
        let rate = ParsedKind::rate(Unit::BytesPerSecond);
        let of_bytes = |sum: &Iperf3Sum| sum.bits_per_second.0 / 8.0;
        let lost = sum.and_then(|sum| sum.lost_percent).map(|it| it.0 / 100.0);
        let mut first = case.series(rate);
        first.failure = failure.cloned();
        for sum in sums.iter().filter(|sum| !sum.omitted) {
            let is_sent = sum.sender.unwrap_or(*direction == "send");
            let arrived = lost.filter(|_| is_sent).map_or(1.0, |lost| 1.0 - lost);
            first.push(0, of_bytes(sum) * arrived);
        }
        if lost.is_some_and(|lost| lost > 0.0) {
            first.notes.push("what was received: what was sent, less what was lost".to_owned());
        }
        let mut all = vec![first];
        let mut one = |aspect: &str, kind, value: Option<f64>| {
            all.extend(value.map(|value| case.aspect(aspect, kind).with(0, value)));
        };
        one("sent", rate, sum_sent.as_ref().map(of_bytes));
        one("received", rate, sum_received.as_ref().map(of_bytes));
        let retransmits = sum_sent.and_then(|sum| sum.retransmits);
        one("retransmits", ParsedKind::amount(Unit::Ratio), retransmits.map(|it| it.0));
        let jitter = sum.and_then(|sum| sum.jitter_ms);
        one("jitter", ParsedKind::time(6), jitter.map(|it| it.0));
        one("lost", ParsedKind::amount(Unit::Ratio), lost);
        all
    }
}
