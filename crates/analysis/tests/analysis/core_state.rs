//! The states of the core, and the visits that count by them, independent of their values (METHOD
//! 23a and 23b).

use fathom_analysis::core_state::{CoreStateConditions, CoreStates, Loop, reference};
use fathom_analysis::strata::Strata;
use fathom_record::{NotSelected, Sample, Stratum};
use proptest::collection::vec;
use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const FULL: Loop = Loop { sibling_ns: 9_000.0, frequency_ns: 8_000.0 };
const ROUNDS: usize = 12;

/// The slowdown of both parts of the loop.
fn speed() -> impl Strategy<Value = (f64, f64)> {
    prop_oneof![
        8 => Just((1.0, 1.0)),
        2 => Just((1.01, 1.015)),
        1 => Just((1.9, 1.0)),
        1 => Just((1.2, 1.2)),
        1 => Just((0.9, 0.9)),
    ]
}

/// A visit with two values per round, disturbed values, and possibly a dropped first round.
fn visit() -> impl Strategy<Value = Sample> {
    let disturbed = vec(0..2 * ROUNDS as u32, 0..4);
    (vec(speed(), ROUNDS + 1), disturbed, prop_oneof![Just(0), Just(2)]).prop_map(
        |(speeds, disturbed, warmup_dropped)| Sample {
            values: vec![0.0; 2 * ROUNDS - warmup_dropped as usize],
            values_per_round: 2,
            warmup_dropped,
            disturbed,
            reference_ns: speeds.iter().map(|(part, _)| part * FULL.sibling_ns).collect(),
            frequency_ns: speeds.iter().map(|(_, part)| part * FULL.frequency_ns).collect(),
            ..Sample::default()
        },
    )
}

fn visits() -> impl Strategy<Value = Vec<Sample>> {
    vec(visit(), 1..24).prop_map(|mut samples| {
        (0..).zip(&mut samples).for_each(|(process, sample)| sample.process = process);
        samples
    })
}

/// A visit with these slowdowns of the loop before the first round and after it.
fn slowed(process: u32, before: f64, after: f64) -> Sample {
    let mut times = vec![after * FULL.sibling_ns; ROUNDS + 1];
    times[0] = before * FULL.sibling_ns;
    Sample {
        process,
        values: vec![1.0; ROUNDS],
        values_per_round: 1,
        reference_ns: times,
        frequency_ns: vec![FULL.frequency_ns; ROUNDS + 1],
        ..Sample::default()
    }
}

fn states(reported: Stratum, idle: Loop) -> CoreStates {
    CoreStates { idle, reported, visits: [0; 3] }
}

fn chosen(samples: &[Sample], states: &CoreStates) -> String {
    let conditions: Vec<CoreStateConditions> =
        samples.iter().map(CoreStateConditions::from_sample).collect();
    format!("{:?}", states.select(&conditions))
}

fn strata(samples: &[Sample]) -> Strata {
    Strata::new(samples, Ok(()), Some(&states(Stratum::ToItself, FULL)))
}

/// Loops with varying frequency, `clean` of them with an idle sibling.
fn bimodal(count: usize, clean: usize, slow: f64, seed: u64) -> Vec<Loop> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut uniform = || (random.next_u64() >> 12) as f64 / (1_u64 << 52) as f64;
    // Nearly normal, with a deviation of 1.
    let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
    let mut one = |times: f64| {
        let frequency_ns = FULL.frequency_ns * (1.0 + 0.025 * normal());
        let contention = FULL.sibling_ns / FULL.frequency_ns * times * (1.0 + 0.002 * normal());
        Loop { sibling_ns: contention * frequency_ns, frequency_ns }
    };
    (0..count).map(|at| one(if at < clean { 1.0 } else { slow })).collect()
}

fn ratio(of: &Loop) -> f64 {
    of.sibling_ns / of.frequency_ns / (FULL.sibling_ns / FULL.frequency_ns)
}

