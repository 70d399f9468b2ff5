//! What a request costs its server, and what it should cost (`--cost`): after the sweeps of a case
//! its best step is made twice more, as it is and with the server followed by ptrace(2).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use fathom_analysis::load::StepJudgement;
use fathom_cost::{Counting, ServiceCounts, ServiceUse, ServiceWindow, check_service};
use fathom_metric::{Measured, ProcedureError, Recorder};
use fathom_record::{Basis, Cost, Interval, Params};

use crate::capacities::wide;
use crate::engine::{self, End, Live, Meter, Moment, Timing, Workload};
use crate::metrics;
use crate::options::{LoadOptions, LoadVariant};
use crate::run::LoadRun;
use crate::server::{LocalServer, Which, find_server};
use crate::step::Step;
use crate::target::Target;
use crate::used::between;

/// Of each of the two windows.
const WINDOW_NS: u64 = 1_000_000_000;

fn failed(what: impl std::fmt::Display) -> ProcedureError {
    ProcedureError::failed(format!("--cost: {what}"))
}

/// The processes of the server, which can be followed.
///
/// # Errors
/// If they are not on this machine, or cannot be followed; what to do.
pub fn find(load: &LoadOptions, target: &Target) -> Result<LocalServer, ProcedureError> {
    let mut warnings = Vec::new();
    let which = Some(load.pid.unwrap_or(Which::Auto));
    let found = find_server(which, &target.address, load.connect_timeout, &mut warnings);
    let (server, words) = found.map_err(|why| failed(why.trim_start_matches("--pid: ")))?;
    let server = server.ok_or_else(|| failed(words))?;
    check_service(&server.processes()).map_err(failed)?;
    Ok(server)
}

