//! A scripted machine: the real sampler on a fake clock, with operations of a scripted cost.

use std::rc::Rc;

use fathom_engine::{EngineOutcome, Machine, RunSetup, VisitAnswer, VisitRequest};
use fathom_measure::clock::{FakeClock, STEP_STAMPS, Specification, WholeRun};
use fathom_measure::sampler::{LoopTime, Observer, Resources, RoundMark, SamplerFault};
use fathom_measure::{Clock, Sampler, SamplerWork};
use fathom_record::host::{Cache, Cpu};
use fathom_record::run::ClockFacts;
use fathom_record::{Cause, Disturbance, Host, Params, Reason, Tool};

/// Cost of a clock read.
const READ_NS: u64 = 20;
/// Additions in one iteration of the frequency kernel.
const CHAIN: f64 = 64.0;

pub struct EngineScript {
    /// The metrics visited, in order.
    pub visits: Vec<String>,
    /// The metric whose worker crashes.
    pub crashes: Option<&'static str>,
    /// Visits after which the CPU is offline.
    pub offline_after: Option<usize>,
    /// Visits after which the user stops the run.
    pub stops_after: Option<usize>,
    /// Disagreement with the kernel's clock.
    pub clock_ppm: f64,
    /// The reference loop during calibration.
    pub calibration_ns: f64,
    /// Slowdown of operations while the loop is slow.
    pub slow_times: f64,
    /// Variation between processes.
    pub jitter_permille: u64,
    /// The reference loop (the part that a sibling slows) by visit.
    pub loop_ns: fn(usize) -> f64,
    /// The distance of the CPUs by visit, of work on two, with which its times grow.
    pub distance_ns: fn(usize) -> f64,
    /// The duration of a visit of this metric.
    pub visit_ns: fn(&str) -> u64,
    pub elapsed_ns: u64,
}

impl EngineScript {
    pub fn new() -> Self {
        Self {
            visits: Vec::new(),
            crashes: None,
            offline_after: None,
            stops_after: None,
            clock_ppm: 0.0,
            calibration_ns: LOOP_NS,
            slow_times: 1.0,
            jitter_permille: 4,
            loop_ns: |_| LOOP_NS,
            distance_ns: |_| 10.0,
            visit_ns: |_| 40_000_000,
            elapsed_ns: 0,
        }
    }

    /// Nanoseconds of one operation in one process, with its jitter.
    fn price(&self, metric: &str, params: &Params, process: u32) -> Result<f64, SamplerFault> {
        let args = params.integer("args").unwrap_or(0) as f64;
        let typical = match (metric, params.text("call").or(params.text("form"))) {
            ("cpu.frequency", _) => 0.25 * CHAIN,
            ("cpu.clock.read", _) => 20.0,
            ("cpu.clock.resolution", _) => 0.4,
            ("cpu.loop.iteration", Some("register")) => 0.25,
            ("cpu.loop.iteration", _) => 0.5,
            ("cpu.call", _) => 0.6 + 0.05 * args,
            ("os.syscall", Some("open_close")) => {
                return Err(SamplerFault::Unavailable(
                    "open /dev/null: not permitted here".to_owned(),
                    None,
                ));
            }
            ("os.syscall", Some("stat")) => 600.0,
            ("os.syscall", _) => 110.0,
            ("os.syscall.fresh", _) => 900.0,
            ("os.thread.create", _) => 21_000.0,
            // Of a first cache of 32 KiB, and one other level.
            ("memory.latency", _) => match params.integer("set_bytes") {
                Some(..=32_768) => 1.0,
                _ => 5.0,
            },
            _ => 1000.0,
        };
        let deal = u64::from(process) * 7919 % 11;
        Ok(typical * (1.0 + self.jitter_permille as f64 / 1000.0 * (deal as f64 / 10.0 - 0.5)))
    }
}

impl Machine for EngineScript {
    fn visit(&mut self, request: &VisitRequest) -> EngineOutcome {
        self.visits.push(request.metric.clone());
        let at_ns = self.elapsed_ns;
        self.elapsed_ns += (self.visit_ns)(&request.metric);
        if self.crashes == Some(request.metric.as_str()) {
            return EngineOutcome::Failed(Reason::new(
                Cause::Crashed,
                "the worker crashed with signal 11",
            ));
        }
        if self.offline_after.is_some_and(|visits| self.visits.len() > visits) {
            let fault = SamplerFault::CpuOffline(1, "CPU 1 went offline".to_owned());
            let samples = request.params.iter().map(|_| Err(fault.clone())).collect();
            return EngineOutcome::Answered(VisitAnswer { samples, loops: Vec::new() });
        }
        let fake = Rc::new(FakeClock::new(READ_NS));
        let loop_ns = (self.loop_ns)(self.visits.len());
        let stolen = request.metric == "os.syscall.fresh";
        let distance_ns =
            Some((self.distance_ns)(self.visits.len())).filter(|_| request.is_on_two_cpus);
        let observer = Box::new(Quiet { stolen, loop_ns, distance_ns });
        let clock = Clock::fake(Rc::clone(&fake));
        let mut sampler = Sampler::new(clock, request.settings, request.params.len(), observer);
        let mut works = Vec::new();
        for (case, params) in request.params.iter().enumerate() {
            match self.price(&request.metric, params, request.settings.process) {
                Ok(price) => {
                    let times = if loop_ns > LOOP_NS { self.slow_times } else { 1.0 };
                    let price = times * price * distance_ns.map_or(1.0, |ns| ns / 10.0);
                    works.push(work(case, &request.metric, price, &fake));
                }
                Err(fault) => sampler.fault(case, fault),
            }
        }
        sampler.run(works);
        let visit = sampler.finish();
        let loops = visit.loops.iter().map(|one| LoopTime { at_ns, ..*one }).collect();
        EngineOutcome::Answered(VisitAnswer { samples: visit.samples, loops })
    }

