//! Records of the memory of both ends.

use fathom_analysis::load::batch_interval;
use fathom_metric::{Measured, Recorder};
use fathom_record::{Cause, Fact, Reason, Remedy, State, Verdict};

use crate::memory::{LoadMemory, Resident};
use crate::metrics::{self, OfServer};
use crate::target::{LOOPBACK, Target};

/// Records the memory of both ends over the whole run.
pub fn memory(recorder: &mut dyn Recorder, memory: &LoadMemory, target: &Target) {
    let far = (target.to != LOOPBACK).then_some(target.to.as_str());
    let ends = [
        (&memory.client, "client memory", None, &metrics::CLIENT_RESIDENT, &metrics::CLIENT_GROWTH),
        (&memory.server, "server memory", far, &metrics::SERVER_RESIDENT, &metrics::SERVER_GROWTH),
    ];
    for (resident, name, at, metric, growth) in ends {
        record_end(recorder, resident, (name, at), (metric, growth));
    }
    recorder.show();
}

fn record_end(
    recorder: &mut dyn Recorder,
    resident: &Resident,
    (name, at): (&str, Option<&str>),
    (metric, growth): (&OfServer, &OfServer),
) {
    let Some(last) = resident.bytes.last().copied() else { return };
    recorder.record(Measured {
        metric: metric.0.id,
        values: vec![last],
        headline: Some((last, None)),
        series: vec![resident.series(name, at)],
        verdict: Some(Verdict::default()),
        facts: vec![Fact::text("at", "the end of the run")],
        ..Measured::default()
    });
    if let Some((slope, segments)) = resident.growth() {
        let interval = batch_interval(slope, &segments);
        let verdict = match interval {
            Some(_) => Verdict::default(),
            None => Verdict { state: State::Noisy, reasons: vec![short()] },
        };
        recorder.record(Measured {
            metric: growth.0.id,
            values: if segments.is_empty() { vec![slope] } else { segments },
            headline: Some((slope, interval)),
            verdict: Some(verdict),
            ..Measured::default()
        });
    }
}

fn short() -> Reason {
    let text = "no interval: the last two thirds of the run are too short";
    Reason::new(Cause::TooShort, text).with_remedy(Remedy::MeasureLonger)
}
