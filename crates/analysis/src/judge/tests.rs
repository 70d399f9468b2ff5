//! Verdicts and their causes.

mod checks;
mod far;
mod sensors;
mod states;

use super::*;
use crate::statistics::summarise;
use fathom_record::{BETWEEN_LEVELS, Basis, Check, Estimate, Histogram, Interval, summary::Mode};

const QUIET: Expectation =
    Expectation { expects: Counters::NONE, noise_limit: 0.05, better: Better::Lower };
const FULL_SPEED: Loop = Loop { sibling_ns: 9_000.0, frequency_ns: 8_000.0 };
const HALF: Option<u64> = Some(500_000_000);

/// Two of seven are 20 % worse: a wide interval, and a narrow one without them.
const WIDE: [f64; 7] = [100.0, 100.0, 100.0, 100.0, 101.0, 120.0, 121.0];

/// A run with one state of the core, which is reported.
fn states(reported: Stratum) -> CoreStates {
    let visits = Stratum::STATES.map(|state| if state == reported { 100 } else { 0 });
    CoreStates { idle: FULL_SPEED, reported, visits }
}

fn expecting(expects: Counters) -> Expectation {
    Expectation { expects, ..QUIET }
}

fn quiet() -> Disturbance {
    Disturbance {
        wall_ns: 1_000_000_000,
        cpu_ns: 1_000_000_000,
        run_queue_ns: Some(0),
        steal_ns: Some(0),
        interrupt_ns: Some(0),
        throttled_ns: Some(0),
        throttled_periods: Some(0),
        ..Disturbance::default()
    }
}

fn stolen() -> Disturbance {
    Disturbance { steal_ns: HALF, ..quiet() }
}

/// One process for each median; those at the indices `affected` have the disturbance.
fn processes(medians: &[f64], affected: &[usize], by: &Disturbance) -> Vec<Sample> {
    let of = |(at, median): (usize, &f64)| Sample {
        process: at as u32,
        values: vec![*median],
        disturbance: if affected.contains(&at) { by.clone() } else { quiet() },
        ..Sample::default()
    };
    medians.iter().enumerate().map(of).collect()
}

/// Five processes with a narrow interval, all with this disturbance.
fn narrow(disturbance: &Disturbance) -> Vec<Sample> {
    processes(&[99.0, 100.0, 100.0, 100.0, 101.0], &[0, 1, 2, 3, 4], disturbance)
}

fn verdict(samples: &[Sample], expectation: Expectation) -> Verdict {
    judge(samples, &summarise(samples).expect("values"), expectation, None)
}

/// The verdict in a run that had a core to itself.
fn on_known_core(samples: &[Sample], expectation: Expectation) -> Verdict {
    let summary = summarise(samples).expect("values");
    judge(samples, &summary, expectation, Some(&states(Stratum::ToItself)))
}

fn causes(verdict: &Verdict) -> Vec<Cause> {
    verdict.reasons.iter().map(|reason| reason.cause).collect()
}

#[track_caller]
fn cause(verdict: &Verdict) -> (Cause, &str) {
    let [only] = verdict.reasons.as_slice() else { panic!("{verdict:?}") };
    assert_eq!(verdict.state, State::Noisy);
    assert!(only.remedy.is_some(), "{only:?}");
    (only.cause, &only.text)
}

#[test]
fn edge_is_not_noisy_for_its_interval() {
    let fact = Fact::text(BETWEEN_LEVELS, "L3 and memory");
    let mut samples = processes(&[10.0, 12.0, 20.0, 40.0, 50.0], &[], &quiet());
    assert_eq!(verdict(&samples, QUIET).state, State::Noisy);
    samples.iter_mut().for_each(|sample| sample.facts.push(fact.clone()));
    assert_eq!(verdict(&samples, QUIET), Verdict::default());
}

#[test]
fn quiet_case_is_valid_with_unknown_counters() {
    assert_eq!(verdict(&narrow(&quiet()), QUIET), Verdict::default());
    let unknown = Disturbance { wall_ns: 1_000_000_000, ..Disturbance::default() };
    assert_eq!(verdict(&narrow(&unknown), QUIET), Verdict::default());
}

