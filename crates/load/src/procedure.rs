//! The order of the steps: three sweeps over all numbers of clients and rates, case by case.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use fathom_analysis::limits;
use fathom_analysis::load::{
    COMPLETIONS_NEEDED, MeasuredStep, Proof, SWEEPS, StepJudgement, WINDOWS,
};
use fathom_cost::METRICS;
use fathom_http::Url;
use fathom_measure::clock::monotonic_raw_ns as now_ns;
use fathom_measure::host::HostReader;
use fathom_metric::{Ending, Event, Procedure, ProcedureError, Recorder};
use fathom_record::quantity::counted;
use fathom_record::{Activity, Params, Record, system_cause};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::capacity;
use crate::congestion::check_congestion;
use crate::content;
use crate::cost;
use crate::dose;
use crate::engine::{Distribution, End, Outcome, Timing, Workload};
use crate::find;
use crate::limit::Limit;
use crate::memory::LoadMemory;
use crate::monitor::Monitor;
use crate::options::{BodyName, LoadOptions, LoadVariant};
use crate::paths::shown;
use crate::rates;
use crate::readings::Readings;
use crate::records;
use crate::run::{LoadRun, duration, whole_time};
use crate::seconds::Watched;
use crate::step::Step;
use crate::target::{LOOPBACK, Target, check_pattern, token};

/// Descriptors of the process besides those of the clients.
const DESCRIPTORS: u64 = 64;
/// 128 bits in base64, as of the token of a service.
const TOKEN_CHARACTERS_MIN: usize = 22;

impl Procedure for LoadOptions {
    fn asked(&self) -> String {
        self.target.clone()
    }

    fn prior_metrics(&self) -> &'static [&'static str] {
        if self.cost { &METRICS } else { &[] }
    }

    fn measures_missing(&self) -> bool {
        self.measure
    }

    fn calibrates(&self) -> bool {
        self.make.is_none()
    }

    fn check(&self) -> Result<(), ProcedureError> {
        if self.make.is_some() {
            return match self.target.contains("://") {
                true => Err(ProcedureError::usage("--make: expected a folder, not a URL")),
                false => Ok(()),
            };
        }
        let url = Url::parse(&self.target).map_err(ProcedureError::usage)?;
        self.message.check().and_then(|()| self.https.tls_for(&url).map(drop))?;
        if url.is_https && self.body == BodyName::Discard {
            let text = "--body discard: the kernel cannot drop what has to be decrypted";
            return Err(ProcedureError::usage(text));
        }
        let open =
            [(self.arrivals.is_some(), "--arrivals"), (self.in_flight.is_some(), "--in-flight")];
        if let Some((_, option)) = open.into_iter().find(|it| it.0 && !self.has_open_loop()) {
            let text = format!("{option} is of an open loop: give --rate or --find-max");
            return Err(ProcedureError::usage(text));
        }
        if self.think_distribution != Distribution::Constant
            && self.all_cases().iter().all(|case| case.think.is_zero())
        {
            return Err(ProcedureError::usage("--think-distribution: needs --think"));
        }
        if self.prove && self.closed().is_empty() {
            return Err(ProcedureError::usage("--prove needs --clients: a closed loop"));
        }
        self.urls.as_deref().map_or(Ok(()), check_pattern)?;
        self.check_descriptors()?;
        self.metrics_token()?;
        self.congestion.as_deref().map_or(Ok(()), check_congestion)
    }

    fn judge(&self, records: &[Record]) -> Vec<limits::LimitJudged> {
        self.fails_if().iter().map(|condition| condition.judge(records)).collect()
    }

    fn run(&self, recorder: &mut dyn Recorder) -> Result<Ending, ProcedureError> {
        if let Some(set) = self.make {
            let mut watch = |event: Option<Event<'_>>| {
                event.into_iter().for_each(|event| recorder.event(event));
                !recorder.stop().now().load(Relaxed)
            };
            return crate::make::make(set, self.target.as_ref(), &mut watch);
        }
        let watched = Watched::new(self.most_threads());
        let monitor = self.monitor(&watched)?;
        let mut target = match Target::prepare(self, recorder) {
            Err(_) if recorder.stop().now().load(Relaxed) => return Ok(Ending::Stopped),
            target => target?,
        };
        target.warnings.iter().for_each(|text| recorder.event(Event::Warning(text)));
        self.check_ports(&target, recorder)?;
        let counted = self.cost.then(|| cost::find(self, &target)).transpose()?;
        recorder.set_seed(self.seed);
        target.far.iter().for_each(|far| recorder.add_far(far.clone()));
        let metrics =
            monitor.as_ref().map(|it| format!("; metrics: http://{}/metrics", it.address));
        recorder.event(Event::Plan(&(self.plan(&target) + &metrics.unwrap_or_default())));
        let few = self.all_cases().into_iter().find_map(|case| self.too_few(case, target.first_ns));
        few.iter().for_each(|text| recorder.event(Event::Warning(text)));
        if self.body == BodyName::Verify {
            let mut goes_on = || !recorder.stop().now().load(Relaxed);
            target.contents = Some(content::know(&mut target, &mut goes_on).to_owned());
        }
        let begun_ns = now_ns();
        let mut run = LoadRun {
            memory: LoadMemory { begun_ns, ..LoadMemory::default() },
            quota: HostReader::live().cpu_quota(),
            all_ns: self.planned_ns(&target).iter().sum::<u64>() + self.cost_ns(),
            plan: self.fixed_plan(recorder.start_ns().unwrap_or(begun_ns)),
            counted,
            ..LoadRun::new(self, target, watched)
        };
        // Of an open loop and of a share no limit is sought.
        let is_closed = !self.closed().is_empty() && self.share.is_none();
        if is_closed {
            run.capacities = capacity::measure(&mut run, recorder)?;
        }
        if is_closed && run.target.control.is_some() {
            let capacities = run.capacities.measured(&records::place(&run.target));
            capacities.into_iter().for_each(|one| _ = recorder.record(one));
            recorder.show();
        }
        if self.find_max {
            let conditions = self.slo.as_ref().map_or(&[][..], |all| &all.0);
            let ending = find::find(&mut run, self.all_cases()[0], conditions, recorder);
            records::memory(recorder, &run.memory, &run.target);
            return ending;
        }
        for case in self.all_cases() {
            let ended = run.case(case, recorder);
            recorder.show();
            ended?;
            if run.is_over(recorder) {
                break;
            }
        }
        records::memory(recorder, &run.memory, &run.target);
        self.ending(&run, recorder)
    }
}