/// The step with the highest throughput, of those with a number if there are any.
pub fn best<'s>(steps: &'s [Step], judged: &[StepJudgement]) -> Option<&'s Step> {
    let measured = steps.iter().zip(judged).filter(|(step, _)| step.measured.all.completed > 0);
    let rank =
        |(step, judged): &(&Step, &StepJudgement)| (judged.shows(), step.measured.throughput());
    let best = measured.max_by(|a, b| {
        let (a, b) = (rank(a), rank(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    best.map(|(step, _)| step)
}

/// What a window began or ended with.
struct CostReading {
    live: Live,
    telemetry: crate::figures::LoadTelemetry,
    used: ServiceUse,
}

impl CostReading {
    fn now(server: &mut LocalServer, live: &Live) -> Option<Self> {
        let telemetry = server.telemetry()?;
        let used = ServiceUse::read(server.processes().into_iter());
        Some(Self { live: *live, telemetry, used })
    }

    fn window(&self, begin: &Self) -> ServiceWindow {
        let used = between(&begin.telemetry, &self.telemetry);
        // A thread uses no more than one.
        let cpus = used.cpus.min(used.reactors.max(1) as f64);
        ServiceWindow {
            completed: self.live.completed - begin.live.completed,
            wall_ns: (self.live.now_ns - begin.live.now_ns) as f64,
            cpu_ns: used.cpu_ns as f64,
            used: self.used.since(begin.used),
            cpus: if cpus > 0.0 { cpus } else { 1.0 },
        }
    }
}

impl LoadOptions {
    /// The time of the two windows of each case.
    pub fn cost_ns(&self) -> u64 {
        u64::from(self.cost) * 2 * self.all_cases().len() as u64 * WINDOW_NS
    }
}

impl LoadRun<'_> {
    /// Counts the operations of the server at a step, and records them at the prices of this host.
    pub fn cost(
        &mut self,
        case: LoadVariant,
        best: Option<(Step, Params)>,
        recorder: &mut dyn Recorder,
    ) -> Result<(), ProcedureError> {
        let best = best.filter(|_| !self.is_over(recorder)).zip(self.counted.take());
        let Some(((step, params), mut server)) = best else { return Ok(()) };
        self.set_cache(&mut Step::new(step.clients()))?;
        let work = self.load.workload(&self.target, case, step.clients(), self.load.seed);
        let meter = Arc::new(Meter::new(work.threads));
        let work = Workload { rate: step.rate, meter: Some(Arc::clone(&meter)), ..work };
        let mut readings: [Option<CostReading>; 2] = [None, None];
        let plain = self.cost_window(
            &work,
            "without counting",
            recorder,
            &mut |moment, live| match moment {
                Moment::Begin => readings[0] = CostReading::now(&mut server, live),
                Moment::End => readings[1] = CostReading::now(&mut server, live),
                Moment::WarmUp | Moment::Running => {}
            },
        )?;
        if !plain {
            return Ok(());
        }
        let [begin, end] = &readings;
        let window = begin.as_ref().zip(end.as_ref()).map(|(begin, end)| end.window(begin));
        let window = window.ok_or_else(|| failed("the server has ended; its steps are kept"))?;
        let words = server.words();
        let completed = move || meter.read().completed();
        let counting = Counting::attach(server.processes(), completed);
        let mut counting =
            Some(counting.map_err(|why| failed(format!("{words} cannot be counted: {why}")))?);
        let mut counted = None;
        let whole = self.cost_window(&work, "counting", recorder, &mut |moment, _| match moment {
            Moment::Begin => counting.iter().for_each(Counting::begin),
            Moment::End => counted = counting.take().map(Counting::end),
            Moment::WarmUp | Moment::Running => {}
        });
        // Whatever happened, it is followed no more.
        let counted = counted.or_else(|| counting.take().map(Counting::end));
        let counted = counted.unwrap_or_else(|| Ok(ServiceCounts::default()));
        if !whole? {
            return Ok(());
        }
        let counted = counted
            .and_then(|it| match it.completed.min(window.completed) {
                0 => Err("no request was completed meanwhile".to_owned()),
                _ => Ok(it),
            })
            .map_err(|why| {
                failed(format!("{words} cannot be counted: {why}; its steps are kept"))
            })?;
        let cost = fathom_cost::service_cost(
            &counted,
            &window,
            (&words, step.measured.throughput()),
            recorder.known(),
        );
        recorder.record(measured(params, cost));
        self.counted = Some(server);
        Ok(())
    }

    /// A window of the step; whether it was not stopped.
    fn cost_window(
        &mut self,
        work: &Workload,
        what: &str,
        recorder: &mut dyn Recorder,
        watch: &mut dyn FnMut(Moment, &Live),
    ) -> Result<bool, ProcedureError> {
        self.progress(recorder, what, 0);
        let mut at = |moment: Moment, live: &Live| {
            watch(moment, live);
            !recorder.stop().now().load(Relaxed)
        };
        let outcome = engine::run(work, Timing::with_window(WINDOW_NS, None), &mut at)
            .map_err(|error| failed(format!("start the client threads: {error}")))?;
        self.done_ns += WINDOW_NS;
        match outcome.end {
            End::Complete => Ok(true),
            End::Stopped => Ok(false),
            End::Dead(fault) => {
                Err(failed(format!("{what}: {}; its steps are kept", fault.end_words())))
            }
        }
    }
}

/// The system time of a request, with what it should be.
fn measured(params: Params, cost: Cost) -> Measured {
    let requests = cost.service.as_ref().map_or(1, |it| it.requests).max(1) as f64;
    let each = cost.system.times(1.0 / requests);
    let interval = Interval::new([each.low_ns, each.high_ns], 0.95, Basis::WithinRun);
    Measured {
        metric: metrics::SERVER_SYSTEM_PER_REQUEST.0.id,
        params,
        values: vec![each.ns],
        headline: Some((each.ns, Some(interval))),
        verdict: Some(wide(each.half_width_ns() / each.ns.max(1.0))),
        cost: Some(cost),
        ..Measured::default()
    }
}