#[test]
fn lost_time_in_all_visits_is_named() {
    let throttled = Disturbance { throttled_ns: HALF, throttled_periods: Some(5), ..quiet() };
    let doses = [
        (throttled, Cause::Throttled, "throttled by CPU quota 50 %"),
        (stolen(), Cause::Steal, "CPU steal 50 %"),
        (Disturbance { run_queue_ns: HALF, ..quiet() }, Cause::Contention, "CPU contention 50 %"),
        (Disturbance { interrupt_ns: HALF, ..quiet() }, Cause::Interrupts, "interrupt time 50 %"),
        (Disturbance { cpu_ns: 400_000_000, ..quiet() }, Cause::NotRunning, "descheduled 60 %"),
    ];
    for (disturbance, expected, text) in doses {
        assert_eq!(cause(&verdict(&narrow(&disturbance), QUIET)), (expected, text));
    }
}

#[test]
fn disturbance_below_the_noise_limit_is_valid() {
    let shifting_by = |percent: f64| {
        let slow = 100.0 + percent;
        let medians = [100.0, 100.0, 100.0, slow, slow, slow, slow];
        verdict(&processes(&medians, &[3, 4, 5, 6], &stolen()), QUIET)
    };
    // Said, since such a number does not judge the machine.
    let unmoved = shifting_by(4.0);
    assert_eq!((unmoved.state, causes(&unmoved)), (State::Valid, vec![Cause::Steal]));
    let moved = shifting_by(6.0);
    assert_eq!(cause(&moved), (Cause::Steal, "CPU steal 50 % in 4 of 7 processes"));
}

#[test]
fn cause_is_named_if_other_processes_are_narrow() {
    let named = verdict(&processes(&WIDE, &[5, 6], &stolen()), QUIET);
    assert_eq!(cause(&named), (Cause::Steal, "CPU steal 50 % in 2 of 7 processes"));
    let wide_without = verdict(&processes(&WIDE, &[6], &stolen()), QUIET);
    let unknown =
        "wide interval over 7 processes, not explained by CPU steal 50 % in 1 of 7 processes";
    assert_eq!(cause(&wide_without), (Cause::Spread, unknown));
    let values = (0..12).map(|at| 100.0 + 10.0 * f64::from(at % 3)).collect();
    let alone = Sample { values, disturbance: quiet(), ..Sample::default() };
    let mut summary = summarise(std::slice::from_ref(&alone)).expect("values");
    summary.interval =
        Some(Interval { low: 90.0, high: 130.0, level: 0.95, basis: Basis::WithinRun });
    let text = "wide interval within one process; no counter or sensor moved";
    assert_eq!(cause(&judge(&[alone], &summary, QUIET, None)), (Cause::Spread, text));
}

#[test]
fn cause_has_dose_and_response() {
    let stolen = |ns| Disturbance { steal_ns: Some(ns), ..quiet() };
    let of = |doses: [u64; 3]| {
        let mut samples = processes(&[100.0, 100.0, 100.0, 100.5, 120.0, 150.0], &[], &quiet());
        (0..3).for_each(|at| samples[3 + at].disturbance = stolen(doses[at]));
        causes(&verdict(&samples, QUIET))
    };
    let percent = 10_000_000;
    assert_eq!(of([10 * percent, 20 * percent, 30 * percent]), [Cause::Steal]);
    assert_eq!(of([20 * percent; 3]), [Cause::Steal], "equal doses say nothing");
    assert_eq!(of([30 * percent, 20 * percent, 10 * percent]), [Cause::Spread], "the reverse");
    // Of five processes, one is the worst by chance in one of five runs.
    let one = |ns| {
        let samples = processes(&[101.0, 100.0, 100.0, 100.0, 150.0], &[4], &stolen(ns));
        causes(&verdict(&samples, QUIET))
    };
    assert_eq!(one(6 * percent), [Cause::Spread], "6 % do not explain 50 %");
    assert_eq!(one(21 * percent), [Cause::Steal], "27 % explain half of it");
}

#[test]
fn cause_of_the_better_processes_is_unknown() {
    let better_where_stolen = processes(&WIDE, &[5, 6], &stolen());
    let rate = Expectation { better: Better::Higher, ..QUIET };
    let unknown =
        "wide interval over 7 processes, not explained by CPU steal 50 % in 2 of 7 processes";
    assert_eq!(cause(&verdict(&better_where_stolen, rate)), (Cause::Spread, unknown));
    let neither = Expectation { better: Better::Neither, ..QUIET };
    assert_eq!(causes(&verdict(&better_where_stolen, neither)), [Cause::Steal]);
}