proptest! {
    #![proptest_config(crate::seeded(64))]

    #[test]
    fn values_never_change_the_choice(
        samples in visits(), at in 0..3_usize, noise in vec(-1e9..1e9_f64, 24 * 24),
    ) {
        // Values that are their own index, and random values at the same indices.
        let with = |value: &dyn Fn(usize) -> f64| {
            let mut samples = samples.clone();
            let values = samples.iter_mut().flat_map(|sample| &mut sample.values);
            values.enumerate().for_each(|(at, it)| *it = value(at));
            samples
        };
        let (places, others) = (with(&|at| at as f64), with(&|at| noise[at]));
        let states = states(Stratum::STATES[at], FULL);
        prop_assert_eq!(chosen(&places, &states), chosen(&others, &states));
        let [places, others] =
            [places, others].map(|samples| Strata::new(&samples, Ok(()), Some(&states)));
        prop_assert_eq!(places.headline().len(), others.headline().len());
        for (place, other) in places.headline().iter().zip(others.headline()) {
            let expected: Vec<f64> = place.values.iter().map(|at| noise[*at as usize]).collect();
            prop_assert_eq!((place.process, &expected), (other.process, &other.values));
        }
    }

    #[test]
    fn selection_ignores_the_frequency(
        samples in visits(), at in 0..3_usize, times in 0.2..5.0_f64,
    ) {
        let scaled = |sample: &Sample| {
            let scale = |ns: &Vec<f64>| ns.iter().map(|ns| times * ns).collect();
            Sample {
                reference_ns: scale(&sample.reference_ns),
                frequency_ns: scale(&sample.frequency_ns),
                ..sample.clone()
            }
        };
        let slower: Vec<Sample> = samples.iter().map(scaled).collect();
        let full = Loop {
            sibling_ns: times * FULL.sibling_ns,
            frequency_ns: times * FULL.frequency_ns,
        };
        let reported = Stratum::STATES[at];
        prop_assert_eq!(
            chosen(&samples, &states(reported, FULL)),
            chosen(&slower, &states(reported, full))
        );
    }

    #[test]
    fn reference_is_the_fast_mode(
        count in 50..400_usize, clean in 0.1..=0.9_f64, slow in 1.15..1.9_f64, seed: u64,
    ) {
        let clean = (clean * count as f64).ceil() as usize;
        let found = reference(&bimodal(count, clean, slow, seed)).expect("50 loops");
        prop_assert!((ratio(&found) - 1.0).abs() < 0.01, "{:?}", found);
        prop_assert!((found.frequency_ns / FULL.frequency_ns - 1.0).abs() < 0.03, "{:?}", found);
    }

    #[test]
    fn few_lucky_loops_are_no_reference(
        count in 50..400_usize, lucky in 0.0..0.09_f64, slow in 1.15..1.9_f64, seed: u64,
    ) {
        let lucky = (lucky * count as f64) as usize;
        let found = reference(&bimodal(count, lucky, slow, seed)).expect("50 loops");
        prop_assert!((ratio(&found) / slow - 1.0).abs() < 0.01, "{:?}", found);
    }

    #[test]
    fn as_found_uses_all_visits_in_order(
        samples in visits(), order in vec(any::<u64>(), 24),
    ) {
        let mut ordered: Vec<(u64, Sample)> = order.into_iter().zip(samples).collect();
        ordered.sort_by_key(|(at, _)| *at);
        let shuffled: Vec<Sample> = ordered
            .into_iter()
            .map(|(_, sample)| Sample {
                values: vec![f64::from(sample.process); sample.values.len()],
                ..sample
            })
            .collect();
        let found = strata(&shuffled).summarise().and_then(|it| it.as_found);
        let all = (0..shuffled.len()).map(|at| at as f64);
        prop_assert_eq!(found.expect("values").process_medians, all.collect::<Vec<f64>>());
    }
}

#[test]
fn fewer_than_fifty_loops_are_no_reference() {
    assert_eq!(reference(&[FULL; 49]), None);
    let found = reference(&[FULL; 50]).expect("50 loops");
    assert!((ratio(&found) - 1.0).abs() < 1e-12 && found.frequency_ns == FULL.frequency_ns);
}

