//! The cases, the models on made-up results, and a visit on this machine and on one CPU.

use super::*;
use crate::smoke;

fn cases() -> Vec<Case> {
    Loaded.cases(&Host::default(), &Sizes { smoke: true, ..Sizes::default() })
}

#[test]
fn a_visit_counts_what_was_read_beside_the_chase() {
    let alone = cpu_selection::core_count(&host::read()) < 2;
    for (case, sample) in smoke::take(&Loaded) {
        let kind = Kind::of(&case.params).unwrap();
        match sample {
            Ok(sample) => {
                assert!(sample.values.iter().all(|ns| *ns > 0.1), "{:?}", sample.values);
                let names: Vec<&str> = sample.checks.iter().map(|it| it.name.as_str()).collect();
                match kind.percent {
                    0 => assert_eq!(names, ["load", "pages"]),
                    _ => assert_eq!(names, ["load", "bytes read", "pages"]),
                }
                let detail = &sample.checks[0].detail;
                assert_eq!(detail.contains("GB/s read beside it"), kind.percent > 0, "{detail}");
            }
            Err(fault) => assert!(alone && kind.percent > 0, "{fault}"),
        }
    }
}

#[test]
fn on_one_cpu_there_is_nobody_to_read_beside() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        let cases = cases();
        let mut sampler = smoke::sampler_on(cases.len(), cpu, None);
        Loaded.visit(&cases, &mut sampler).unwrap();
        let samples = sampler.finish().samples;
        assert!(samples[0].is_ok(), "load=0 needs one core");
        for sample in &samples[1..] {
            let Err(Fault::Unavailable(text, remedy)) = sample else { panic!("{sample:?}") };
            assert!(text.contains("one core only"), "{text}");
            assert_eq!(*remedy, Some(Remedy::SecondCpu));
        }
    });
}

#[test]
fn a_case_is_understood_as_it_was_named() {
    for case in cases() {
        assert_eq!(Kind::of(&case.params).unwrap().params(), case.params);
    }
    let wrong = Params::one("load", 101).and("set_bytes", 4096).and("page", "4K");
    assert_eq!(Kind::of(&wrong), None);
}

#[test]
fn no_load_is_the_latency_of_the_set_and_any_load_at_least_that() {
    let of = |percent| Kind { page: Page::Huge, set_bytes: 128 << 20, percent };
    let step = of(0).step().params();
    let records = [
        smoke::record("memory.latency", &step, 100.0, 1.0),
        smoke::record(ABOUT.id, &of(0).params(), 110.0, 1.0),
    ];
    let predict = |percent, records: &[_]| {
        let case = Case::usual(of(percent).params());
        Loaded.predict(&case, &Host::default(), &Known::new(records))
    };
    let none = predict(0, &records).unwrap();
    assert_eq!(none.value, Some(100.0));
    let [low, high] = [none.low.unwrap(), none.high.unwrap()];
    assert!((low - 85.0).abs() < 1e-9 && (high - 115.0).abs() < 1e-9, "{low} {high}");
    for percent in [25, 100] {
        let claim = predict(percent, &records).unwrap();
        assert_eq!((claim.value, claim.low, claim.high), (None, Some(110.0), None));
    }
    let metric = format!("memory.latency{step}");
    assert_eq!(predict(0, &[]), Err(NoModel::MissingInput { metric }));
    assert!(predict(25, &records[..1]).is_err(), "its own earlier case is missing");
}
