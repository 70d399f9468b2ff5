use super::*;
use crate::os::check_names;
use crate::smoke;

#[test]
fn coarse_clock_makes_no_system_call() {
    let results = smoke::run(&ClockGettime);
    let sample = results[2].1.as_ref().expect("the coarse clock reads no counter");
    assert_eq!(check_names(sample), ["clock rate", "no system call"]);
}

#[test]
fn clock_that_enters_the_kernel_is_unavailable() {
    let clocks = [libc::CLOCK_MONOTONIC_COARSE, libc::CLOCK_PROCESS_CPUTIME_ID].map(Some);
    let samples = smoke::pinned(|cpu| {
        let mut sampler = smoke::sampler(clocks.len(), cpu);
        measure(&clocks, &mut sampler, &mut check_vdso);
        sampler.finish().samples
    });
    assert!(samples[0].is_ok());
    let Err(SamplerFault::Unavailable(reason, _)) = &samples[1] else { panic!("{:?}", samples[1]) };
    assert!(reason.contains("enters the kernel") && reason.contains("clock source"), "{reason}");
    assert!(smoke::has_no_children());
}

#[test]
fn system_call_after_the_rounds_is_found() {
    let mut checks = 0;
    let mut check = |_| {
        checks += 1;
        match checks {
            1 => Ok(()),
            _ => check_result(Some(SYSTEM_CALL), || None),
        }
    };
    let mut sampler = smoke::sampler(1, 0);
    measure(&[Some(libc::CLOCK_MONOTONIC)], &mut sampler, &mut check);
    let samples = sampler.finish().samples;
    assert!(matches!(&samples[0], Err(SamplerFault::Unavailable(..))), "{:?}", samples[0]);
    assert_eq!(checks, 2);
}

#[test]
fn each_check_result_has_its_fault() {
    let fault = |check| check_result(Some(check), || Some("hpet\n".to_owned()));
    assert_eq!(fault(NO_SYSTEM_CALL), Ok(()));
    let entered = fault(SYSTEM_CALL).unwrap_err().to_string();
    assert!(entered.ends_with("clock source hpet"), "{entered}");
    let no_filter = fault(NO_FILTER).unwrap_err();
    assert!(matches!(no_filter, SamplerFault::Unavailable(_, Some(Remedy::KernelWith { .. }))));
    assert!(matches!(fault(UNFILTERED), Err(SamplerFault::Failed(_))));
    assert!(matches!(check_result(None, || None), Err(SamplerFault::Failed(_))));
}

#[test]
fn clock_at_a_wrong_rate_fails_the_check() {
    let is_right = |elapsed_ns| is_as_fast(elapsed_ns, [19e6, 20e6], 1.0);
    assert!(is_right(19.5e6) && is_right(18.9e6) && is_right(20.1e6));
    assert!(!is_right(10e6) && !is_right(40e6) && !is_right(-1.0));
    assert!(is_as_fast(16e6, [19e6, 20e6], 4e6) && is_as_fast(0.0, [1e3, 2e3], 4e6), "coarse");
    assert!(!is_as_fast(-1.0, [1e3, 2e3], 4e6), "backwards");
    let reference = smoke::clock();
    let watch = VdsoWatch::begin(libc::CLOCK_MONOTONIC, &reference).unwrap();
    let (_, detail) = watch.end(&reference);
    assert!(watch.time_ns > 0 && detail.contains(" ms in "), "{detail}");
}

#[test]
fn failed_call_is_not_counted() {
    assert_eq!(repeat(libc::CLOCK_MONOTONIC, 100), 100);
    assert_eq!(repeat(99, 100), 0);
}
