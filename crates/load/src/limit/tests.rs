//! What limits canned steps, and the records of it.

use fathom_analysis::load::{ReachedLimit, SweepPoint};

use fathom_record::LoadSlot;

use super::*;
use crate::engine::Fault;
use crate::fixture;

const MB: f64 = 1e6;
pub const POINT: StepJudgement =
    StepJudgement { verdict: Verdict { state: State::Valid, reasons: Vec::new() }, left_out: None };
const INVALID: StepJudgement = StepJudgement {
    verdict: Verdict { state: State::Invalid, reasons: Vec::new() },
    left_out: Some(LeftOut::Invalid),
};

/// Three sweeps of steps at which a resource saturates at 10 requests of 1 MB per second.
fn steps(server: impl Fn(f64) -> ServerUse) -> Vec<MeasuredStep> {
    let sweep = |clients: f64, noise: f64| {
        let throughput = clients.min(10.0) * noise;
        MeasuredSweep {
            point: SweepPoint { throughput, response_s: clients / throughput },
            received_s: throughput * MB,
            server: Some(server(throughput)),
            client_share: 0.1,
            client_waiting: 0.0,
            others: None,
        }
    };
    let step = |clients: u32| {
        let mut step = MeasuredStep::new(clients);
        step.by_sweep = [0.999, 1.0, 1.001].map(|noise| sweep(f64::from(clients), noise)).to_vec();
        step
    };
    [1, 2, 4, 8, 16, 32].map(step).into()
}

/// The generator was the limit.
fn busy(step: &mut MeasuredStep) {
    (step.all.completed, step.of_quota) = (1, 0.95);
}

/// What limits these steps.
fn limit_of(steps: &[MeasuredStep], judged: &[StepJudgement], all: &Capacities) -> Limit {
    Limit::from_steps(&steps.iter().collect::<Vec<_>>(), judged, 0.0, all)
}

fn used(throughput: f64, disk_share: f64) -> ServerUse {
    let bytes = (throughput * MB) as u64;
    ServerUse {
        wall_ns: 1_000_000_000,
        cpu_ns: 100_000_000,
        disk_bytes: Some((bytes as f64 * disk_share) as u64),
        reactor_ns: 100_000_000,
        reactors: 1,
        cpus: 1.0,
        ..ServerUse::default()
    }
}

fn capacities(network: f64, disk: f64) -> Capacities {
    let rate = |bytes_s| Rate { bytes_s, half: 0.01 };
    Capacities { network: Some(rate(network)), disk: Some(Ok(rate(disk))), ..Capacities::default() }
}

fn limit(disk_share: f64, all: &Capacities) -> Limit {
    let steps = steps(|throughput| used(throughput, disk_share));
    limit_of(&steps, &[POINT; 6], all)
}

#[test]
fn the_resource_at_its_capacity_is_named() {
    let paced = |bytes_s, network| {
        let paced = Some(Rate { bytes_s, half: 0.01 });
        limit(0.0, &Capacities { paced, ..capacities(network, 40.0 * MB) })
    };
    let cases = [
        (paced(10.1 * MB, 40.0 * MB), "pacing"),
        // Pacing that is exceeded is no limit.
        (paced(7.0 * MB, 10.1 * MB), "network"),
        (limit(0.5, &capacities(10.1 * MB, 40.0 * MB)), "network"),
        (limit(1.0, &capacities(100.0 * MB, 10.2 * MB)), "disk"),
        (limit(0.0, &capacities(100.0 * MB, 0.1 * MB)), "serial"),
        (limit(1.0, &capacities(10.1 * MB, 10.2 * MB)), "undetermined"),
    ];
    for (limit, expected) in cases {
        assert_eq!(word(&limit.name), expected, "{:?}", limit.uses);
        let saturation = limit.saturation().expect("flat from 16 clients on");
        assert!((saturation.throughput.value - 10.0).abs() < 0.05);
        let behind = if expected == "serial" { "undetermined" } else { expected };
        assert_eq!(word(&limit.behind_proxy().name), behind);
    }
}