/// Allows this process as many connections.
///
/// # Errors
/// The limit of descriptors, if it cannot be raised so far.
pub fn room_for(clients: u32) -> Result<(), u64> {
    let needed = u64::from(clients) + DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|most| most >= needed) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(needed), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).map_err(|_| limit.maximum.unwrap_or(u64::MAX))
}

impl LoadOptions {
    /// How a load ends whose steps are recorded.
    fn ending(&self, run: &LoadRun<'_>, recorder: &dyn Recorder) -> Result<Ending, ProcedureError> {
        match run.dead {
            Some(fault) => Err(ProcedureError::failed(format!(
                "{}: {}; finished steps are kept",
                self.target,
                fault.end_words()
            ))),
            // The conditions say so.
            None if !self.fails_if().is_empty() => Ok(Ending::Done),
            None if !run.has_numbers && !recorder.stop().now().load(Relaxed) => {
                let text = format!("{}: no step has a valid result", self.target);
                Err(ProcedureError::failed(text))
            }
            None => Ok(Ending::Done),
        }
    }

    /// The token that `--metrics` requires: beyond loopback each request has one.
    fn metrics_token(&self) -> Result<Option<String>, ProcedureError> {
        let Some(address) = self.metrics else { return Ok(None) };
        if address.ip().to_canonical().is_loopback() {
            return Ok(None);
        }
        let token = token(self)?.filter(|token| token.len() >= TOKEN_CHARACTERS_MIN);
        token.map(Some).ok_or_else(|| {
            ProcedureError::usage(format!(
                "--metrics {address}: beyond loopback a token of at least {TOKEN_CHARACTERS_MIN} \
                 characters is needed: add --token-file FILE"
            ))
        })
    }

