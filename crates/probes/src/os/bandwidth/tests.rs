use super::*;
use crate::os::check_names;
use crate::smoke;

const PROBES: [&Bandwidth; 2] = [&PIPE_BANDWIDTH, &UNIX_BANDWIDTH];

#[test]
fn both_channels_stream_on_one_and_two_cpus() {
    for probe in PROBES {
        for (case, sample) in smoke::run(probe) {
            let two = case.params.integer("cpus") == Some(2);
            assert_eq!(probe.expects(&case) == Counters::SLEEP, two, "{}", case.params);
            let sample = match sample {
                Ok(sample) => sample,
                Err(fault) => {
                    assert!(two && affinity::allowed().len() < 2, "{fault}");
                    continue;
                }
            };
            let is_pipe = probe.channel == Channel::Pipe;
            let expected = if is_pipe && !two { &["turns", "CPUs"][..] } else { &["CPUs"] };
            assert_eq!(check_names(&sample), expected, "{}", case.params);
            let full = (ITERATION_BYTES / PIPE_BYTES) as u64;
            let per_round = if is_pipe { 3 * sample.batch * full - 2 } else { 0 };
            let rounds = sample.values.len() as u64 + u64::from(sample.warmup_dropped);
            assert_eq!(sample.histogram.map_or(0, |it| it.len()), per_round * rounds);
        }
    }
}

#[test]
fn missing_second_cpu_affects_only_its_cases() {
    let cases = PIPE_BANDWIDTH.cases(&Host::default(), &Sizes::default());
    let samples = smoke::pinned(|cpu| {
        let mut sampler = smoke::sampler_on(cases.len(), cpu, None);
        PIPE_BANDWIDTH.visit(&cases, &mut sampler).unwrap();
        sampler.finish().samples
    });
    for (case, sample) in cases.iter().zip(samples) {
        let unavailable = matches!(&sample, Err(Fault::Unavailable(..)));
        let one = case.params.integer("cpus") == Some(1);
        assert!(if one { sample.is_ok() } else { unavailable }, "{sample:?}");
    }
}

#[test]
fn worker_on_another_cpu_fails_the_check() {
    let allowed = affinity::allowed();
    if allowed.len() < 2 {
        return smoke::skipped("one CPU only");
    }
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
        smoke::record("os.unix.rtt", &Params::one("kind", "stream"), 6_000.0, 10.0),
        smoke::record(PIPE.id, &params(LARGE, 1), rate, 0.01 * rate),
        smoke::record(UNIX.id, &params(LARGE, 1), rate, 0.01 * rate),
    ]
}

/// Microseconds that 64 KiB take at this rate.
fn us(rate: f64) -> f64 {
    (LARGE as f64 * 1e6 / rate * 1000.0).round() / 1000.0
}

#[test]
fn predictions_divide_64_kib_by_its_cost() {
    let records = records();
    let known = Inputs::new(&records);
    let predict = |probe: &Bandwidth, chunk, cpus| {
        let case = Case { params: params(chunk, cpus), cost_ns: 0.0 };
        probe.predict(&case, &Host::default(), &known)
    };
    let bound = |probe, chunk, cpus| {
        let bound = predict(probe, chunk, cpus).unwrap();
        assert!(bound.is_ordinal() && bound.low.is_none() && !bound.inputs.is_empty());
        us(bound.high.unwrap())
    };
    assert_eq!(bound(&PIPE_BANDWIDTH, LARGE, 1), 2.2);
    assert_eq!(bound(&PIPE_BANDWIDTH, LARGE, 2), 8.0);
    assert_eq!(bound(&UNIX_BANDWIDTH, LARGE, 1), 2.0);
    assert_eq!(bound(&UNIX_BANDWIDTH, SMALL, 1), 13.0);
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
fn negative_remainder_has_no_model() {
    let mut records = records();
    records[2] = smoke::record("os.switch.process", &Params::one("set_bytes", 0), 6_000.0, 10.0);
    let case = Case { params: params(LARGE, 2), cost_ns: 0.0 };
    let prediction = PIPE_BANDWIDTH.predict(&case, &Host::default(), &Inputs::new(&records));
    assert!(matches!(prediction, Err(NoModel::NoTime { .. })), "{prediction:?}");
}
