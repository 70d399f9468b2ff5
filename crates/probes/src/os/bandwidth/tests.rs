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
            let is_pipe = probe.channel == StreamChannel::Pipe;
            let expected = if is_pipe && !two { &["turns", "CPUs"][..] } else { &["CPUs"] };
            assert_eq!(check_names(&sample), expected, "{}", case.params);
            let full = (ITERATION_BYTES / PIPE_BYTES) as u64;
            let per_round = if is_pipe { 3 * sample.batch / 2 * full - 2 } else { 0 };
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
        let unavailable = matches!(&sample, Err(SamplerFault::Unavailable(..)));
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