#[test]
fn loop_slow_after_the_first_round_is_own_work() {
    let of = |visits: &[(f64, f64)]| {
        let visits = (0..).zip(visits);
        let samples: Vec<Sample> = visits.map(|(at, (a, b))| slowed(at, *a, *b)).collect();
        strata(&samples).summarise().expect("values").not_selected
    };
    let (own, others) = ((1.0, 1.6), (1.6, 1.6));
    assert_eq!(of(&[own; 3]), Some(NotSelected::SlowsItself));
    assert_eq!(of(&[own, own, others, others, own]), Some(NotSelected::SlowsItself));
    assert_eq!(of(&[others; 5]), Some(NotSelected::TooFewClean));
    assert_eq!(of(&[own, own, others]), Some(NotSelected::TooFewClean), "two may be chance");
    let mixed = [own, own, own, (1.0, 1.0)];
    assert_eq!(of(&mixed), Some(NotSelected::TooFewClean), "75 % are too few");
    assert_eq!(of(&[(1.0, 1.0); 3]), None);
    let mut partly: Vec<Sample> = (0..3).map(|process| slowed(process, 1.0, 1.6)).collect();
    for sample in &mut partly {
        sample.reference_ns[..8].fill(FULL.sibling_ns);
    }
    let summary = strata(&partly).summarise().expect("values");
    assert_eq!(summary.not_selected, Some(NotSelected::TooFewClean), "slow from round 8 on");
}

#[test]
fn rounds_beside_slow_loops_are_left_out_of_a_core_to_itself() {
    let mut samples: Vec<Sample> = (0..6).map(|process| slowed(process, 1.0, 1.0)).collect();
    // A busy sibling in five loops of thirteen, and in four of another visit.
    samples[0].reference_ns[..5].fill(1.9 * FULL.sibling_ns);
    samples[1].reference_ns[..4].fill(1.9 * FULL.sibling_ns);
    samples[1].values = (0..2 * ROUNDS).map(|at| (at / 2) as f64).collect();
    samples[1].values_per_round = 2;
    samples[2].disturbed = vec![3];
    samples[2].reference_ns[ROUNDS] = 1.9 * FULL.sibling_ns;
    samples[2].values[3] = 9.0;
    let strata = strata(&samples);
    let kept: Vec<usize> = strata.headline().iter().map(|sample| sample.values.len()).collect();
    assert_eq!(kept, [16, 10, 12, 12, 12], "a core to itself in 8 of 13 loops is not one");
    let summary = strata.summarise().expect("values");
    let (one, found) = (summary.in_state.expect("five"), summary.as_found.expect("visits"));
    assert_eq!(summary.stratum, Stratum::ToItself);
    assert_eq!(one.process_medians, [7.5, 1.0, 1.0, 1.0, 1.0]);
    assert_eq!((one.visits, one.of), (5, 6));
    assert_eq!(found.process_medians, [1.0, 5.5, 1.0, 1.0, 1.0, 1.0]);
    assert_eq!(one.process_loops, [9_000.0; 5]);
}

#[test]
fn nothing_is_selected_without_a_reference() {
    let samples: Vec<Sample> = (0..3).map(|process| slowed(process, 1.0, 1.0)).collect();
    let of = |selection, reported: Option<Stratum>| {
        let states = reported.map(|reported| states(reported, FULL));
        let strata = Strata::new(&samples, selection, states.as_ref());
        let summary = strata.summarise().expect("values");
        (summary.stratum, summary.not_selected)
    };
    let found = |why| (Stratum::AsFound, Some(why));
    let to_itself = Some(Stratum::ToItself);
    assert_eq!(of(Ok(()), None), found(NotSelected::NoReference));
    assert_eq!(of(Err(NotSelected::Device), to_itself), found(NotSelected::Device));
    assert_eq!(of(Ok(()), Some(Stratum::AsFound)), found(NotSelected::Continuum));
    assert_eq!(of(Ok(()), to_itself), (Stratum::ToItself, None));
}