#[test]
fn records_have_the_shape_and_the_bottleneck() {
    let all = capacities(10.1 * MB, 40.0 * MB);
    let mut limit = limit(0.5, &all);
    limit.is_noisy = true;
    let params = Params::one("to", "far");
    let curve = limit.of_curve(&params);
    let metrics: Vec<_> = curve.iter().map(|one| one.metric).collect();
    let knee = metrics::KNEE.0.id;
    assert_eq!(metrics, [metrics::SATURATION.0.id, knee, metrics::CLIENTS_95.0.id]);
    for one in &curve {
        let (value, _) = one.headline.expect("a number");
        assert_eq!((&one.params, &one.values[..]), (&params, &[value][..]));
        assert!(one.verdict.is_some() && one.doubts.len() == 1);
    }
    let sides = curve[2].headline.and_then(|it| it.1?.edge()).expect("between two steps");
    let is_step = |side: &f64| limit.clients.iter().any(|step| f64::from(*step) == *side);
    assert!(sides.iter().all(is_step) && sides[0] < sides[1], "{sides:?}");
    assert_eq!(curve[0].facts[0], Fact::quantity("from clients", 16.0, Unit::Ratio));
    let (name, unit, values) = ("client CPU".to_owned(), Unit::Ratio, vec![0.5]);
    let series = vec![Series { name, unit, at: None, times_ns: vec![1e9], values }];
    let one = limit.of_bottleneck(&params, (&all, false), Some(&Proof::Confirmed), series);
    assert_eq!((one.metric, one.params), (metrics::BOTTLENECK.0.id, params.clone()));
    assert_eq!((one.text.as_deref(), one.verdict), (Some("network"), Some(Verdict::default())));
    assert_eq!((one.doubts.len(), one.series.len(), one.remarks.len()), (1, 1, 0));
    assert!(one.facts.iter().any(|fact| fact.name == "proof"));
    let unproved = limit.of_bottleneck(&params, (&all, true), None, Vec::new());
    assert_eq!((unproved.text.as_deref(), unproved.remarks.len()), (Some("undetermined"), 1));
    limit.shape = Shape::NotSaturated { up_to: 4, why: "more clients".to_owned() };
    let [none] = &limit.of_curve(&params)[..] else { panic!("one record") };
    assert_eq!((none.metric, &none.params), (metrics::SATURATION.0.id, &params));
    assert_eq!(none.verdict.as_ref().map(|it| it.state), Some(State::Unavailable));
}

#[test]
fn curve_below_its_knee_has_an_expected_one() {
    // A second each, and 5 s of thinking.
    let steps = steps(|throughput| used(throughput, 0.0));
    let few: Vec<&MeasuredStep> = steps.iter().take(3).collect();
    let mut all = capacities(40.0 * MB, 40.0 * MB);
    let knee_of = |think_s, steps: &[&MeasuredStep], all: &Capacities| {
        let judged = vec![POINT; steps.len()];
        let curve = Limit::from_steps(steps, &judged, think_s, all).of_curve(&Params::default());
        let [saturation, rest @ ..] = &curve[..] else { panic!("no record") };
        assert_eq!(saturation.metric, metrics::SATURATION.0.id);
        rest.first().map(|it| (it.metric, it.headline.expect("a number").0.round()))
    };
    let knee = |think_s, steps: &[&MeasuredStep]| knee_of(think_s, steps, &all);
    assert_eq!(knee(5.0, &few), Some((metrics::KNEE.0.id, 6.0)));
    assert_eq!(knee(0.0, &few), None, "without a think time one client is the knee");
    assert_eq!(knee(5.0, &few[1..]), None, "no step with one client");
    // A bucket of tokens: one client finds it full, two wait for it.
    let mut full = few[0].clone();
    full.by_sweep.iter_mut().for_each(|sweep| sweep.point.response_s = 0.1);
    assert_eq!(knee(5.0, &[&full, few[1], few[2]]), None);
    // By the capacity a request takes 2.5 s.
    all.request_bytes = Some(100.0 * MB);
    assert_eq!(knee_of(5.0, &few, &all), Some((metrics::KNEE.0.id, 3.0)));
}

#[test]
fn use_above_a_capacity_is_unknown() {
    let rate = |half| Rate { bytes_s: 7.35, half };
    let used = |half| share(&[10.05, 10.1, 10.15], rate(half));
    assert_eq!((used(0.02), used(0.4)), (None, None), "137 %, also by a probe that scatters");
    let near = share(&[7.5, 7.6, 7.7], rate(0.0)).expect("3 % more");
    assert_eq!((near.value, near.low() > 0.9), (1.0, true));
}

#[test]
fn bytes_that_a_member_did_not_count_are_unknown() {
    let mut steps = steps(|throughput| used(throughput, 0.0));
    let slot = |received_bytes| LoadSlot { body_bytes: 9, received_bytes, ..LoadSlot::default() };
    let mut both = slot(10);
    both.add(&slot(0));
    assert_eq!(both.received_bytes, 0);
    steps.iter_mut().flat_map(|step| &mut step.by_sweep).for_each(|it| it.received_s = 0.0);
    let limit = limit_of(&steps, &[POINT; 6], &capacities(10.1 * MB, 40.0 * MB));
    let Name::Undetermined(why) = &limit.name else { panic!("{:?}", limit.name) };
    assert!(why.contains("utilisation unknown: network"), "{why}");
    assert!(limit.used.iter().all(|(of, _)| *of == Resource::Disk), "{:?}", limit.used);
}

