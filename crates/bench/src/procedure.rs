//! The options to a request, the request to records.

use fathom_analysis::limits::LimitJudged;
use fathom_cost::METRICS;
use fathom_metric::{Ending, Event, Procedure, ProcedureError, Recorder};
use fathom_record::{Cause, Reason, Record};

use crate::options::BenchOptions;
use crate::stage::{Cut, Stage};
use crate::{gate, records};

impl Procedure for BenchOptions {
    fn asked(&self) -> String {
        self.text()
    }

    fn prior_metrics(&self) -> &'static [&'static str] {
        let is_priced = self.request().is_ok_and(|request| request.settings.cost);
        if is_priced { &METRICS } else { &[] }
    }

    fn measures_missing(&self) -> bool {
        self.measure
    }

    fn check(&self) -> Result<(), ProcedureError> {
        self.request()?.work().map(drop)
    }

    fn judge(&self, records: &[Record]) -> Vec<LimitJudged> {
        // Read before, and checked.
        let Ok(request) = self.request() else { return Vec::new() };
        let mut all = gate::limits(records, &request.commands);
        let undecided = request.settings.undecided;
        let ratios = request.settings.fail_on.map(|limit| gate::judge(records, limit, undecided));
        all.extend(ratios.into_iter().flatten());
        all
    }

    fn run(&self, recorder: &mut dyn Recorder) -> Result<Ending, ProcedureError> {
        let request = self.request()?;
        let work = request.work()?;
        let settings = &request.settings;
        let seed = settings.seed.unwrap_or_else(fathom_measure::clock::wall_ns);
        recorder.set_seed(seed);
        for text in request.unknown_names() {
            recorder.event(Event::Warning(&text));
        }
        let mut stage = Stage::new(&work, settings, recorder)?;
        let ended = stage.make(recorder, seed);
        let counted = match settings.cost && ended.is_ok() {
            true => stage.count(recorder),
            false => Ok(()),
        };
        let cleaned = stage.clean_up();
        for mut measured in records::records(&stage, &work.cases, settings, recorder.known()) {
            if let Err(Cut::Failed(text)) = &ended {
                let text = format!("ended early: {text}");
                measured.doubts.push(Reason::new(Cause::Interrupted, text));
            }
            recorder.record(measured);
        }
        let has_runs = stage.runs.iter().any(|runs| !runs.is_empty());
        recorder.show();
        for failed in [&counted, &cleaned] {
            if let Err(Cut::Failed(text)) = failed {
                recorder.event(Event::Warning(text));
            }
        }
        match ended {
            Err(Cut::Failed(text)) if has_runs => Err(ProcedureError::CutShort(text)),
            Err(Cut::Failed(text)) => Err(ProcedureError::Failed(text)),
            Err(Cut::Stopped) => Ok(Ending::Stopped),
            Ok(()) if matches!(counted, Err(Cut::Stopped)) => Ok(Ending::Stopped),
            Ok(()) if counted.is_err() || cleaned.is_err() => Ok(Ending::Faulty),
            Ok(()) => Ok(Ending::Done),
        }
    }
}
