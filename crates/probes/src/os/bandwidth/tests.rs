//! Tests of the two bandwidths.

use super::*;
use crate::smoke;

const PROBES: [&Bandwidth; 2] = [&PIPE_BANDWIDTH, &UNIX_BANDWIDTH];

#[test]
fn both_move_bytes_on_one_cpu_and_on_two_and_leave_nothing_behind() {
    for probe in PROBES {
        for (case, sample) in smoke::run(probe) {
            let two = case.params.integer("cpus") == Some(2);
            match sample {
                Ok(sample) => {
                    let names: Vec<&str> =
                        sample.checks.iter().map(|check| check.name.as_str()).collect();
                    let turns = !two && probe.carrier == Carrier::Pipe;
                    let expected = if turns { &["turns", "CPUs"][..] } else { &["CPUs"] };
                    assert_eq!(names, expected, "{}", case.params);
                    assert!(sample.values.iter().all(|rate| *rate > 0.0), "{:?}", sample.values);
                    // A socket holds several chunks, and is drained in bursts.
                    let timings = sample.histogram.map_or(0, |it| it.len());
                    let full = (ITERATION_BYTES / PIPE_BYTES) as u64;
                    let per_round = match probe.carrier {
                        Carrier::Pipe => 3 * sample.batch * full - 2,
                        Carrier::UnixSocket => 0,
                    };
                    let rounds = sample.values.len() as u64 + u64::from(sample.warmup_dropped);
                    assert_eq!(timings, per_round * rounds);
                }
                Err(fault) => assert!(two && affinity::allowed().len() < 2, "{fault}"),
            }
        }
    }
}

#[test]
fn only_on_two_cpus_the_worker_may_sleep_and_no_such_cases_share_a_visit() {
    for probe in PROBES {
        assert!(!probe.cases_share_visits());
        for case in probe.cases(&Host::default(), &Sizes::default()) {
            let sleeps = probe.expects(&case) == Counters::SLEEP;
            assert_eq!(sleeps, case.params.integer("cpus") == Some(2), "{}", case.params);
        }
    }
}

#[test]
fn without_another_cpu_the_other_cases_go_on() {
    let _alone = smoke::alone();
    let cases = PIPE_BANDWIDTH.cases(&Host::default(), &Sizes::default());
    let samples = smoke::pinned(|cpu| {
        let mut sampler = smoke::sampler_on(cases.len(), cpu, None);
        PIPE_BANDWIDTH.visit(&cases, &mut sampler).unwrap();
        sampler.finish().samples
    });
    for (case, sample) in cases.iter().zip(samples) {
        match case.params.integer("cpus") {
            Some(1) => assert!(sample.is_ok(), "{sample:?}"),
            _ => {
                let is = |text: &str| text.contains("one CPU only");
                assert!(
                    matches!(&sample, Err(Fault::Unavailable(text, _)) if is(text)),
                    "{sample:?}"
                );
            }
        }
    }
}

#[test]
fn a_worker_that_may_run_anywhere_fails_the_checks() {
    let _alone = smoke::alone();
    let allowed = affinity::allowed();
    if allowed.len() < 2 {
        return smoke::skipped("one CPU only, and nowhere else to run");
    }
    // Pinned to the other CPU than the one that the writer is given.
    affinity::pin(allowed[1]).unwrap();
    let mut sampler = smoke::sampler(1, allowed[0]);
    let case = PIPE_BANDWIDTH.cases(&Host::default(), &Sizes::default()).remove(0);
    PIPE_BANDWIDTH.visit(&[case], &mut sampler).unwrap();
    affinity::pin_to(&allowed).unwrap();
    let visit = sampler.finish();
    let checks = &visit.samples[0].as_ref().unwrap().checks;
    assert!(!checks.iter().find(|check| check.name == "CPUs").unwrap().passed, "{checks:?}");
}

/// 64 KiB in 10 µs on one CPU, switches of 1 µs, calls of 0.1 µs.
fn records() -> Vec<fathom_record::Record> {
    let rate = LARGE as f64 * 1e9 / 10_000.0;
    vec![
        smoke::record("os.syscall", &Params::one("call", "write1"), 100.0, 1.0),
        smoke::record("os.syscall", &Params::one("call", "read1"), 100.0, 1.0),
        smoke::record("os.switch.process", &Params::one("set_bytes", 0), 1_000.0, 10.0),
        smoke::record(PIPE.id, &params(LARGE, 1), rate, 0.01 * rate),
        smoke::record(UNIX.id, &params(LARGE, 1), rate, 0.01 * rate),
    ]
}

/// Microseconds that 64 KiB take at this rate.
fn us(rate: f64) -> f64 {
    (LARGE as f64 * 1e6 / rate * 1000.0).round() / 1000.0
}

#[test]
fn predictions_divide_64_kib_by_what_it_costs() {
    let records = records();
    let known = Inputs::new(&records);
    let predict = |probe: &Bandwidth, chunk, cpus| {
        let case = Case { params: params(chunk, cpus), cost_ns: 0.0 };
        probe.predict(&case, &Host::default(), &known)
    };
    let order = |probe, chunk, cpus| {
        let claim = predict(probe, chunk, cpus).unwrap();
        assert!(claim.is_ordinal() && claim.low.is_none() && !claim.inputs.is_empty());
        us(claim.high.unwrap())
    };
    assert_eq!(order(&PIPE_BANDWIDTH, LARGE, 1), 2.2);
    assert_eq!(order(&PIPE_BANDWIDTH, LARGE, 2), 8.0);
    assert_eq!(order(&UNIX_BANDWIDTH, LARGE, 1), 0.2);
    assert_eq!(order(&UNIX_BANDWIDTH, SMALL, 1), 13.0);
    let small = predict(&PIPE_BANDWIDTH, SMALL, 1).unwrap();
    assert_eq!(us(small.value.unwrap()), 13.0);
    assert_eq!(
        small.formula,
        "64 KiB ÷ (15 × os.syscall{call=write1} + 15 × os.syscall{call=read1} + \
         64 KiB ÷ os.pipe.bandwidth{chunk_bytes=65536,cpus=1})"
    );
    let none = |probe, chunk| predict(probe, chunk, 2).unwrap_err();
    assert_eq!(none(&UNIX_BANDWIDTH, LARGE), NoModel::TwoCopies);
    assert_eq!(none(&PIPE_BANDWIDTH, SMALL), NoModel::SchedulersChoice);
}

#[test]
fn switches_that_take_longer_than_the_whole_are_no_model() {
    let mut records = records();
    records[2] = smoke::record("os.switch.process", &Params::one("set_bytes", 0), 6_000.0, 10.0);
    let case = Case { params: params(LARGE, 2), cost_ns: 0.0 };
    let answer = PIPE_BANDWIDTH.predict(&case, &Host::default(), &Inputs::new(&records));
    assert!(matches!(answer, Err(NoModel::NoTime { .. })), "{answer:?}");
}
