//! What a load has done so far, as OpenMetrics.

use fathom_record::openmetrics::{END, family, labels, sample};

use crate::engine::{MeterCounts, lower_ns};
use crate::seconds::Watched;

/// The limits of the histogram, from 16 µs to 69 s: two for each doubling, which are limits of
/// buckets too, so that its counts are exact.
const FROM: usize = 4 * 64;
const TO: usize = 26 * 64;
const STEP: usize = 32;

const RESPONSE: &str = "fathom_load_response_seconds";

pub(super) fn text(watched: &Watched) -> String {
    let (counts, present) = (watched.meter.read(), watched.present());
    let mut text = String::new();
    response_times(&mut text, &counts);
    family(&mut text, "fathom_load_failed", "counter", "", "Failed requests by kind.");
    for (fault, count) in &counts.faults {
        let labels = labels([("kind", fault.to_string())]);
        sample(&mut text, "fathom_load_failed_total", &labels, count);
    }
    family(&mut text, "fathom_load_body_bytes", "counter", "bytes", "Bytes of complete bodies.");
    sample(&mut text, "fathom_load_body_bytes_total", "", counts.body_bytes);
    let gauges = [
        ("in_flight", "Requests without a response.", Some(counts.in_flight as f64)),
        ("clients", "Clients of a closed loop.", present.clients.map(f64::from)),
        ("rate", "Requests per second that an open loop sends.", present.rate),
        ("backlog", "Requests that are due and not done.", present.backlog.map(|it| it as f64)),
    ];
    for (name, help, value) in gauges {
        let Some(value) = value else { continue };
        let name = format!("fathom_load_{name}");
        family(&mut text, &name, "gauge", "", help);
        sample(&mut text, &name, "", value);
    }
    if !present.step.is_empty() {
        let name = "fathom_load_step_info";
        family(&mut text, name, "gauge", "", "The present step and phase; always 1.");
        let phase = ("phase", present.phase.word().to_owned());
        sample(&mut text, name, &labels([("step", present.step), phase]), 1);
    }
    text + END
}

fn response_times(text: &mut String, counts: &MeterCounts) {
    let help = "Response times of successful requests, of an open loop from when they were due.";
    family(text, RESPONSE, "histogram", "seconds", help);
    let bucket = format!("{RESPONSE}_bucket");
    let (mut below, mut counted) = (0, 0);
    for limit in (FROM..=TO).step_by(STEP) {
        below += counts.times[counted..limit].iter().sum::<u64>();
        counted = limit;
        let seconds = lower_ns(limit) as f64 / 1e9;
        sample(text, &bucket, &labels([("le", seconds.to_string())]), below);
    }
    let all = counts.completed();
    sample(text, &bucket, &labels([("le", "+Inf".to_owned())]), all);
    sample(text, &format!("{RESPONSE}_count"), "", all);
    sample(text, &format!("{RESPONSE}_sum"), "", counts.sum_ns as f64 / 1e9);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Fault;

    #[test]
    fn histogram_counts_exactly_below_its_limits() {
        let watched = Watched::new(1);
        let dial = watched.meter.dial(0).unwrap();
        // A limit is at 1.5 × 2^20 ns.
        for ns in [1_000, 1_572_863, 1_572_864, 100_000_000_000] {
            dial.complete(ns, 10);
        }
        watched.meter.note(Fault::Status(503));
        let text = text(&watched);
        for line in [
            "fathom_load_response_seconds_bucket{le=\"0.000016384\"} 1",
            "fathom_load_response_seconds_bucket{le=\"0.001572864\"} 2",
            "fathom_load_response_seconds_bucket{le=\"0.002097152\"} 3",
            "fathom_load_response_seconds_bucket{le=\"68.719476736\"} 3",
            "fathom_load_response_seconds_bucket{le=\"+Inf\"} 4",
            "fathom_load_response_seconds_count 4",
            "fathom_load_response_seconds_sum 100.003146727",
            "fathom_load_failed_total{kind=\"status 503\"} 1",
            "fathom_load_body_bytes_total 40",
            "fathom_load_in_flight 0",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n") && !text.contains("step_info"), "{text}");
        let is_cumulative = text.lines().filter(|line| line.contains("_bucket"));
        let counts: Vec<u64> =
            is_cumulative.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
        assert!(counts.len() == 46 && counts.is_sorted(), "{counts:?}");
    }
}
