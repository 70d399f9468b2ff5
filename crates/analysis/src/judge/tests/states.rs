//! When a case is noisy, and what the state of the core in all of the run explains.

use super::*;

/// A narrow and a wide interval, with no finding, a remark, a harmless counter and a shift.
#[test]
fn noisy_is_a_wide_interval_or_a_shift_by_a_counter() {
    let harmless = Disturbance { steal_ns: Some(100_000_000), ..quiet() };
    let shifting = [100.0, 100.0, 100.0, 106.0, 106.0, 106.0, 106.0];
    let drifting =
        |samples: &[Sample]| Summary { drift: Some(0.2), ..summarise(samples).expect("values") };
    for (half, state) in [(5.0, State::Valid), (5.1, State::Noisy)] {
        let medians = [100.0 - half, 100.0, 100.0, 100.0, 100.0 + half];
        let samples = processes(&medians, &[], &quiet());
        assert_eq!(verdict(&samples, QUIET).state, state, "± {half} %");
        assert_eq!(judge(&samples, &drifting(&samples), QUIET, None).state, state, "± {half} %");
        let counted = processes(&medians, &[1], &harmless);
        assert_eq!(verdict(&counted, QUIET).state, state, "± {half} %");
        for reported in [Stratum::ToItself, Stratum::Shared, Stratum::AsFound] {
            let summary = summarise(&samples).expect("values");
            let found = judge(&samples, &summary, QUIET, Some(&states(reported)));
            assert_eq!(found.state, state, "± {half} %, {reported:?}");
        }
    }
    let shifted = processes(&shifting, &[3, 4, 5, 6], &harmless);
    assert_eq!(verdict(&shifted, QUIET).state, State::Noisy);
}

#[test]
fn wide_interval_of_a_shared_core_is_said_of_the_run() {
    let samples = processes(&WIDE, &[], &quiet());
    let of = |reported, not_selected, expectation| {
        let summary = Summary { not_selected, ..summarise(&samples).expect("values") };
        let found = judge(&samples, &summary, expectation, Some(&states(reported)));
        assert_eq!(found.state, State::Noisy);
        causes(&found)
    };
    let device = Some(NotSelected::Device);
    for reported in [Stratum::Shared, Stratum::SlowerClock] {
        for not_selected in [None, Some(NotSelected::TooFewClean), Some(NotSelected::SecondCpu)] {
            assert_eq!(of(reported, not_selected, QUIET), [Cause::CoreShared], "{not_selected:?}");
        }
        assert_eq!(of(reported, device, QUIET), [Cause::FewProcesses], "it waits for a device");
        assert_eq!(of(reported, None, expecting(Counters::DEVICE)), [Cause::FewProcesses]);
    }
    for reported in [Stratum::ToItself, Stratum::AsFound] {
        assert_eq!(of(reported, None, QUIET), [Cause::FewProcesses]);
    }
    let stolen = processes(&WIDE, &[5, 6], &stolen());
    let summary = summarise(&stolen).expect("values");
    let found = judge(&stolen, &summary, QUIET, Some(&states(Stratum::Shared)));
    assert_eq!(causes(&found), [Cause::Steal], "another cause");
}

#[test]
fn worst_case_slowdown_is_bounded() {
    let mut record = Record::fixture("cpu.call", Unit::Nanoseconds);
    record.disturbance = stolen();
    assert_eq!(worst_case_slowdown(&record, Counters::NONE, None), 1.0, "no summary");
    let faster = Estimate { process_loops: vec![4_500.0], ..Estimate::default() };
    record.summary = Some(Summary { as_found: Some(faster), ..Summary::default() });
    let of = |record: &Record| {
        worst_case_slowdown(record, Counters::NONE, Some(&states(Stratum::ToItself)))
    };
    assert_eq!(of(&record), 2.0, "a faster core does not help");
    record.disturbance = Disturbance { steal_ns: Some(999_000_000), ..quiet() };
    assert_eq!(of(&record), 20.0);
    record.disturbance = Disturbance { run_queue_ns: Some(250_000_000), ..stolen() };
    assert_eq!(of(&record), 4.0);
}
