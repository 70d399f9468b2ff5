//! Causes by the speed of cores, devices and memory.

use fathom_record::DeviceTime;

use super::*;

#[test]
fn device_time_explains_values_that_follow_it() {
    // 100 requests of each process, and 10 ms of other work.
    let by_device = |values: [f64; 5], ms: [u64; 5], better| {
        let mut samples = processes(&values, &[], &quiet());
        for (sample, ms) in samples.iter_mut().zip(ms) {
            let ns = ms * 1_000_000;
            sample.disturbance.wall_ns = ns + 10_000_000;
            sample.disturbance.cpu_ns = sample.disturbance.wall_ns;
            sample.disturbance.devices = Some(DeviceTime { requests: 100, ns });
        }
        verdict(&samples, Expectation { better, ..QUIET })
    };
    let ms = [40, 60, 100, 150, 160];
    let slower = [50.0, 70.0, 110.0, 160.0, 170.0];
    let text = "block devices took 400.0 µs to 1.600 ms a request";
    let found = by_device(slower, ms, Better::Lower);
    assert_eq!(cause(&found), (Cause::SlowDevice, text));
    let rates = slower.map(|ns| 1e6 / ns);
    assert_eq!(cause(&by_device(rates, ms, Better::Higher)), (Cause::SlowDevice, text));
    let apart = [110.0, 70.0, 160.0, 50.0, 170.0];
    assert_eq!(causes(&by_device(apart, ms, Better::Lower)), [Cause::Spread]);
    // Milliseconds of which a count of milliseconds says little.
    let few = by_device(slower, [19, 60, 100, 150, 160], Better::Lower);
    assert_eq!(causes(&few), [Cause::Spread]);
    let mut idle = processes(&slower, &[], &quiet());
    idle[0].disturbance.devices = Some(DeviceTime { requests: 100, ns: 40_000_000 });
    assert_eq!(causes(&verdict(&idle, QUIET)), [Cause::Spread], "unknown in the others");
}

#[test]
fn memory_explains_values_that_follow_the_time_of_a_load() {
    let sensed = |values: [f64; 5], ns: [f64; 5], better| {
        let mut samples = processes(&values, &[], &quiet());
        samples.iter_mut().zip(ns).for_each(|(sample, ns)| sample.memory_ns = vec![ns, ns + 2.0]);
        verdict(&samples, Expectation { better, ..QUIET })
    };
    let slower = [100.0, 108.0, 112.0, 120.0, 125.0];
    let text = "other CPUs or guests used the memory: 151 to 181 ns a load";
    let ns = [150.0, 160.0, 155.0, 170.0, 180.0];
    let found = sensed(slower, ns, Better::Lower);
    assert_eq!(cause(&found), (Cause::SlowMemory, text), "one pair of ten in the other order");
    let found = sensed(slower.map(|ns| 1e9 / ns), ns, Better::Higher);
    assert_eq!(cause(&found), (Cause::SlowMemory, text));
    let apart = [160.0, 150.0, 155.0, 180.0, 170.0];
    assert_eq!(causes(&sensed(slower, apart, Better::Lower)), [Cause::FewProcesses]);
    assert_eq!(causes(&sensed(slower, ns, Better::Higher)), [Cause::FewProcesses]);
}

#[test]
fn slow_core_does_not_explain_better_processes() {
    let contended = Loop { sibling_ns: 17_100.0, ..FULL_SPEED };
    let rate = Expectation { better: Better::Higher, ..QUIET };
    assert_eq!(causes(&with_loops(contended, rate)), [Cause::Spread]);
}

#[test]
fn wide_interval_of_few_processes_names_how_many_would_do() {
    let of = |medians: &[f64]| verdict(&processes(medians, &[], &quiet()), QUIET);
    let even = [94.0, 98.0, 100.0, 102.0, 107.0];
    let text = "wide interval over 5 processes; about 6 would narrow it";
    assert_eq!(cause(&of(&even)), (Cause::FewProcesses, text));
    // In the middle they are as far apart as at the ends: no number of them is enough.
    assert_eq!(causes(&of(&[80.0, 81.0, 100.0, 119.0, 120.0])), [Cause::Spread]);
    assert_eq!(causes(&of(&[99.0, 99.5, 100.0, 100.5, 101.0])), []);
}

#[test]
fn rounds_that_agree_show_levels_of_processes() {
    let of = |levels: [f64; 5], spread: f64, rounds: i32| {
        let sample = |level: f64| {
            let values = (0..rounds).map(|at| level + spread * f64::from(at % 3)).collect();
            Sample { values, disturbance: quiet(), ..Sample::default() }
        };
        verdict(&levels.map(sample), QUIET)
    };
    let levels = [100.0, 118.0, 97.0, 109.0, 121.0];
    let text = "processes differ by 22 %, rounds within one by 1.8 %";
    assert_eq!(cause(&of(levels, 1.0, 12)), (Cause::LevelOfProcess, text));
    // The middle half of the rounds is 6 wide: 24 are 4 times that, not more.
    assert_eq!(causes(&of(levels, 3.0, 12)), [Cause::FewProcesses]);
    assert_eq!(causes(&of(levels, 1.0, 4)), [Cause::Spread], "too few rounds");
    let mut grid = summarise(&processes(&levels, &[], &quiet())).expect("values");
    grid.interval = Some(Interval { low: 64.0, high: 128.0, level: 0.9375, basis: Basis::Grid });
    let text = "at another place in each process";
    assert_eq!(cause(&judge(&[], &grid, QUIET, None)), (Cause::LevelOfProcess, text));
}