#[test]
fn all_visits_in_the_state_count() {
    let samples = |to_itself: u32| -> Vec<Sample> {
        let slow = |process| if process < to_itself { 1.0 } else { 2.2 };
        (0..12)
            .map(|at| Sample {
                values: vec![f64::from(at); ROUNDS],
                ..slowed(at, slow(at), slow(at))
            })
            .collect()
    };
    let of = |to_itself, reported| {
        let states = states(reported, FULL);
        let strata = Strata::new(&samples(to_itself), Ok(()), Some(&states));
        let summary = strata.summarise().expect("values");
        assert_eq!(summary.as_found.expect("all").visits, 12);
        (summary.in_state.map(|it| (it.visits, it.of, it.median)), summary.not_selected)
    };
    assert_eq!(of(7, Stratum::ToItself), (Some((7, 12, 3.0)), None));
    assert_eq!(of(7, Stratum::Shared), (Some((5, 12, 9.0)), None));
    assert_eq!(of(12, Stratum::ToItself), (Some((12, 12, 5.5)), None));
    assert_eq!(of(8, Stratum::Shared), (None, Some(NotSelected::TooFewClean)), "four");
    assert_eq!(of(7, Stratum::SlowerClock), (None, Some(NotSelected::TooFewClean)));
}

#[test]
fn state_of_a_visit_is_that_of_two_loops_in_three() {
    let of = |fast: usize, (contention, clock): (f64, f64)| {
        let slow = Loop {
            sibling_ns: FULL.sibling_ns * contention * clock,
            frequency_ns: FULL.frequency_ns * clock,
        };
        let loops = [vec![FULL; fast], vec![slow; 12 - fast]].concat();
        states(Stratum::AsFound, FULL).stratum_of(&CoreStateConditions::with_loops(loops))
    };
    let (shared, slower, both) = ((2.2, 1.0), (1.0, 1.2), (2.2, 1.2));
    for slow in [shared, slower, both] {
        assert_eq!(of(8, slow), Some(Stratum::ToItself), "{slow:?}");
        assert_eq!(of(7, slow), Some(Stratum::Shared), "in part of the visit: {slow:?}");
    }
    assert_eq!(of(0, shared), Some(Stratum::Shared));
    assert_eq!(of(0, slower), Some(Stratum::SlowerClock));
    assert_eq!(of(0, both), Some(Stratum::Shared));
    assert_eq!(of(0, (0.9, 0.9)), Some(Stratum::ToItself), "faster than the reference");
    assert_eq!(
        states(Stratum::AsFound, FULL).stratum_of(&CoreStateConditions::default()),
        None,
        "without loops"
    );
}

/// A run by the contention and the clock of its visits, each of three loops of one cycle a branch.
fn run(visits: &[(f64, f64)], earlier: Option<Loop>) -> CoreStates {
    let one = |(contention, clock): &(f64, f64)| {
        let frequency_ns = 9_000.0 * clock;
        vec![Loop { sibling_ns: contention * frequency_ns, frequency_ns }; 3]
    };
    let loops: Vec<Vec<Loop>> = visits.iter().map(one).collect();
    let conditions: Vec<CoreStateConditions> =
        loops.iter().cloned().map(CoreStateConditions::with_loops).collect();
    CoreStates::new(&loops.concat(), &conditions, earlier).expect("loops")
}

/// So many of 100 visits on a core to itself, the others beside a sibling that varies.
fn mixed(to_itself: usize) -> Vec<(f64, f64)> {
    let one = |at: usize| if at < to_itself { 1.0 } else { 2.1 + 0.03 * (at % 10) as f64 };
    (0..100).map(|at| (one(at), 1.0)).collect()
}

#[test]
fn fastest_state_with_three_tenths_of_the_visits_is_reported() {
    for (to_itself, reported) in [
        (100, Stratum::ToItself),
        (95, Stratum::ToItself),
        (50, Stratum::ToItself),
        (46, Stratum::ToItself),
        (30, Stratum::ToItself),
        (29, Stratum::Shared),
        (5, Stratum::Shared),
        (0, Stratum::Shared),
    ] {
        let states = run(&mixed(to_itself), None);
        assert_eq!(states.reported, reported, "{to_itself} % to itself");
        assert_eq!(states.visits, [to_itself, 0, 100 - to_itself]);
        let share = if reported == Stratum::ToItself { to_itself } else { 100 - to_itself };
        assert!((states.share() - share as f64 / 100.0).abs() < 1e-12, "{to_itself}");
        assert!((states.idle.contention() - 1.0).abs() < 1e-9, "{to_itself}: {states:?}");
    }
    // No state has three tenths: the one that most visits had.
    let clock = |at: usize| if at < 25 { 1.0 } else { 1.2 };
    let slower: Vec<(f64, f64)> = (0..100).map(|at| (1.0, clock(at))).collect();
    assert_eq!(run(&slower, None).reported, Stratum::SlowerClock);
    assert_eq!(run(&slower, None).visits, [25, 75, 0]);
}

