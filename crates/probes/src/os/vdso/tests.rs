//! Clocks that are told without the kernel, and those that are not.

use super::*;
use crate::smoke;

#[test]
fn each_clock_is_told_without_a_system_call_or_says_that_it_is_not() {
    let taken = smoke::run(&ClockGettime);
    let sample = taken[2].1.as_ref().expect("the coarse clock reads no counter");
    let names: Vec<&str> = sample.checks.iter().map(|check| check.name.as_str()).collect();
    assert_eq!(names, ["the clock moved as ours did", "no system call"]);
}

#[test]
fn a_clock_that_enters_the_kernel_is_unavailable_and_spoils_no_other() {
    let _alone = smoke::alone();
    let clocks = [libc::CLOCK_MONOTONIC_COARSE, libc::CLOCK_PROCESS_CPUTIME_ID].map(Some);
    let samples = smoke::pinned(|cpu| {
        let mut sampler = smoke::sampler(clocks.len(), cpu);
        measure(&clocks, &mut sampler, &mut without_kernel);
        sampler.finish().samples
    });
    assert!(samples[0].is_ok());
    let Err(Fault::Unavailable(reason, _)) = &samples[1] else { panic!("{:?}", samples[1]) };
    assert!(reason.contains("enters the kernel") && reason.contains("clock source"), "{reason}");
    assert!(smoke::has_no_children());
}

#[test]
fn a_clock_that_enters_the_kernel_after_the_rounds_only_is_unavailable_too() {
    let mut looks = 0;
    let mut look = |_| {
        looks += 1;
        if looks == 1 { Ok(()) } else { verdict(Some(Finding::Entered as i32), || None) }
    };
    let mut sampler = smoke::sampler(1, 0);
    measure(&[Some(libc::CLOCK_MONOTONIC)], &mut sampler, &mut look);
    let samples = sampler.finish().samples;
    assert!(matches!(&samples[0], Err(Fault::Unavailable(..))), "{:?}", samples[0]);
    assert_eq!(looks, 2);
}

#[test]
fn what_the_child_found_is_told_apart() {
    let told = |finding| verdict(Some(finding as i32), || Some("hpet\n".to_owned()));
    assert_eq!(told(Finding::Without), Ok(()));
    let entered = told(Finding::Entered).unwrap_err().to_string();
    assert!(entered.ends_with("clock source hpet"), "{entered}");
    let unfiltered = told(Finding::NoFilter).unwrap_err();
    assert!(matches!(unfiltered, Fault::Unavailable(_, Some(Remedy::KernelWith { .. }))));
    assert!(matches!(told(Finding::Blind), Err(Fault::Failed(_))));
    assert!(matches!(verdict(None, || None), Err(Fault::Failed(_))));
}

#[test]
fn a_clock_that_stands_still_or_runs_at_another_rate_is_seen() {
    let sampler = smoke::sampler(1, 0);
    let ours = sampler.clock();
    let mut watch = Watch::begin(libc::CLOCK_MONOTONIC, ours).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(watch.end(ours).0, "{}", watch.end(ours).1);
    watch.time_ns += 10_000_000;
    assert!(!watch.end(ours).0, "half the rate");
    watch.time_ns -= 40_000_000;
    assert!(!watch.end(ours).0, "more than twice the rate");
}

#[test]
fn a_clock_that_is_not_told_is_not_counted() {
    assert_eq!(repeat(libc::CLOCK_MONOTONIC, 100), 100);
    assert_eq!(repeat(99, 100), 0);
}

fn genoa(source: &str) -> Host {
    let mut host = Host { clocksource: Some(source.to_owned()), ..Host::default() };
    host.cpu.architecture = "x86_64".to_owned();
    host.cpu.vendor = Some("AuthenticAMD".to_owned());
    (host.cpu.family, host.cpu.model_number) = (Some(25), Some(17));
    host
}

fn predicted(clock: &str, host: &Host) -> Result<Prediction, NoModel> {
    let clock = Params::one("clock", clock);
    let records = [
        smoke::record("cpu.frequency", &Params::none(), 3e9, 1e6),
        smoke::record("cpu.call", &Params::one("args", 0), 1.5, 0.1),
        smoke::record(ABOUT.id, &Params::one("clock", MONOTONIC), 30.0, 2.0),
    ];
    let case = Case::usual(clock);
    ClockGettime.predict(&case, host, &Inputs::new(&records))
}

#[test]
fn the_counter_the_conversion_and_two_calls_are_the_prediction() {
    let prediction = predicted(MONOTONIC, &genoa("tsc")).unwrap();
    assert_eq!((prediction.hardware, prediction.software), (Some(25.0), Some(3.0)));
    assert_eq!(prediction.inputs.len(), 4);
    assert!(prediction.source.contains("RDTSCP") && prediction.source.contains("IMUL"));
    assert_eq!(predicted("realtime", &genoa("tsc")).unwrap().value, Some(30.0));
    let coarse = predicted("monotonic_coarse", &genoa("tsc")).unwrap();
    assert_eq!((coarse.low, coarse.high), (None, Some(30.0)));
}

#[test]
fn another_clock_source_has_no_model() {
    let source = "kvm-clock".to_owned();
    let none = predicted(MONOTONIC, &genoa(&source));
    assert_eq!(none, Err(NoModel::ClockSourceNotPublished { source }));
}
