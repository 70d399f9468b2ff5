//! A recorder for tests: it discards all records, and can request a stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_measure::Clock;
use fathom_measure::clock::{Source, Specification};
use fathom_metric::{Event, Measured, Recorder, Stop};
use fathom_record::{Better, Host, MetricId, NoModel, Params, Prediction, Record, Unit};

pub(super) struct TestRecorder {
    clock: Clock,
    now: Arc<AtomicBool>,
    stop: Stop,
    host: Host,
}

impl TestRecorder {
    pub(super) fn new() -> Self {
        let specification = Specification {
            source: Source::MonotonicRaw,
            hz: 1e9,
            resolution_ns: 1.0,
            read_ns: 50.0,
        };
        let now = Arc::new(AtomicBool::new(false));
        let stop = Stop::new(Arc::clone(&now), Arc::default(), || std::process::abort());
        let clock = Clock::from_specification(specification);
        Self { clock, now, stop, host: Host::default() }
    }

    pub(super) fn stop_now(&mut self) {
        self.now.store(true, Ordering::Relaxed);
    }
}

impl Recorder for TestRecorder {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn stop(&self) -> &Stop {
        &self.stop
    }

    fn host(&self) -> &Host {
        &self.host
    }

    fn cpu(&self) -> u32 {
        0
    }

    fn known(&self) -> &[Record] {
        &[]
    }

    fn predicted(&self, _: &str, _: &Params) -> Result<Prediction, NoModel> {
        Err(NoModel::SchedulersChoice)
    }

    fn record(&mut self, measured: Measured) -> Record {
        let id = MetricId::new(measured.metric);
        Record::new(id, measured.params, "", Unit::Nanoseconds, Better::Lower)
    }

    fn show(&mut self) {}

    fn event(&mut self, _: Event<'_>) {}

    fn confirm(&mut self, _: &str, _: bool) -> bool {
        true
    }
}