#[test]
fn continuum_is_one_state() {
    let even = |most: f64| (0..100).map(|at| (1.0 + most * f64::from(at) / 99.0, 1.0)).collect();
    let of = |visits: Vec<(f64, f64)>| {
        let states = run(&visits, None);
        (states.reported, states.share())
    };
    for most in [0.1, 0.15] {
        assert_eq!(of(even(most)), (Stratum::AsFound, 1.0), "{most}");
    }
    let clocks = (0..100).map(|at| (1.0, 1.0 + 0.2 * f64::from(at) / 99.0)).collect();
    assert_eq!(of(clocks).0, Stratum::AsFound, "of the clock");
    assert_eq!(of(even(0.03)).0, Stratum::ToItself, "within the tolerance");
    // Denser in the middle: the fastest cluster has many faster visits, so it is none.
    let triangle = |at: i32| 1.0 + 0.002 * f64::from((7 * at) % 50 + (3 * at) % 50);
    assert_eq!(of((0..100).map(|at| (triangle(at), 1.0)).collect()).0, Stratum::AsFound);
}

#[test]
fn loop_lengthened_by_an_interrupt_is_no_idle_core() {
    // A sibling that is always as busy, but for a few visits.
    let with = |few: (f64, f64)| {
        let visits: Vec<(f64, f64)> =
            (0..100).map(|at| if at < 4 { few } else { (2.2, 1.0) }).collect();
        run(&visits, None)
    };
    // The part of the frequency took 2.2 times as long, the other as long as ever.
    let interrupted = with((1.0, 2.2));
    assert!((interrupted.idle.contention() - 2.2).abs() < 1e-9, "{interrupted:?}");
    assert_eq!(interrupted.visits, [96, 4, 0], "the fastest of this run");
    let idle = with((1.0, 1.0));
    assert!((idle.idle.contention() - 1.0).abs() < 1e-9, "{idle:?}");
    assert_eq!((idle.reported, idle.visits), (Stratum::Shared, [4, 0, 96]));
}

#[test]
fn earlier_runs_know_the_idle_core() {
    let shared = vec![(2.2, 1.0); 100];
    let reported = |earlier: Option<(f64, f64)>| {
        let known = earlier.map(|(contention, clock)| Loop {
            sibling_ns: 9_000.0 * contention * clock,
            frequency_ns: 9_000.0 * clock,
        });
        let states = run(&shared, known);
        ((10.0 * states.idle.contention()).round(), states.reported)
    };
    assert_eq!(reported(None), (22.0, Stratum::ToItself), "the fastest of this run");
    assert_eq!(reported(Some((1.0, 1.0))), (10.0, Stratum::Shared));
    assert_eq!(reported(Some((1.0, 1.04))), (10.0, Stratum::Shared), "the clock wanders");
    assert_eq!(reported(Some((1.0, 1.3))), (22.0, Stratum::ToItself), "another clock");
    assert_eq!(reported(Some((2.2, 1.0))), (22.0, Stratum::ToItself), "no faster");
}

/// A visit of three rounds of two values, with all loops at full speed.
fn pairs(disturbed: Vec<u32>, warmup_dropped: u32) -> Sample {
    Sample {
        values: (0..6).map(f64::from).collect(),
        values_per_round: 2,
        warmup_dropped,
        disturbed,
        reference_ns: vec![FULL.sibling_ns; 4 + warmup_dropped as usize / 2],
        frequency_ns: vec![FULL.frequency_ns; 4 + warmup_dropped as usize / 2],
        ..Sample::default()
    }
}

/// The values of the clean rounds of the only visit.
fn clean_values(sample: Sample) -> Vec<f64> {
    strata(&[sample]).headline()[0].values.clone()
}