#[test]
fn lost_time_in_all_visits_counts_at_full_speed() {
    let samples = processes(&[100.0; 5], &[0, 1, 2, 3, 4], &stolen());
    let summary = summarise(&samples).expect("values");
    let summary = Summary { stratum: Stratum::ToItself, ..summary };
    assert_eq!(causes(&judge(&samples, &summary, QUIET, None)), [Cause::Steal]);
    let one = processes(&[100.0; 5], &[0], &stolen());
    assert_eq!(judge(&one, &summary, QUIET, None), Verdict::default(), "no shift without it");
}

#[test]
fn throttled_time_is_not_contention() {
    let disturbance = Disturbance {
        throttled_ns: Some(400_000_000),
        throttled_periods: Some(4),
        run_queue_ns: Some(405_000_000),
        ..quiet()
    };
    assert_eq!(causes(&verdict(&narrow(&disturbance), QUIET)), [Cause::Throttled]);
}

#[test]
fn run_queue_wait_is_expected_of_turns() {
    // The CPU time of both, as on a quiet CPU: one runs while the other waits.
    let waits = Disturbance { run_queue_ns: HALF, ..quiet() };
    assert_eq!(verdict(&narrow(&waits), expecting(Counters::TURNS)), Verdict::default());
}

#[test]
fn other_program_on_the_cpu_of_turns_is_noise() {
    // As counted beside a busy loop on that CPU: both wait longer, and neither runs meanwhile.
    let beside = Disturbance {
        cpu_ns: 510_000_000,
        run_queue_ns: Some(790_000_000),
        involuntary_switches: 741,
        ..quiet()
    };
    let taken = verdict(&narrow(&beside), expecting(Counters::TURNS));
    assert_eq!(cause(&taken), (Cause::NotRunning, "worker and children descheduled 49 %"));
}

#[test]
fn sleep_explains_descheduling_but_not_contention() {
    let descheduled = Disturbance { cpu_ns: 400_000_000, ..quiet() };
    let turns = verdict(&narrow(&descheduled), expecting(Counters::TURNS));
    assert_eq!(cause(&turns), (Cause::NotRunning, "worker and children descheduled 60 %"));
    let asleep = expecting(Counters::SLEEP);
    assert_eq!(verdict(&narrow(&descheduled), asleep), Verdict::default());
    let waits = Disturbance { run_queue_ns: HALF, ..quiet() };
    assert_eq!(causes(&verdict(&narrow(&waits), asleep)), [Cause::Contention]);
    let queued = Disturbance { run_queue_ns: Some(590_000_000), ..descheduled };
    let once = verdict(&narrow(&queued), QUIET);
    assert_eq!(causes(&once), [Cause::Contention], "the wait is counted once");
}

#[test]
fn device_wait_is_expected_of_a_device_probe() {
    let waited = Disturbance { cpu_ns: 100_000_000, major_faults: 500, ..quiet() };
    let moved = |expects| {
        let samples = narrow(&waited);
        let summary = summarise(&samples).expect("values");
        let moved = Summary { median_undisturbed: Some(90.0), ..summary };
        judge(&samples, &moved, expecting(expects), None)
    };
    assert_eq!(moved(Counters::DEVICE), Verdict::default());
    assert_eq!(causes(&moved(Counters::NONE)), [Cause::MajorFaults, Cause::MajorFaults]);
}

#[test]
fn major_faults_are_named_if_half_of_the_waits() {
    let descheduled = Disturbance { cpu_ns: 400_000_000, voluntary_switches: 100, ..quiet() };
    let of = |major_faults| {
        let faulted = Disturbance { major_faults, ..descheduled.clone() };
        verdict(&narrow(&faulted), QUIET)
    };
    let named = of(50);
    assert_eq!(cause(&named), (Cause::MajorFaults, "250 major faults, I/O wait 60 %"));
    assert_eq!(causes(&of(49)), [Cause::NotRunning], "most waits were not for pages");
    assert_eq!(causes(&of(0)), [Cause::NotRunning]);
}

