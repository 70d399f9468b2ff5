//! The options to a request, the request to records.

use fathom_analysis::limits::LimitJudged;
use fathom_cost::METRICS;
use fathom_metric::{Ending, Event, Procedure, ProcedureError, Recorder};
use fathom_record::command::CERTIFICATE_METRIC;
use fathom_record::{Cause, Reason, Record};

use crate::options::BenchOptions;
use crate::stage::{Cut, Stage};
use crate::{certify, gate, records};

impl Procedure for BenchOptions {
    fn asked(&self) -> String {
        self.text()
    }

    fn prior_metrics(&self) -> &'static [&'static str] {
        let settings = self.request().map(|request| &request.settings);
        match settings {
            Ok(settings) if settings.cost => &METRICS,
            Ok(settings) if settings.fail_on.is_some() => &[CERTIFICATE_METRIC],
            _ => &[],
        }
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
        if let Some(text) = certify::warning(recorder.known(), &work.cases, settings) {
            recorder.event(Event::Warning(&text));
        }
        let mut stage = Stage::new(&work, settings, recorder)?;
        let mut certificate = None;
        let ended = match settings.certify {
            true => stage.certify(recorder, seed).map(|runs| certificate = Some(runs)),
            false => stage.make(recorder, seed),
        };
        let counted = match settings.cost && ended.is_ok() {
            true => stage.count(recorder),
            false => Ok(()),
        };
        let cleaned = stage.clean_up();
        // Of a certificate the command alone is a case.
        let cases = if settings.certify { &work.cases[..1] } else { &work.cases[..] };
        for mut measured in records::records(&stage, cases, settings, recorder.known()) {
            if let Err(Cut::Failed(text)) = &ended {
                let text = format!("ended early: {text}");
                measured.doubts.push(Reason::new(Cause::Interrupted, text));
            }
            recorder.record(measured);
        }
        if let Some(runs) = certificate {
            let rows = certify::rows(&stage.times(), runs);
            let about = records::settings_of(&cases[0], settings);
            recorder.record(certify::record(&cases[0], &rows, about));
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
            Ok(()) if matches!(counted, Err(Cut::Stopped)) => {
                let text = "interrupted while counting: the timed runs are complete";
                recorder.event(Event::Warning(text));
                Ok(Ending::Stopped)
            }
            Ok(()) if counted.is_err() || cleaned.is_err() => Ok(Ending::Faulty),
            Ok(()) => Ok(Ending::Done),
        }
    }
}