    fn calibrate(&mut self, _: u32) -> Vec<LoopTime> {
        vec![loop_of(0, self.calibration_ns); 96]
    }

    fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    fn timestamp(&self) -> String {
        let ms = self.elapsed_ns() / 1_000_000;
        let (minutes, seconds) = (4 + ms / 60_000, ms / 1000 % 60);
        format!("2026-01-02T03:{minutes:02}:{seconds:02}.{:03}Z", ms % 1000)
    }

    fn clock_check(&self) -> WholeRun {
        let raw_ppm = self.clock_ppm;
        WholeRun {
            raw_ppm,
            monotonic_ppm: raw_ppm,
            wall_step_ns: 0,
            wall_was_set: false,
            backwards: 0,
        }
    }

    fn clock(&self) -> Specification {
        Clock::fake(Rc::new(FakeClock::new(READ_NS))).specification()
    }

    fn interrupted(&self) -> bool {
        self.stops_after.is_some_and(|visits| self.visits.len() >= visits)
    }
}

/// An operation with this cost, batched or single as in the metric.
fn work<'k>(case: usize, metric: &str, price_ns: f64, fake: &Rc<FakeClock>) -> SamplerWork<'k> {
    let fake = Rc::clone(fake);
    if ["os.syscall.fresh", "os.thread.create", "cpu.clock.resolution"].contains(&metric) {
        let batch = if metric == "cpu.clock.resolution" { STEP_STAMPS } else { 1 };
        let operation = move |_: &Clock, values: &mut [f64]| {
            fake.advance(price_ns.max(1.0) as u64);
            values[0] = price_ns;
            Ok(())
        };
        return SamplerWork::Single {
            cases: vec![case],
            batch,
            operation: Box::new(operation),
            timings: None,
        };
    }
    let kernel = move |iterations: u64| {
        fake.advance((price_ns * iterations as f64) as u64);
        iterations
    };
    if metric != "cpu.frequency" {
        return SamplerWork::batched(case, kernel);
    }
    let to_unit = |ns: f64| 1e9 / ns;
    SamplerWork::Batched {
        case,
        kernel: Box::new(kernel),
        twin: None,
        has_entry: false,
        per_iteration: CHAIN,
        to_unit,
        timings: None,
    }
}

/// Counters without disturbance, except for scripted steal.
pub struct Quiet {
    stolen: bool,
    loop_ns: f64,
    distance_ns: Option<f64>,
}

impl Quiet {
    pub fn new() -> Self {
        Self { stolen: false, loop_ns: LOOP_NS, distance_ns: None }
    }
}

/// The reference loop on an idle core.
const LOOP_NS: f64 = 9_000.0;

fn loop_of(at_ns: u64, sibling_ns: f64) -> LoopTime {
    LoopTime { at_ns, sibling_ns, frequency_ns: LOOP_NS }
}

impl Observer for Quiet {
    fn begin_visit(&mut self) {}
    fn end_visit(&mut self) -> Disturbance {
        Disturbance {
            wall_ns: 5_000_000,
            cpu_ns: 5_000_000,
            run_queue_ns: Some(0),
            steal_ns: Some(if self.stolen { 1_000_000 } else { 0 }),
            ..Disturbance::default()
        }
    }
    fn begin_round(&mut self) {}
    fn end_round(&mut self) -> RoundMark {
        RoundMark::default()
    }
    fn reference_loop(&mut self, _: &Clock) -> LoopTime {
        loop_of(0, self.loop_ns)
    }
    fn distance(&mut self, _: &Clock) -> Option<f64> {
        self.distance_ns
    }
}

pub fn host() -> Host {
    let mut host =
        Host { name: "scripted".to_owned(), kernel: "6.1.0".to_owned(), ..Host::default() };
    host.clocksource = Some("tsc".to_owned());
    host.virtualization = Some("kvm".to_owned());
    host.cpu = Cpu {
        model: "AMD EPYC 9R14".to_owned(),
        architecture: "x86_64".to_owned(),
        vendor: Some("AuthenticAMD".to_owned()),
        family: Some(25),
        model_number: Some(17),
        logical: 2,
        allowed: vec![0, 1],
        tsc_hz: Some(2.5e9),
        hz: Some(2.5e9),
        ..Cpu::default()
    };
    let l3 =
        Cache { level: 3, kind: "unified".to_owned(), size_bytes: 32 << 20, ..Cache::default() };
    host.cpu.caches = vec![l3];
    host
}

pub fn setup() -> RunSetup {
    RunSetup {
        tool: Tool { version: "0.0.0".to_owned(), ..Tool::fixture() },
        host: host(),
        id: "0123456789abcdef".to_owned(),
        label: None,
        cpu: 1,
        cpu_reason: "0 % busy just now".to_owned(),
        clock: ClockFacts {
            source: "fake".to_owned(),
            hz: 1e9,
            resolution_ns: 1.0,
            read_ns: READ_NS as f64,
            ..ClockFacts::default()
        },
        folder: None,
        tuned: Vec::new(),
        imposed: Vec::new(),
        notes: Vec::new(),
        priority: false,
        resources: Resources::none(),
        far: Vec::new(),
        earlier: None,
    }
}
