//! A probe with a far end, and its records.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::LazyLock;

use fathom_engine::{EngineOutcome, Machine, Plan, VisitAnswer, VisitRequest, coordinate};
use fathom_measure::clock::{FakeClock, Specification, WholeRun};
use fathom_measure::sampler::{FarPlace, LOOPBACK, LoopTime, Resources, SamplerFault};
use fathom_measure::{Clock, Sampler, SamplerWork};
use fathom_metric::{About, Entry, Inputs, Probe, ProbeCase, Registry, Sizes};
use fathom_record::{
    Check, Disturbance, Effort, FarEnd, FarHost, Histogram, Host, NoModel, Params, Prediction,
    Protocol, State,
};

use crate::Screen;
use crate::script::{EngineScript, Quiet, host, setup};

const BENCH: &str = "bench-4";

fathom_metric::metric!(RoundTrip, ABOUT);

static ABOUT: About =
    About { id: "network.round_trip", title: "round trip", has_far_end: true, ..About::BASE };

impl Probe for RoundTrip {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        [LOOPBACK, BENCH, "gone"].map(|to| ProbeCase::usual(Params::one("to", to))).into()
    }
    fn predict(&self, _: &ProbeCase, _: &Host, _: &Inputs<'_>) -> Result<Prediction, NoModel> {
        Err(NoModel::SchedulersChoice)
    }
    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<(), SamplerFault> {
        for (index, case) in cases.iter().enumerate() {
            let place = match sampler.resources().far_end(case.params.text("to").unwrap_or("")) {
                Ok(place) => place,
                Err(fault) => {
                    sampler.fault(index, fault);
                    continue;
                }
            };
            let ns = if place.address.is_some() { 90_000.0 } else { 30_000.0 };
            let timings = std::cell::RefCell::new(Histogram::new());
            let operation = |_: &Clock, values: &mut [f64]| {
                (0..200).for_each(|nth| timings.borrow_mut().add(ns + 100.0 * f64::from(nth)));
                values[0] = ns;
                Ok(())
            };
            sampler.run(vec![SamplerWork::Single {
                cases: vec![index],
                batch: 200,
                operation: Box::new(operation),
                timings: Some(&timings),
            }]);
            let echoes = Check { name: "echoes".into(), passed: true, detail: "200".into() };
            let disturbance = Disturbance { involuntary_switches: 3, ..Disturbance::default() };
            let (reference_ns, checks) = (vec![7_777.0], vec![echoes]);
            sampler.keep_far_end(index, FarEnd { cpu: 3, disturbance, reference_ns, checks });
        }
        Ok(())
    }
}

static REGISTRY: LazyLock<Registry> =
    LazyLock::new(|| Registry::new(&[Entry::Probe(&RoundTrip)], &[]));

/// Makes visits as a worker does, on a fake clock.
struct TwoEndDirect(EngineScript);

impl Machine for TwoEndDirect {
    fn visit(&mut self, request: &VisitRequest) -> EngineOutcome {
        // As through a worker's pipe.
        let line = serde_json::to_string(request).expect("a request");
        let request: VisitRequest = serde_json::from_str(&line).expect("the same request");
        let cases: Vec<ProbeCase> = request.params.iter().cloned().map(ProbeCase::usual).collect();
        let clock = Clock::fake(Rc::new(FakeClock::new(20)));
        let sampler = Sampler::new(clock, request.settings, cases.len(), Box::new(Quiet::new()));
        let mut sampler = sampler.with(request.resources.clone());
        RoundTrip.visit(&cases, &mut sampler).expect("a visit");
        let visit = sampler.finish();
        let answer = VisitAnswer { samples: visit.samples, loops: visit.loops };
        let line = serde_json::to_string(&answer).expect("an answer");
        EngineOutcome::Answered(serde_json::from_str(&line).expect("the same answer"))
    }
    fn calibrate(&mut self, cpu: u32) -> Vec<LoopTime> {
        self.0.calibrate(cpu)
    }
    fn elapsed_ns(&self) -> u64 {
        self.0.elapsed_ns()
    }
    fn timestamp(&self) -> String {
        self.0.timestamp()
    }
    fn clock_check(&self) -> WholeRun {
        self.0.clock_check()
    }
    fn clock(&self) -> Specification {
        self.0.clock()
    }
    fn interrupted(&self) -> bool {
        false
    }
}

#[test]
fn probe_with_a_far_end_has_records_of_both_ends() {
    let plan = Plan::new(&REGISTRY, Vec::new(), Effort::Quick, Protocol::Median, 7, &host());
    let address: SocketAddr = "[2001:db8::4]:7878".parse().expect("an address");
    let far = FarHost { name: BENCH.to_owned(), host: host(), clock: None };
    let address = Some(address);
    let place = FarPlace { to: BENCH.to_owned(), address, ..FarPlace::default() };
    let mut setup = setup();
    setup.resources = Resources { far: vec![place], ..Resources::none() };
    setup.far = vec![far.clone()];
    let mut screen = Screen::new(80, usize::MAX);
    let plan = plan.expect("a plan");
    let document = coordinate(&plan, setup, &mut TwoEndDirect(EngineScript::new()), &mut screen);
    assert_eq!(document.far, [far]);
    let [here, there, gone] = document.records.as_slice() else { panic!("three cases") };
    assert_eq!(gone.verdict.state, State::Unavailable);
    assert_eq!(gone.verdict.reasons[0].text, "no far end named gone");
    for (record, ns) in [(here, 30_000.0), (there, 90_000.0)] {
        let summary = record.summary.as_ref().expect("a summary");
        assert_eq!(summary.median, ns);
        let quantiles: Vec<f64> = summary.quantiles.iter().map(|it| it.q).collect();
        assert_eq!(quantiles, [0.9, 0.99, 0.999, 0.9999], "of 192,000 timings");
        let p90 = summary.quantiles[0].value;
        assert!((p90 / (ns + 17_900.0) - 1.0).abs() < 2e-3, "{p90}");
        let sample = &record.samples.as_ref().expect("samples")[0];
        let far = sample.far.as_ref().expect("a far end");
        assert_eq!((far.cpu, far.disturbance.involuntary_switches), (3, 3));
        assert_eq!(record.checks["far end: echoes"], "200");
        assert_eq!(sample.histogram.as_ref().map(Histogram::len), Some(7 * 16 * 200));
    }
    assert_eq!(document.far_host(&there.params), Some(&host()));
    assert_eq!(document.far_host(&here.params), None);
}