    fn monitor(&self, watched: &Arc<Watched>) -> Result<Option<Monitor>, ProcedureError> {
        let Some(address) = self.metrics else { return Ok(None) };
        let started = Monitor::start(address, self.metrics_token()?, Arc::clone(watched));
        started.map(Some).map_err(|error| {
            let cause = system_cause(&error, Activity::Other);
            ProcedureError::failed(format!("--metrics {address}: {cause}"))
        })
    }

    fn check_descriptors(&self) -> Result<(), ProcedureError> {
        let (option, clients) = self.most_connections();
        room_for(clients).map_err(|most| {
            let needed = u64::from(clients) + DESCRIPTORS;
            ProcedureError::failed(format!(
                "{option} {clients}: needs {needed} file descriptors, the limit is {most}; raise \
                 it (ulimit -n) or use fewer"
            ))
        })
    }

    /// One address has as many connections to another as it has ephemeral ports.
    fn check_ports(
        &self,
        target: &Target,
        recorder: &mut dyn Recorder,
    ) -> Result<(), ProcedureError> {
        let (option, clients) = self.most_connections();
        let Some([first, last]) = recorder.host().tcp.ports else { return Ok(()) };
        let ports = u32::from(last.saturating_sub(first)) + 1;
        match clients <= ports {
            true => Ok(()),
            false => Err(ProcedureError::failed(format!(
                "{option} {clients}: one address has {ports} ephemeral ports to {}; use fewer, \
                 or widen net.ipv4.ip_local_port_range",
                target.address
            ))),
        }
    }

    /// Requests of a sweep, if they are counted; the last one has the rest.
    pub fn requests_in(&self, sweep: usize) -> Option<u64> {
        let (all, sweeps) = (self.requests?, SWEEPS as u64);
        let is_last = sweep + 1 == SWEEPS;
        Some(all / sweeps + if is_last { all % sweeps } else { 0 })
    }

    /// What the command is about to do, and how long that takes.
    fn plan(&self, target: &Target) -> String {
        if self.find_max {
            let timing = Timing::with_window(self.window_ns(), None);
            let whole = self.planned_ns(target)[0];
            return format!(
                "at most {} windows of {}, {}, + at most {} of warm-up and {} for backlogs; files: \
                 {}, from {}",
                1 + WINDOWS,
                duration(timing.window_ns as f64 / 1e9),
                duration(whole as f64 / 1e9),
                duration((1 + WINDOWS) as f64 * timing.warm_up_max_ns as f64 / 1e9),
                duration(WINDOWS as f64 * timing.drain_max_ns() as f64 / 1e9),
                target.requests.len(),
                target.address
            );
        }
        let steps = self.all_cases().len() * (self.closed().len() + self.open().len());
        let [sweeps_ns, capacities_ns, proofs_ns] = self.planned_ns(target);
        let seconds = |ns: u64| duration(ns as f64 / 1e9);
        let mut more = String::new();
        let parts = [
            (capacities_ns, "", "capacities"),
            (proofs_ns, "at most ", "added loads"),
            (self.cost_ns(), "", "counting"),
        ];
        for (ns, most, what) in parts.into_iter().filter(|(ns, ..)| *ns > 0) {
            more += &format!(" + {most}{} for {what}", seconds(ns));
        }
        let open = self.all_cases().len() * self.open().len() * SWEEPS;
        if open > 0 {
            let drain_ns = Timing::with_window(self.window_ns(), None).drain_max_ns();
            more += &format!(" + at most {} for backlogs", seconds(open as u64 * drain_ns));
        }
        if self.steps_more() > 0 {
            more += &format!(
                " + {} for each doubling of the clients until the throughput is level, at most {}",
                seconds(SWEEPS as u64 * self.window_ns()),
                self.steps_more()
            );
        }
        // The longest warm-up is a share of the window.
        let timing = Timing::with_window(self.window_ns(), None);
        let warm_up = timing.warm_up_max_ns as f64 / timing.window_ns as f64;
        let all_ns = (sweeps_ns + capacities_ns + proofs_ns) as f64;
        let measured = match self.requests {
            None => format!(
                "{} measured{more}, at most {} of warm-up",
                seconds(sweeps_ns),
                duration(all_ns / 1e9 * warm_up)
            ),
            Some(count) => {
                format!("requests: {count} a step, at most {}{more}", seconds(sweeps_ns))
            }
        };
        format!(
            "{steps} × {SWEEPS} windows (steps × sweeps): {measured}; files: {}, from {}",
            target.requests.len(),
            target.address
        )
    }