/// [`WIDE`] with these reference loops in the two worst processes, the others at full speed.
fn with_loops(slow: Loop, expectation: Expectation) -> Verdict {
    let mut samples = processes(&WIDE, &[], &quiet());
    for (at, sample) in samples.iter_mut().enumerate() {
        let met = if at < 5 { FULL_SPEED } else { slow };
        (sample.reference_ns, sample.frequency_ns) =
            (vec![met.sibling_ns; 13], vec![met.frequency_ns; 13]);
    }
    on_known_core(&samples, expectation)
}

#[test]
fn smt_contention_and_frequency_are_distinguished() {
    let contended = Loop { sibling_ns: 17_100.0, ..FULL_SPEED };
    let text = "SMT contention: core up to 1.90× slower in 2 of 7 processes";
    assert_eq!(cause(&with_loops(contended, QUIET)), (Cause::SlowCore, text));
    let low = Loop { sibling_ns: 10_800.0, frequency_ns: 9_600.0 };
    let text = "lower frequency: core up to 1.20× slower in 2 of 7 processes";
    assert_eq!(cause(&with_loops(low, QUIET)), (Cause::SlowCore, text));
    let device = expecting(Counters::DEVICE);
    assert_eq!(causes(&with_loops(contended, device)), [Cause::FewProcesses]);
    assert_eq!(causes(&with_loops(FULL_SPEED, QUIET)), [Cause::FewProcesses], "no core was slow");
}

#[test]
fn mostly_slow_cores_are_compared_in_halves() {
    let times = [1.0, 1.3, 1.5, 1.8, 1.9];
    let judged = |medians: [f64; 5]| on_slow_cores(&medians, &times, QUIET);
    assert_eq!(causes(&judged([100.0, 130.0, 150.0, 180.0, 190.0])), [Cause::SlowCore]);
    assert_eq!(causes(&judged([100.0, 130.0, 150.0, 180.0, 110.0])), [Cause::Spread]);
}

#[test]
fn two_ticks_of_steal_may_be_chance() {
    let tick = Disturbance {
        steal_ns: Some(20_000_000),
        wall_ns: 40_000_000,
        cpu_ns: 40_000_000,
        ..quiet()
    };
    assert_eq!(verdict(&narrow(&tick), QUIET), Verdict::default());
}

#[test]
fn disturbed_rounds_count_if_they_shift_the_median() {
    let samples = narrow(&Disturbance { involuntary_switches: 3, ..quiet() });
    let without = |median| {
        let summary = summarise(&samples).expect("values");
        judge(&samples, &Summary { median_undisturbed: Some(median), ..summary }, QUIET, None)
    };
    let moved = without(94.0);
    assert_eq!(cause(&moved), (Cause::Contention, "preempted 15×: shifts the median 6 %"));
    assert_eq!(without(96.0), Verdict::default());
}

#[test]
fn rounds_that_widen_the_interval_are_named() {
    let preempted = Disturbance { involuntary_switches: 1, ..quiet() };
    let of = |values: Vec<f64>| {
        let mut samples = processes(&WIDE, &[5, 6], &preempted);
        for sample in &mut samples[5..] {
            (sample.values, sample.disturbed) = (values.clone(), vec![1, 2]);
        }
        verdict(&samples, QUIET)
    };
    assert_eq!(causes(&of(vec![100.0, 120.0, 121.0])), [Cause::Contention]);
    assert_eq!(causes(&of(vec![118.0, 120.0, 121.0])), [Cause::FewProcesses]);
}

#[test]
fn bound_may_have_a_wide_interval() {
    let samples = processes(&WIDE, &[], &quiet());
    let wide = summarise(&samples).expect("values");
    assert_eq!(judge(&samples, &wide, QUIET, None).state, State::Noisy);
    let bound = Summary { bound: Some(120.0), ..wide };
    assert_eq!(judge(&samples, &bound, QUIET, None), Verdict::default());
}