#[test]
fn disturbed_value_spoils_its_round_only() {
    for (disturbed, clean) in [
        (0, [2.0, 3.0, 4.0, 5.0]),
        (1, [2.0, 3.0, 4.0, 5.0]),
        (2, [0.0, 1.0, 4.0, 5.0]),
        (3, [0.0, 1.0, 4.0, 5.0]),
        (5, [0.0, 1.0, 2.0, 3.0]),
    ] {
        // With a dropped round, the indices of values stay the same.
        for dropped in [0, 2] {
            assert_eq!(clean_values(pairs(vec![disturbed], dropped)), clean, "{dropped}");
        }
    }
    assert_eq!(clean_values(pairs(vec![6, 99], 0)).len(), 6, "out of range");
    assert_eq!(clean_values(pairs(vec![0, 2], 0)).len(), 6, "one of three is too few: unfiltered");
}

#[test]
fn loops_beside_a_round_must_be_at_full_speed() {
    let with_slow = |at: usize, dropped| {
        let mut sample = pairs(Vec::new(), dropped);
        sample.reference_ns[at] *= 1.5;
        clean_values(sample)
    };
    assert_eq!(with_slow(0, 0), [2.0, 3.0, 4.0, 5.0]);
    assert_eq!(with_slow(3, 0), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(with_slow(1, 0).len(), 6, "two rounds are not clean: unfiltered");
    assert_eq!(with_slow(0, 2), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "of the dropped round");
    assert_eq!(with_slow(1, 2), [2.0, 3.0, 4.0, 5.0]);
    let mut short = pairs(Vec::new(), 0);
    short.reference_ns.pop();
    assert_eq!(clean_values(short), [0.0, 1.0, 2.0, 3.0], "a round without a loop after it");
}

#[test]
fn tolerances_of_a_loop_include_their_limits() {
    let at = |contention: f64, frequency: f64| {
        let reference = Loop { sibling_ns: 1.0, frequency_ns: 1.0 };
        let one = Loop { sibling_ns: contention * frequency, frequency_ns: frequency };
        let is = |yes: bool| u8::from(yes);
        [
            is(one.is_at(&reference)),
            is(one.is_as_fast_as(&reference)),
            is(one.has_idle_sibling(&reference)),
            is(one.is_at_frequency_of(&reference)),
        ]
    };
    assert_eq!(at(1.0, 1.0), [1, 1, 1, 1]);
    assert_eq!(at(1.019, 1.049), [1, 1, 1, 1]);
    assert_eq!(at(1.021, 1.0), [0, 0, 0, 1]);
    assert_eq!(at(0.979, 1.0), [0, 1, 0, 1]);
    assert_eq!(at(1.0, 1.051), [0, 0, 1, 0]);
    assert_eq!(at(1.0, 0.949), [0, 1, 1, 0]);
    assert_eq!(at(1.02, 1.0)[1], 1, "2 % are as fast");
    assert_eq!(at(1.0, 1.05)[1], 1, "and so are 5 % of the frequency");
}

#[test]
fn reference_is_the_median_of_the_densest_window() {
    // Evenly spaced by 0.1 %, denser from 1.05 on.
    let even = (0..60).map(|at| 8_000.0 * (1.0 + 0.001 * f64::from(at)));
    let dense = (0..300).map(|at| 8_400.0 + f64::from(at % 100));
    let loops: Vec<Loop> =
        even.chain(dense).map(|ns| Loop { sibling_ns: 1.125 * ns, frequency_ns: ns }).collect();
    let found = reference(&loops).expect("50 loops");
    assert!((8_440.0..8_455.0).contains(&found.frequency_ns), "{found:?}");
    assert!((found.sibling_ns / found.frequency_ns - 1.125).abs() < 1e-12, "{found:?}");
    // Of 60 loops a tenth is six.
    let fast = |count: usize| {
        let of = |at| if at < count { 0.5 * FULL.frequency_ns } else { FULL.frequency_ns };
        let one = |at| Loop { sibling_ns: 1.125 * of(at), frequency_ns: of(at) };
        reference(&(0..60).map(one).collect::<Vec<Loop>>()).expect("loops").frequency_ns
    };
    assert_eq!((fast(5), fast(6)), (8_000.0, 4_000.0));
    let mut broken = vec![FULL; 50];
    broken.push(Loop { sibling_ns: 0.0, frequency_ns: 0.0 });
    assert_eq!(reference(&broken), reference(&[FULL; 50]), "a loop without time");
    broken.remove(0);
    assert_eq!(reference(&broken), None);
}
