//! Selection of undisturbed visits, independent of their values (METHOD 23a and 23b).

use fathom_analysis::clean::{Conditions, Loop, reference, select};
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

fn chosen(samples: &[Sample], reference: &Loop, wanted: usize) -> String {
    let conditions: Vec<Conditions> = samples.iter().map(Conditions::of).collect();
    format!("{:?}", select(&conditions, Some(reference), wanted))
}

fn strata(samples: &[Sample], wanted: u32) -> Strata {
    Strata::of(samples, Ok(Stratum::FullSpeed), (wanted, wanted), samples.len() as u32, Some(&FULL))
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
        samples in visits(), wanted in 1..8_u32, noise in vec(-1e9..1e9_f64, 24 * 24),
    ) {
        // Values that are their own index, and random values at the same indices.
        let with = |value: &dyn Fn(usize) -> f64| {
            let mut samples = samples.clone();
            let values = samples.iter_mut().flat_map(|sample| &mut sample.values);
            values.enumerate().for_each(|(at, it)| *it = value(at));
            samples
        };
        let (places, others) = (with(&|at| at as f64), with(&|at| noise[at]));
        let wanted_visits = wanted as usize;
        prop_assert_eq!(
            chosen(&places, &FULL, wanted_visits),
            chosen(&others, &FULL, wanted_visits)
        );
        let (places, others) = (strata(&places, wanted), strata(&others, wanted));
        prop_assert_eq!(places.headline().len(), others.headline().len());
        for (place, other) in places.headline().iter().zip(others.headline()) {
            let expected: Vec<f64> = place.values.iter().map(|at| noise[*at as usize]).collect();
            prop_assert_eq!((place.process, &expected), (other.process, &other.values));
        }
    }

    #[test]
    fn selection_ignores_the_frequency(
        samples in visits(), wanted in 1..8_usize, times in 0.2..5.0_f64,
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
        prop_assert_eq!(chosen(&samples, &FULL, wanted), chosen(&slower, &full, wanted));
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
    fn as_found_uses_the_first_visits(
        samples in visits(), order in vec(any::<u64>(), 24), wanted in 1..24_u32,
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
        let found = strata(&shuffled, wanted).summarise().and_then(|it| it.as_found);
        let first = (0..shuffled.len().min(wanted as usize)).map(|at| at as f64);
        prop_assert_eq!(found.expect("values").process_medians, first.collect::<Vec<f64>>());
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
        strata(&samples, 3).summarise().expect("values").not_selected
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
    let summary = strata(&partly, 3).summarise().expect("values");
    assert_eq!(summary.not_selected, Some(NotSelected::TooFewClean), "slow from round 8 on");
}

#[test]
fn full_speed_uses_clean_rounds_only() {
    let mut samples: Vec<Sample> = (0..5).map(|process| slowed(process, 1.0, 1.0)).collect();
    // A busy sibling in five rounds of twelve, and in four of another visit.
    samples[0].reference_ns[..5].fill(1.9 * FULL.sibling_ns);
    samples[1].reference_ns[..4].fill(1.9 * FULL.sibling_ns);
    samples[1].values = (0..2 * ROUNDS).map(|at| (at / 2) as f64).collect();
    samples[1].values_per_round = 2;
    samples[2].disturbed = vec![3];
    samples[2].reference_ns[ROUNDS] = 1.9 * FULL.sibling_ns;
    samples[2].values[3] = 9.0;
    let strata = strata(&samples, 3);
    let kept: Vec<usize> = strata.headline().iter().map(|sample| sample.values.len()).collect();
    assert_eq!(kept, [16, 10, 12], "the visit with seven clean rounds is not clean");
    let summary = strata.summarise().expect("values");
    let (full, found) = (summary.full_speed.expect("three"), summary.as_found.expect("visits"));
    assert_eq!(summary.stratum, Stratum::FullSpeed);
    assert_eq!((full.process_medians, full.visits, full.of), (vec![7.5, 1.0, 1.0], 3, 5));
    assert_eq!((found.process_medians, found.visits, found.of), (vec![1.0, 5.5, 1.0], 3, 3));
    assert_eq!(full.process_loops, [9_000.0; 3]);
}

#[test]
fn nothing_is_selected_without_a_reference() {
    let samples: Vec<Sample> = (0..3).map(|process| slowed(process, 1.0, 1.0)).collect();
    let of = |stratum, reference| {
        let strata = Strata::of(&samples, stratum, (3, 3), 3, reference);
        let summary = strata.summarise().expect("values");
        (summary.stratum, summary.not_selected)
    };
    let none = (Stratum::AsFound, Some(NotSelected::NoReference));
    assert_eq!(of(Ok(Stratum::FullSpeed), None), none);
    let device = (Stratum::AsFound, Some(NotSelected::Device));
    assert_eq!(of(Err(NotSelected::Device), Some(&FULL)), device);
    let core = (Stratum::CoreAtFullSpeed, None);
    assert_eq!(of(Ok(Stratum::CoreAtFullSpeed), Some(&FULL)), core);
}

#[test]
fn visits_that_waited_are_not_as_found() {
    // Three unfiltered, one of them clean; then three that waited for full speed.
    let visit = |process: u32| Sample {
        waited: process >= 3,
        ..slowed(process, 1.0, if process == 0 || process >= 3 { 1.0 } else { 1.5 })
    };
    let samples: Vec<Sample> = (0..6).map(visit).collect();
    let of = |wanted: (u32, u32)| {
        let strata = Strata::of(&samples, Ok(Stratum::FullSpeed), wanted, 6, Some(&FULL));
        let summary = strata.summarise().unwrap();
        let visits = |estimate: Option<fathom_record::Estimate>| estimate.map(|it| it.visits);
        (visits(summary.full_speed), visits(summary.as_found))
    };
    assert_eq!(of((3, 3)), (Some(3), Some(3)));
    // Extended to six, with no more clean ones: the minimum of the effort applies.
    assert_eq!(of((6, 3)), (Some(3), Some(3)));
    assert_eq!(of((6, 6)), (None, Some(3)));
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
    strata(&[sample], 1).headline()[0].values.clone()
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