#[test]
fn drift_and_clusters_beyond_the_limit_are_remarks() {
    let samples = narrow(&quiet());
    let summary = summarise(&samples).expect("values");
    let of = |shape: Summary| {
        let Verdict { state, reasons } = judge(&samples, &shape, QUIET, None);
        assert_eq!(state, State::Valid, "the interval is narrow");
        reasons.into_iter().map(|it| (it.cause, it.text)).collect::<Vec<_>>()
    };
    let remark = |cause, text: &str| vec![(cause, text.to_owned())];
    let drifting = |drift| Summary { drift: Some(drift), ..summary.clone() };
    assert_eq!(of(drifting(-0.08)), remark(Cause::Drift, "drifted −8 % while sampling"));
    assert_eq!(of(drifting(-0.04)), []);
    let grouped = |low, high| {
        let clusters = [(low, 0.4), (high, 0.6)].map(|(at, share)| Mode { at, share });
        Summary { clusters: clusters.to_vec(), ..summary.clone() }
    };
    let apart = "bimodal across processes (40 % / 60 %, 10 % apart)";
    assert_eq!(of(grouped(95.0, 105.0)), remark(Cause::TwoClusters, apart));
    assert_eq!(of(grouped(99.5, 100.5)), []);
    let apart = "bimodal across processes (40 % / 60 %, 3.0 × apart)";
    assert_eq!(of(grouped(50.0, 150.0)), remark(Cause::TwoClusters, apart));
}

#[test]
fn worst_case_slowdown_combines_core_and_lost_time() {
    let estimate = Estimate { process_loops: vec![10_800.0], ..Estimate::default() };
    let mut record = Record::fixture("cpu.call", Unit::Nanoseconds);
    let interval = Some(Interval::of_processes([99.0, 101.0]));
    let (found, fast) = (Some(estimate.clone()), Some(estimate));
    record.summary =
        Some(Summary { interval, as_found: found, in_state: fast, ..Summary::default() });
    record.disturbance = stolen();
    let known = states(Stratum::ToItself);
    let of = |record: &Record, expects, states| {
        (100.0 * worst_case_slowdown(record, expects, states)).round() / 100.0
    };
    assert_eq!(of(&record, Counters::NONE, Some(&known)), 2.4);
    assert_eq!(of(&record, Counters::NONE, None), 2.0);
    assert_eq!(of(&record, Counters::DEVICE, Some(&known)), 2.0);
    record.summary.as_mut().expect("set").stratum = Stratum::ToItself;
    assert_eq!(of(&record, Counters::NONE, Some(&known)), 1.0);
}