    /// Whether too few responses for an interval, or for a quantile of --fail-if, are to be
    /// expected of the fewest clients, by the time of the first one, or at the lowest rate; and
    /// what to do.
    fn too_few(&self, case: LoadVariant, first_ns: u64) -> Option<String> {
        let first_s = first_ns as f64 / 1e9;
        let clients = self.closed().first().copied().filter(|_| self.requests.is_none());
        let of_clients = clients.map(|clients| {
            let each_s = first_s.max((first_s + case.think.as_secs_f64()) / f64::from(clients));
            let turn = ["", " in turn"][usize::from(clients > 1 && each_s == first_s)];
            let who = counted(clients as usize, "client") + turn;
            (each_s, format!("with {who}, as the first took {}", duration(first_s)))
        });
        let of_rate = self
            .open()
            .first()
            .map(|rate| (1.0 / rate.per_second, format!("at {}", rates::words(rate.per_second))));
        let steps = of_clients.into_iter().chain(of_rate);
        let (each_s, how) = steps.max_by(|a, b| a.0.total_cmp(&b.0))?;
        let (each_s, time_s) = (each_s.max(1e-9), self.time.as_secs_f64());
        let conditions = self.fails_if();
        let quantiles = conditions.iter().map(|one| (one.responses_min(), one.parts().0));
        let (needed, what) = std::iter::once((COMPLETIONS_NEEDED, "an interval"))
            .chain(quantiles)
            .max_by(|a, b| a.0.total_cmp(&b.0))?;
        let expected = time_s / each_s;
        (expected < needed * (1.0 - 1e-9)).then(|| {
            format!(
                "--time {}: about {expected:.0} responses are to be expected {how}; {what} needs \
                 {needed:.0}: --time {}",
                duration(time_s),
                whole_time(needed * each_s)
            )
        })
    }

    /// The time of sweeps, capacities and proofs, without warm-up.
    fn planned_ns(&self, target: &Target) -> [u64; 3] {
        let cases = self.all_cases().len() as u64;
        if self.find_max {
            return [find::planned_ns(self), 0, 0];
        }
        let windows = cases * ((self.closed().len() + self.open().len()) * SWEEPS) as u64;
        let is_ours = u64::from(target.control.is_some() && !self.closed().is_empty());
        let proofs = is_ours * u64::from(self.prove) * cases;
        [
            windows * self.window_ns(),
            is_ours * capacity::planned_ns(self),
            proofs * dose::planned_ns(self.window_ns()),
        ]
    }
}

