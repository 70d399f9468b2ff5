//! Verdicts on checks that failed.

use super::*;

#[test]
fn failed_check_is_invalid_despite_other_causes() {
    let mut samples = narrow(&stolen());
    let detail = "9 of 10".to_owned();
    samples[4].checks = vec![Check { name: "switches".to_owned(), passed: false, detail }];
    let verdict = verdict(&samples, QUIET);
    assert_eq!((verdict.state, causes(&verdict)), (State::Invalid, vec![Cause::WrongWork]));
    assert!(verdict.reasons[0].text.contains("9 of 10"));
}

#[test]
fn missed_condition_is_no_wrong_work() {
    let mut samples = narrow(&quiet());
    let failed = |name: &str| Check { name: name.into(), passed: false, detail: "at 45 %".into() };
    samples[1].checks = vec![failed("asleep")];
    samples[1].missed = Some("asleep: at 45 %".to_owned());
    let of = |samples: &[Sample]| {
        let Verdict { state, reasons } = verdict(samples, QUIET);
        (state, reasons.into_iter().map(|it| (it.cause, it.text)).collect::<Vec<_>>())
    };
    let missed = (Cause::NotAsAsked, "asleep: at 45 %".to_owned());
    assert_eq!(of(&samples), (State::Invalid, vec![missed]));
    samples[3].checks = vec![failed("turns")];
    let wrong = (Cause::WrongWork, "turns: at 45 %".to_owned());
    assert_eq!(of(&samples), (State::Invalid, vec![wrong]));
}
