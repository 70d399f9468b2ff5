//! The sampler with a fake clock: all results are exact.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::*;
use crate::clock::FakeClock;
use fathom_record::Disturbance;

/// Scripted counters.
#[derive(Default)]
struct SamplerScript {
    round: u32,
    /// The disturbed rounds.
    disturbed: Vec<u32>,
    /// Reference loops so far.
    loops: u32,
}

impl Observer for SamplerScript {
    fn begin_visit(&mut self) {}
    fn end_visit(&mut self) -> Disturbance {
        Disturbance { wall_ns: 7, ..Disturbance::default() }
    }
    fn begin_round(&mut self) {}
    fn end_round(&mut self) -> RoundMark {
        self.round += 1;
        RoundMark { disturbed: self.disturbed.contains(&(self.round - 1)), migrated: false }
    }
    fn reference_loop(&mut self, _: &Clock) -> LoopTime {
        self.loops += 1;
        let sibling_ns = f64::from(self.loops) + 0.4;
        LoopTime { at_ns: 5, sibling_ns, frequency_ns: 10.0 * sibling_ns }
    }
}

fn settings() -> Settings {
    Settings {
        rounds: 8,
        seed: 1,
        process: 2,
        other_cpu: None,
        cpu: 3,
        batch_floor_ns: 10_000.0,
        time_limit_ns: 1e9,
        trials: false,
        injected: InjectedDose::default(),
    }
}

fn sampler(fake: &Rc<FakeClock>, cases: usize, disturbed: &[u32]) -> Sampler {
    let script = SamplerScript { disturbed: disturbed.to_vec(), ..SamplerScript::default() };
    Sampler::new(Clock::fake(Rc::clone(fake)), settings(), cases, Box::new(script))
}

/// A kernel of `each_ns` per iteration and `entry_ns` per batch.
fn kernel(fake: &Rc<FakeClock>, each_ns: u64, entry_ns: u64) -> impl FnMut(u64) -> u64 + use<> {
    let fake = Rc::clone(fake);
    move |iterations| {
        fake.advance(entry_ns + each_ns * iterations);
        iterations
    }
}

fn only(visit: Visit) -> Sample {
    visit.samples.into_iter().next().expect("one case").expect("a sample")
}

/// The sample of one case whose reads of the clock take `read_ns`.
fn measured<'k>(
    read_ns: u64,
    disturbed: &[u32],
    work: impl FnOnce(Rc<FakeClock>) -> SamplerWork<'k>,
) -> Sample {
    let fake = Rc::new(FakeClock::new(read_ns));
    let mut sampler = sampler(&fake, 1, disturbed);
    sampler.run(vec![work(fake)]);
    only(sampler.finish())
}

#[test]
fn batch_overhead_is_subtracted() {
    let sample = measured(30, &[], |fake| SamplerWork::batched(0, kernel(&fake, 7, 0)));
    assert_eq!((sample.values, sample.overhead_ns), (vec![7.0; 7], 30.0));
    assert!(sample.batch as f64 * 7.0 >= 20_000.0, "{}", sample.batch);
    assert_eq!((sample.process, sample.cpu, sample.disturbance.wall_ns), (2, 3, 7));
}

#[test]
fn entry_is_subtracted_where_the_kernel_has_one() {
    let sample = measured(30, &[], |fake| SamplerWork::Batched {
        case: 0,
        kernel: Box::new(kernel(&fake, 7, 4_000)),
        twin: None,
        has_entry: true,
        per_iteration: 1.0,
        to_unit: |ns| ns,
        timings: None,
    });
    assert_eq!((sample.values, sample.overhead_ns), (vec![7.0; 7], 0.0));
}

/// What other cases displaced from the caches costs the first N iterations only.
#[test]
fn first_iterations_of_a_round_are_not_timed() {
    let sample = measured(0, &[], |fake| {
        let mut inner = kernel(&fake, 7, 0);
        let (mut calls, mut batch) = (0, 0);
        SamplerWork::batched(0, move |iterations| {
            calls = if iterations == 2 * batch { 0 } else { calls + 1 };
            batch = iterations;
            fake.advance(if calls == 1 { 3_000 } else { 0 });
            inner(iterations)
        })
    });
    assert_eq!(sample.values, vec![7.0; 7]);
}

#[test]
fn twin_is_subtracted_per_operation() {
    let sample = measured(0, &[], |fake| SamplerWork::Batched {
        case: 0,
        kernel: Box::new(kernel(&fake, 100, 0)),
        twin: Some(Box::new(kernel(&fake, 40, 0))),
        has_entry: false,
        per_iteration: 2.0,
        to_unit: |ns| 10.0 * ns,
        timings: None,
    });
    assert_eq!((sample.values, sample.twin_ns), (vec![300.0; 7], Some(20.0)));
}

#[test]
fn single_timings_exclude_the_warm_up() {
    let timings = &RefCell::new(Histogram::new());
    let sample = measured(0, &[], |fake| {
        let mut operations = kernel(&fake, 100, 0);
        let timed = move |iterations| {
            (0..iterations).for_each(|_| timings.borrow_mut().add(100.0));
            operations(iterations)
        };
        SamplerWork::batched(0, timed).timed(timings)
    });
    // Each of 8 rounds has N and 2N iterations.
    assert_eq!(2 * sample.histogram.unwrap().len(), 8 * 3 * sample.batch);
}

