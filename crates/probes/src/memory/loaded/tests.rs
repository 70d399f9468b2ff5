//! The models on simulated results, and visits on this machine and on one CPU.

use super::*;
use crate::smoke;

fn cases() -> Vec<ProbeCase> {
    Loaded.cases(&Host::default(), &Sizes { smoke: true, ..Sizes::default() })
}

#[test]
fn visit_counts_the_bytes_of_the_load() {
    let has_one_core = cpu_selection::core_count(&host::read()) < 2;
    for (case, sample) in smoke::run(&Loaded) {
        let percent = LoadCase::from_params(&case.params).unwrap().percent;
        match sample {
            Ok(sample) => {
                let names: Vec<&str> = sample.checks.iter().map(|it| it.name.as_str()).collect();
                match percent {
                    0 => assert_eq!(names, ["load", "pages"]),
                    _ => assert_eq!(names, ["load", "bytes read", "pages"]),
                }
                let read = sample.checks.iter().find(|check| check.name == "bytes read");
                assert!(read.is_none_or(|check| check.detail.contains(" verified; ")), "{read:?}");
                let detail = &sample.checks[0].detail;
                assert_eq!(detail.contains("GB/s read"), percent > 0, "{detail}");
            }
            Err(fault) => assert!(has_one_core && percent > 0, "{fault}"),
        }
    }
}

#[test]
fn loads_above_0_are_unavailable_on_one_cpu() {
    smoke::pinned(|cpu| {
        let cases = cases();
        let mut sampler = smoke::sampler_on(cases.len(), cpu, None);
        Loaded.visit(&cases, &mut sampler).unwrap();
        let samples = sampler.finish().samples;
        assert!(samples[0].is_ok(), "load=0 needs one core");
        for sample in &samples[1..] {
            let Err(SamplerFault::Unavailable(text, remedy)) = sample else { panic!("{sample:?}") };
            assert!(text.contains("no second core"), "{text}");
            assert_eq!(*remedy, Some(Remedy::SecondCpu));
        }
    });
}