impl LoadRun<'_> {
    pub fn is_over(&self, recorder: &dyn Recorder) -> bool {
        self.dead.is_some() || recorder.stop().now().load(Relaxed)
    }

    /// All sweeps of a case, and its records by the number of clients.
    fn case(
        &mut self,
        case: LoadVariant,
        recorder: &mut dyn Recorder,
    ) -> Result<(), ProcedureError> {
        let load = self.load;
        let mut steps = load.steps();
        let mut congestion = None;
        self.readings = Readings::default();
        let end = self.sweeps(case, &mut steps, &mut congestion, recorder);
        let end = end.and_then(|()| self.grow(case, &mut steps, &mut congestion, recorder));
        // After a stop, steps with a complete sweep have a number, with fewer batches.
        let shared =
            records::RecordContext::from_load(load, &self.target, case, congestion.as_deref());
        steps.retain(|step| step.measured.sweeps > 0 || step.measured.server_end.is_some());
        let judged: Vec<StepJudgement> =
            steps.iter().map(|step| records::step(recorder, &shared, step)).collect();
        let params = shared.common();
        let best = cost::best(&steps, &judged).map(|step| (step.clone(), shared.params(step)));
        self.has_numbers |= judged.iter().any(|step| step.shows());
        recorder.show();
        end?;
        // The limit is that of all members.
        if load.share.is_some() {
            return Ok(());
        }
        // What limits an open loop is its rate.
        let closed = steps.iter().map(|step| &step.measured).take_while(|step| !step.is_open);
        let closed: Vec<&MeasuredStep> = closed.collect();
        self.limit(case, &closed, &judged[..closed.len()], &params, recorder)?;
        self.cost(case, best, recorder)
    }

    /// What limits the throughput of a case.
    fn limit(
        &mut self,
        case: LoadVariant,
        steps: &[&MeasuredStep],
        judged: &[StepJudgement],
        params: &Params,
        recorder: &mut dyn Recorder,
    ) -> Result<(), ProcedureError> {
        let is_limited = judged.iter().any(|step| step.shows())
            || steps.iter().any(|step| step.is_client_bound());
        if !is_limited {
            return Ok(());
        }
        let all = self.capacities.clone();
        let limit = Limit::from_steps(steps, judged, case.think.as_secs_f64(), &all);
        let limit = if self.target.has_proxy() { limit.behind_proxy() } else { limit };
        limit.of_curve(params).into_iter().for_each(|one| _ = recorder.record(one));
        let proof = match limit.plateau_to() {
            _ if !self.load.prove => None,
            None => Some(Proof::NotDone("throughput is not saturated".to_owned())),
            Some(_) if limit.is_undetermined() => {
                Some(Proof::NotDone("no resource is suspected".to_owned()))
            }
            Some(clients) => {
                Some(dose::prove(self, case, (&limit, &all, clients), params, recorder)?)
            }
        };
        let far = (self.target.to != LOOPBACK).then_some(self.target.to.as_str());
        let series = self.readings.series(far);
        let is_loopback = self.target.is_loopback_path;
        recorder.record(limit.of_bottleneck(params, (&all, is_loopback), proof.as_ref(), series));
        Ok(())
    }

    pub fn sweeps(
        &mut self,
        case: LoadVariant,
        steps: &mut [Step],
        congestion: &mut Option<String>,
        recorder: &mut dyn Recorder,
    ) -> Result<(), ProcedureError> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.load.seed);
        for _ in 0..SWEEPS {
            for at in fathom_analysis::statistics::shuffled(steps.len(), &mut random) {
                let seed = random.next_u64();
                let step = &mut steps[at];
                let begin_ns = self.plan.as_mut().map(|plan| plan.take(step.rate.is_some()));
                // Fewer clients than members.
                if step.clients() == 0 {
                    continue;
                }
                let outcome = self.sweep(case, step, (seed, begin_ns), recorder)?;
                *congestion = congestion.take().or(outcome.tally.congestion);
                if let End::Dead(fault) = outcome.end {
                    step.end(fault);
                    self.dead = Some(fault);
                }
                if self.is_over(recorder) {
                    return Ok(());
                }
                let (load, target) = (self.load, &self.target);
                let shared =
                    records::RecordContext::from_load(load, target, case, congestion.as_deref());
                let step = &steps[at];
                recorder.draft(&mut |recorder| _ = records::step(recorder, &shared, step));
            }
        }
        Ok(())
    }

    fn sweep(
        &mut self,
        case: LoadVariant,
        step: &mut Step,
        (seed, begin_ns): (u64, Option<u64>),
        recorder: &mut dyn Recorder,
    ) -> Result<Outcome, ProcedureError> {
        self.set_cache(step)?;
        let work = self.load.workload(&self.target, case, step.clients(), seed);
        let work = match self.load.share {
            Some(share) => Workload { rate: step.rate, ..step.share_of(share, work) },
            None => Workload { rate: step.rate, ..work },
        };
        let requests = self.load.requests_in(step.measured.sweeps);
        let timing = Timing { begin_ns, ..Timing::with_window(self.load.window_ns(), requests) };
        let what = match step.rate {
            Some(rate) => rates::words(rate.per_second),
            None => counted(step.clients() as usize, "client"),
        };
        let mut outcome = self.window(&work, timing, &what, recorder)?;
        let wrong_path = &mut step.measured.counts.wrong_path;
        if let Some(file) = outcome.tally.wrong_file {
            wrong_path.get_or_insert_with(|| shown(&work.requests.path(file)));
        }
        outcome.tally.window.wrong_path.clone_from(wrong_path);
        if outcome.end == End::Complete {
            if self.load.share.is_some() {
                step.windows.push(outcome.tally.window.clone());
            }
            step.add(&outcome);
        } else {
            step.add_incomplete(&outcome);
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::fixture::{assert_golden, target};

    #[test]
    fn plan_is_windows_and_times() {
        let plan = |options: &str, is_ours: bool| {
            let line = format!("load http://far/ {options}");
            let load = LoadOptions::parse_from(line.split_whitespace());
            let whose = if is_ours { "fathom serve" } else { "another server" };
            format!("{whose} {options}\n  {}\n", load.plan(&target(is_ours)))
        };
        let text = [
            plan("", false),
            plan("--time 500ms --clients 1", false),
            plan("--time 2s --clients 1..3 --cases think0,fixed", true),
            plan("--time 120s --clients 1,2 --prove --cases think0,fixed", true),
            plan("--time 1h --clients 1..20", true),
            plan("--requests 1000 --time 3s", false),
            plan("--rate 100..1000", false),
            plan("--rate 500 --clients 1,2 --time 120s", true),
            plan("--rate 500 --time 1s", true),
            plan("--find-max --slo p99<50ms --time 12s", true),
        ];
        assert_golden("plans.txt", &text.concat());
    }

    #[test]
    fn metrics_beyond_loopback_need_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            format!("--token-file {}", path.display())
        };
        let (short, long) = (file("short", "secret"), file("long", &"0123456789".repeat(3)));
        let checked = |options: &str| {
            let line = format!("load http://far/ --metrics {options}");
            LoadOptions::parse_from(line.split_whitespace()).check()
        };
        assert!(checked(&format!("0.0.0.0:9100 {long}")).is_ok());
        assert!(["9100", "[::1]:9100"].map(checked).iter().all(Result::is_ok));
        for options in ["0.0.0.0:9100".to_owned(), format!("[::]:1 {short}")] {
            let refused = checked(&options).unwrap_err();
            assert!(matches!(refused, ProcedureError::Usage(_)), "{refused}");
            assert!(refused.to_string().ends_with("add --token-file FILE"), "{refused}");
        }
    }

    #[test]
    fn too_few_responses_are_foreseen() {
        let few = |options: &str, ms: u64| {
            let line = format!("load http://far/ {options}");
            let load = LoadOptions::parse_from(line.split_whitespace());
            load.too_few(load.all_cases()[0], ms * 1_000_000)
        };
        let text = "--time 30 s: about 40 responses are to be expected with 1 client, as the first \
                    took 750 ms; an interval needs 60: --time 45s";
        assert_eq!(few("", 750).as_deref(), Some(text));
        assert_eq!(few("", 500), None, "60");
        assert_eq!(few("--clients 4 --think 1s", 100), None, "four think at once");
        let think = few("--think 1s", 100).expect("27 of one client");
        assert!(think.ends_with("--time 70s"), "{think}");
        assert_eq!(few("--requests 10", 750), None);
        let text = "--time 30 s: about 15 responses are to be expected at 0.5 requests/s; an \
                    interval needs 60: --time 120s";
        assert_eq!(few("--rate 0.5,900", 1).as_deref(), Some(text));
        assert_eq!(few("--rate 2", 900), None);
        let text = "--time 30 s: about 1500 responses are to be expected at 50 requests/s; p99.9 \
                    needs 10000: --time 4min";
        let options = "--rate 50 --fail-if p50>1ms,p99.9>9ms,errors>1%";
        assert_eq!(few(options, 1).as_deref(), Some(text));
        assert_eq!(few("--rate 50 --fail-if p99>9ms", 1), None);
        let closed = few("-c 4 --fail-if p99>9ms", 40).expect("750 responses");
        assert!(closed.contains("in turn, ") && closed.ends_with("1000: --time 40s"), "{closed}");
    }
}