#[test]
fn wrong_iteration_count_gives_no_sample() {
    let fake = Rc::new(FakeClock::new(0));
    let mut sampler = sampler(&fake, 2, &[]);
    let clock = Rc::clone(&fake);
    let lazy = move |iterations: u64| {
        clock.advance(10 * iterations);
        iterations - u64::from(iterations > 64)
    };
    sampler.run(vec![SamplerWork::batched(0, lazy), SamplerWork::batched(1, kernel(&fake, 3, 0))]);
    let visit = sampler.finish();
    let Err(SamplerFault::WrongWork(text)) = &visit.samples[0] else { panic!("wrong work") };
    assert!(text.contains("127 of 128"), "{text}");
    assert!(visit.samples[1].is_ok(), "the other case continues");
}

#[test]
fn first_round_is_dropped_whatever_its_value() {
    let mut count = 0;
    let sample = measured(0, &[0, 4], |fake| {
        SamplerWork::single(vec![0], move |_, values| {
            // Ten operations of 20 µs are the warm-up.
            count += 1;
            fake.advance(20_000);
            values[0] = f64::from(count);
            Ok(())
        })
    });
    assert_eq!((sample.warmup_dropped, sample.values.len()), (1, 7));
    assert_eq!(sample.disturbed, vec![3], "round 4 is index 3 without the first round");
}

#[test]
fn time_limit_allows_three_rounds() {
    let sample = measured(0, &[], |fake| SamplerWork::batched(0, kernel(&fake, 2_000_000_000, 0)));
    assert_eq!(sample.values.len(), 3);
}

#[test]
fn short_operations_share_a_round() {
    let sample = measured(0, &[1], |fake| {
        SamplerWork::single(vec![0], move |_, values| {
            fake.advance(2_500);
            values[0] = 2_500.0;
            Ok(())
        })
    });
    assert_eq!((sample.warmup_dropped, sample.values.len()), (4, 7 * 4));
    assert_eq!(sample.disturbed, vec![0, 1, 2, 3], "the second round is the first kept");
}

#[test]
fn every_reference_loop_is_kept() {
    let sample = measured(0, &[4], |fake| SamplerWork::batched(0, kernel(&fake, 5, 0)));
    // Before, between and after eight rounds of one value each.
    let loops: Vec<f64> = (1..=9).map(f64::from).collect();
    assert_eq!(sample.reference_ns, loops);
    assert_eq!(sample.frequency_ns, (1..=9).map(|it| f64::from(10 * it + 4)).collect::<Vec<_>>());
    assert_eq!((sample.values_per_round, sample.warmup_dropped), (1, 1));
    assert_eq!((sample.values.len(), sample.disturbed), (7, vec![3]));
}

#[test]
fn operation_without_a_value_is_a_fault() {
    let fake = Rc::new(FakeClock::new(0));
    let mut sampler = sampler(&fake, 3, &[]);
    sampler.run(vec![
        SamplerWork::single(vec![0], |_, _| Ok(())),
        SamplerWork::single(vec![1], |_, _| {
            Err(SamplerFault::Unavailable("not here".to_owned(), None))
        }),
    ]);
    let visit = sampler.finish();
    assert!(
        matches!(&visit.samples[0], Err(SamplerFault::Failed(text)) if text.contains("not write"))
    );
    assert_eq!(visit.samples[1], Err(SamplerFault::Unavailable("not here".to_owned(), None)));
    assert!(
        matches!(&visit.samples[2], Err(SamplerFault::Failed(text)) if text.contains("no sample"))
    );
    assert_eq!(visit.loops, [], "no rounds");
}

#[test]
fn failed_check_stays_failed() {
    let fake = Rc::new(FakeClock::new(0));
    let mut sampler = sampler(&fake, 1, &[]);
    sampler.run(vec![SamplerWork::batched(0, kernel(&fake, 5, 0))]);
    sampler.check(0, "switches", true, "10 of 10");
    sampler.check(0, "switches", false, "9 of 10");
    sampler.check(0, "switches", true, "10 of 10");
    let checks = only(sampler.finish()).checks;
    assert_eq!((checks.len(), checks[0].passed), (1, false));
}

#[test]
fn order_of_cases_depends_on_the_seed() {
    let order = |seed| shuffled(6, &mut Xoshiro256PlusPlus::seed_from_u64(seed));
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
    let mut sorted = order(3);
    sorted.sort_unstable();
    assert_eq!(sorted, vec![0, 1, 2, 3, 4, 5]);
}

#[test]
fn kernel_warms_up_for_twenty_batches() {
    let done = Cell::new(0);
    let sample = measured(0, &[], |fake| {
        let done = &done;
        SamplerWork::batched(0, move |iterations| {
            fake.advance(10 * iterations);
            done.set(done.get() + iterations);
            iterations
        })
    });
    let of_rounds = 8 * 3 * sample.batch / 2;
    assert!(10 * (done.get() - of_rounds) >= 20 * 10_000, "{} iterations", done.get());
}