#[test]
fn steps_that_are_no_points_are_named() {
    let steps = steps(|throughput| used(throughput, 0.0));
    let fault = Fault::Connect(99);
    let remedy = fault.remedy().expect("a limit of this machine");
    let port = LeftOut::Limit(ReachedLimit { words: fault.to_string(), remedy });
    let curve = |left_out: [Option<&LeftOut>; 6]| {
        let judged =
            left_out.map(|left_out| StepJudgement { left_out: left_out.cloned(), ..POINT });
        let all = capacities(40.0 * MB, 40.0 * MB);
        let limit = limit_of(&steps, &judged, &all);
        let first = limit.of_curve(&Params::default()).swap_remove(0);
        fixture::words(&first)
    };
    let (cut, empty) = (Some(&LeftOut::Cut), Some(&LeftOut::Empty));
    let (failed, invalid) = (Some(&LeftOut::Failed), Some(&LeftOut::Invalid));
    let text = [
        curve([None, None, None, None, cut, None]),
        curve([None, None, cut, cut, empty, cut]),
        curve([None, failed, cut, failed, empty, cut]),
        curve([Some(&port), Some(&port), empty, failed, invalid, cut]),
    ];
    fixture::assert_golden("left_out.txt", &text.concat());
}

#[test]
fn network_measured_at_a_busy_server_is_not_its_rival() {
    let all = capacities(10.1 * MB, 40.0 * MB);
    let busy = steps(|throughput| ServerUse { cpu_ns: 990_000_000, ..used(throughput, 0.0) });
    let name = |network_under| {
        let all = Capacities { network_under, ..all.clone() };
        word(&limit_of(&busy, &[POINT; 6], &all).name)
    };
    assert_eq!(name(Some(Resource::ServerCpu)), "server-cpu");
    assert_eq!(name(None), "undetermined");
}

#[test]
fn unknown_telemetry_names_nothing() {
    let mut steps = steps(|throughput| used(throughput, 0.0));
    steps[4].by_sweep[1].server = None;
    let limit = limit_of(&steps, &[POINT; 6], &capacities(10.1 * MB, 40.0 * MB));
    assert_eq!(word(&limit.name), "undetermined");
}

#[test]
fn generator_that_fails_first_is_the_client() {
    let steps = steps(|throughput| used(throughput, 0.0));
    let mut short: Vec<MeasuredStep> = steps.into_iter().take(4).collect();
    busy(&mut short[3]);
    let valid = [POINT, POINT, POINT, INVALID];
    let limit = limit_of(&short, &valid, &capacities(40.0 * MB, 40.0 * MB));
    assert_eq!((word(&limit.name), limit.client_from), ("client", Some(8)));
}

#[test]
fn server_that_is_as_busy_as_the_generator_may_be_the_limit() {
    let steps = steps(|throughput| ServerUse { cpu_ns: 900_000_000, ..used(throughput, 0.0) });
    let mut short: Vec<MeasuredStep> = steps.into_iter().take(4).collect();
    busy(&mut short[3]);
    let valid = [POINT, POINT, POINT, INVALID];
    let limit = limit_of(&short, &valid, &capacities(40.0 * MB, 40.0 * MB));
    let Name::Undetermined(why) = &limit.name else { panic!("{:?}", limit.name) };
    assert!(why.contains("server CPU at 90 %") && limit.client_from == Some(8), "{why}");
}

#[test]
fn cpu_that_others_use_is_no_serial_section() {
    let mut steps = steps(|throughput| used(throughput, 0.0));
    for sweep in steps.iter_mut().flat_map(|step| &mut step.by_sweep) {
        (sweep.client_share, sweep.client_waiting) = (0.4, 0.5);
    }
    let limit = limit_of(&steps, &[POINT; 6], &capacities(40.0 * MB, 40.0 * MB));
    let Name::Undetermined(why) = &limit.name else { panic!("{:?}", limit.name) };
    assert!(why.contains("the client waits for a CPU 50 %"), "{why}");
}

#[test]
fn one_valid_step_does_not_hide_the_client() {
    let mut steps = steps(|throughput| used(throughput, 0.0));
    steps[..5].iter_mut().for_each(busy);
    let mut valid = [INVALID; 6];
    valid[5] = POINT;
    let limit = limit_of(&steps, &valid, &capacities(40.0 * MB, 40.0 * MB));
    assert_eq!((word(&limit.name), limit.client_from), ("client", Some(1)));
}

#[test]
fn network_of_loopback_stands_only_if_proved() {
    let limit = limit(0.0, &capacities(10.1 * MB, 40.0 * MB));
    let refuted = Proof::Refuted("no effect".to_owned());
    let not_done = Proof::NotDone("stopped".to_owned());
    for (is_loopback, proof, expected) in [
        (false, None, "network"),
        (false, Some(&not_done), "network"),
        (false, Some(&refuted), "undetermined"),
        (true, None, "undetermined"),
        (true, Some(&not_done), "undetermined"),
        (true, Some(&Proof::Confirmed), "network"),
    ] {
        assert_eq!(word(&limit.standing(is_loopback, proof)), expected, "{proof:?}");
    }
}