#[test]
fn causes_are_listed_by_their_share() {
    let all = Disturbance {
        cpu_ns: 100_000_000,
        throttled_ns: Some(200_000_000),
        throttled_periods: Some(2),
        run_queue_ns: Some(350_000_000),
        steal_ns: Some(120_000_000),
        interrupt_ns: Some(80_000_000),
        ..quiet()
    };
    let verdict = verdict(&narrow(&all), QUIET);
    let texts: Vec<&str> = verdict.reasons.iter().map(|it| it.text.as_str()).collect();
    let expected = [
        "descheduled 35 %",
        "throttled by CPU quota 20 %",
        "CPU contention 15 %",
        "CPU steal 12 %",
        "interrupt time 8 %",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn share_is_over_the_affected_processes() {
    let mut samples = processes(&[100.0, 100.0, 100.0, 120.0, 120.0], &[], &quiet());
    for (at, steal_ms, wall_ms) in [(3, 500, 1_000), (4, 300, 3_000)] {
        let Disturbance { steal_ns, wall_ns, cpu_ns, .. } = &mut samples[at].disturbance;
        *steal_ns = Some(steal_ms * 1_000_000);
        (*wall_ns, *cpu_ns) = (wall_ms * 1_000_000, wall_ms * 1_000_000);
    }
    let text = "CPU steal 20 % in 2 of 5 processes";
    assert_eq!(cause(&verdict(&samples, QUIET)), (Cause::Steal, text));
}

/// Half a limit and the limit are valid, more is noisy.
#[test]
fn time_lost_above_the_limit_is_a_cause() {
    const MS: u64 = 1_000_000;
    type Set = fn(&mut Disturbance, u64);
    let cases: [(Cause, Set, u64, Counters); 6] = [
        (Cause::Throttled, |it, ns| it.throttled_ns = Some(ns), 10 * MS, Counters::NONE),
        (Cause::Steal, |it, ns| it.steal_ns = Some(ns), 50 * MS, Counters::NONE),
        (Cause::Contention, |it, ns| it.run_queue_ns = Some(ns), 50 * MS, Counters::NONE),
        (Cause::Interrupts, |it, ns| it.interrupt_ns = Some(ns), 50 * MS, Counters::NONE),
        (Cause::NotRunning, |it, ns| it.cpu_ns -= ns, 50 * MS, Counters::NONE),
        (Cause::NotRunning, |it, ns| it.cpu_ns -= ns, 150 * MS, Counters::TURNS),
    ];
    for (cause, set, limit, expects) in cases {
        let of = |ns| {
            let mut lost = Disturbance { throttled_periods: None, ..quiet() };
            set(&mut lost, ns);
            causes(&verdict(&narrow(&lost), expecting(expects)))
        };
        assert_eq!([of(limit / 2), of(limit)], [[]; 2], "{cause:?}");
        assert_eq!(of(limit + MS), [cause]);
    }
    let ticks = |steal_ns| {
        let wall_ns = 40 * MS;
        let lost = Disturbance { steal_ns: Some(steal_ns), wall_ns, cpu_ns: wall_ns, ..quiet() };
        causes(&verdict(&narrow(&lost), QUIET))
    };
    assert_eq!((ticks(30 * MS - 1), ticks(30 * MS)), (vec![], vec![Cause::Steal]));
    let not_throttled = Disturbance { throttled_ns: HALF, ..quiet() };
    assert_eq!(verdict(&narrow(&not_throttled), QUIET), Verdict::default(), "in no period");
}

#[test]
fn three_other_processes_can_refute_a_cause() {
    // The better processes of a wide case are affected.
    let of = |affected: &[usize]| causes(&verdict(&processes(&WIDE, affected, &stolen()), QUIET));
    assert_eq!(of(&[0, 1, 2, 3]), [Cause::Spread]);
    assert_eq!(of(&[0, 1, 2, 3, 4]), [Cause::Steal], "two others are too few");
    // Three others are as wide as their ends.
    let of = |others: [f64; 3]| {
        let medians = [&others[..], &[140.0, 150.0, 150.0, 150.0]].concat();
        causes(&verdict(&processes(&medians, &[3, 4, 5, 6], &stolen()), QUIET))
    };
    assert_eq!(of([95.0, 100.0, 105.0]), [Cause::Steal]);
    assert_eq!(of([94.0, 100.0, 105.0]), [Cause::Spread]);
}

#[test]
fn processes_that_are_as_good_explain_nothing() {
    let medians = [80.0, 100.0, 120.0, 100.0, 100.0, 100.0, 100.0];
    for better in [Better::Lower, Better::Higher] {
        let expectation = Expectation { better, ..QUIET };
        let verdict = verdict(&processes(&medians, &[0, 1, 2], &stolen()), expectation);
        assert_eq!(causes(&verdict), [Cause::Spread], "{better:?}");
    }
}

#[test]
fn change_as_large_as_the_noise_limit_is_valid() {
    // Half and quarters are exact in binary.
    let quarter = Expectation { noise_limit: 0.25, ..QUIET };
    let medians = [75.0, 75.0, 75.0, 100.0, 100.0, 100.0, 100.0];
    let shifted =
        |medians: &[f64]| verdict(&processes(medians, &[3, 4, 5, 6], &stolen()), quarter).state;
    assert_eq!(shifted(&medians), State::Valid);
    assert_eq!(shifted(&[74.0, 74.0, 74.0, 100.0, 100.0, 100.0, 100.0]), State::Noisy);
    let wide = |half| processes(&[100.0 - half, 100.0, 100.0, 100.0, 100.0 + half], &[], &quiet());
    assert_eq!(causes(&verdict(&wide(25.0), quarter)), []);
    assert_eq!(causes(&verdict(&wide(25.1), quarter)), [Cause::FewProcesses]);
    let samples = narrow(&Disturbance { migrations: 1, ..quiet() });
    let summary = summarise(&samples).expect("values");
    let of = |summary| judge(&samples, &summary, quarter, None);
    let undisturbed = |median| Summary { median_undisturbed: Some(median), ..summary.clone() };
    assert_eq!(of(undisturbed(75.0)), Verdict::default());
    let text = "migrated 5×: shifts the median 26 %";
    assert_eq!(cause(&of(undisturbed(74.0))), (Cause::Migration, text));
    let drift = |drift| causes(&of(Summary { drift: Some(drift), ..summary.clone() }));
    assert_eq!([drift(0.25), drift(-0.25)], [[]; 2]);
    assert_eq!(drift(0.26), [Cause::Drift]);
    let modes = |apart: f64| {
        let modes = vec![Mode { at: 100.0, share: 0.5 }, Mode { at: 100.0 + apart, share: 0.5 }];
        causes(&of(Summary { modes, ..summary.clone() }))
    };
    assert_eq!((modes(25.0), modes(26.0)), (vec![], vec![Cause::SeveralModes]));
}

#[test]
fn disturbed_rounds_name_unexpected_counters() {
    let of = |disturbance: Disturbance, expects| {
        let samples = narrow(&disturbance);
        let summary = summarise(&samples).expect("values");
        let moved = Summary { median_undisturbed: Some(90.0), ..summary };
        judge(&samples, &moved, expecting(expects), None)
    };
    let faulted = Disturbance { major_faults: 2, involuntary_switches: 1, ..quiet() };
    let text = "10 major faults: shifts the median 10 %";
    assert_eq!(cause(&of(faulted.clone(), Counters::NONE)), (Cause::MajorFaults, text));
    let preempted = of(faulted, Counters::DEVICE);
    assert_eq!(causes(&preempted), [Cause::Contention], "faults of a device are expected");
    let turns = Disturbance { involuntary_switches: 1, ..quiet() };
    assert_eq!(of(turns, Counters::TURNS), Verdict::default());
    assert_eq!(of(quiet(), Counters::NONE), Verdict::default(), "no counter moved");
}

#[test]
fn other_median_of_zero_has_no_disturbed_rounds() {
    let samples = processes(&[0.0; 5], &[0], &Disturbance { migrations: 1, ..quiet() });
    let summary = Summary { median_undisturbed: Some(0.0), ..summarise(&samples).expect("values") };
    assert_eq!(judge(&samples, &summary, QUIET, None), Verdict::default());
}

/// Processes with these medians whose core is slower by these factors.
fn on_slow_cores(medians: &[f64], times: &[f64], expectation: Expectation) -> Verdict {
    let mut samples = processes(medians, &[], &quiet());
    for (sample, times) in samples.iter_mut().zip(times) {
        sample.reference_ns = vec![FULL_SPEED.sibling_ns * times];
        sample.frequency_ns = vec![FULL_SPEED.frequency_ns];
    }
    on_known_core(&samples, expectation)
}

#[test]
fn slow_half_must_be_worse_than_the_other() {
    let times = [1.0, 1.3, 1.5, 1.8, 1.9];
    let rate = Expectation { better: Better::Higher, ..QUIET };
    let rates = [190.0, 180.0, 150.0, 130.0, 100.0];
    assert_eq!(causes(&on_slow_cores(&rates, &times, rate)), [Cause::SlowCore]);
    let mixed = [190.0, 180.0, 150.0, 130.0, 180.0];
    assert_eq!(causes(&on_slow_cores(&mixed, &times, rate)), [Cause::Spread], "equal is not worse");
    let neither = Expectation { better: Better::Neither, ..QUIET };
    assert_eq!(causes(&on_slow_cores(&mixed, &times, neither)), [Cause::SlowCore]);
    let medians = [100.0, 130.0, 150.0, 180.0, 130.0];
    assert_eq!(causes(&on_slow_cores(&medians, &times, QUIET)), [Cause::Spread]);
    // With three processes at full speed, those are the measure.
    let three = [1.0, 1.0, 1.0, 1.8, 1.9];
    let apart = [100.0, 130.0, 100.0, 180.0, 190.0];
    assert_eq!(causes(&on_slow_cores(&apart, &three, QUIET)), [Cause::Spread]);
}

#[test]
fn threads_of_the_probe_may_slow_its_core() {
    let mut samples = processes(&WIDE, &[], &quiet());
    for (at, sample) in samples.iter_mut().enumerate() {
        sample.reference_ns = vec![if at < 5 { 9_000.0 } else { 17_100.0 }];
        sample.frequency_ns = vec![8_000.0];
    }
    let summary = summarise(&samples).expect("values");
    let of = |not_selected, samples: &[Sample]| {
        let summary = Summary { not_selected, ..summary.clone() };
        causes(&judge(samples, &summary, QUIET, Some(&states(Stratum::ToItself))))
    };
    assert_eq!(of(None, &samples), [Cause::SlowCore]);
    assert_eq!(of(Some(NotSelected::Device), &samples), [Cause::FewProcesses], "it waits");
    assert_eq!(of(Some(NotSelected::SecondCpu), &samples), [Cause::FewProcesses]);
    samples[0].frequency_ns.clear();
    assert_eq!(of(None, &samples), [Cause::FewProcesses], "a process without loops");
}
