use std::collections::BTreeSet;

use fathom_record::Sample;

use super::*;
use crate::smoke;

fn all() -> Vec<Case> {
    TcpRtt.cases(&Host::default(), &Sizes::default())
}

#[test]
fn both_ends_measure_and_agree() {
    let mut measured = 0;
    for (case, sample) in smoke::run(&TcpRtt) {
        let Ok(sample) = sample else { continue };
        measured += 1;
        let names: BTreeSet<&str> = sample.checks_of_both().map(|it| it.name.as_str()).collect();
        let trip = Trip::of(&case.params).unwrap();
        let slept = if trip.busy { "awake" } else { "asleep when woken" };
        assert_eq!(names, ["CPU", "round trips", slept, "tcp congestion"].into());
        let Sample { cpu, far, histogram, .. } = &sample;
        let far = far.as_ref().unwrap();
        assert_eq!(far.cpu == *cpu, trip.cpus == 1, "{}", case.params);
        assert_eq!(far.reference_ns.len(), 8);
        assert!(far.disturbance.cpu_ns > 0 && far.disturbance.wall_ns > 0);
        assert!(!histogram.as_ref().unwrap().is_empty());
    }
    assert!(measured >= 2, "a loopback interface");
}

#[test]
fn one_cpu_or_unknown_host_is_unavailable() {
    let _alone = smoke::alone();
    let fault = |case: &Case| {
        let mut sampler = smoke::sampler_on(1, affinity::allowed()[0], None);
        TcpRtt.visit(std::slice::from_ref(case), &mut sampler).unwrap();
        sampler.finish().samples.remove(0).unwrap_err()
    };
    let cases = all();
    assert!(matches!(fault(&cases[0]), Fault::Unavailable(text, _) if text.contains("one CPU")));
    let remote = TcpRtt.remote(&cases[0], "gone").unwrap();
    assert!(matches!(fault(&remote), Fault::Unavailable(text, _) if text.contains("named gone")));
    assert!(smoke::has_no_children());
}

#[test]
fn only_two_cpus_have_a_remote_case() {
    let remote: Vec<String> = all()
        .iter()
        .filter_map(|case| TcpRtt.remote(case, "bench-4"))
        .map(|case| case.params.to_string())
        .collect();
    assert_eq!(remote.len(), 4);
    assert_eq!(remote[0], "{bytes=1,cpus=2,mode=busy,to=bench-4}");
}

#[test]
fn models_use_declared_needs_only() {
    let params = |name, value| Params::one(name, value);
    let mut records = vec![
        smoke::record("os.syscall", &getppid(), 50.0, 1.0),
        smoke::record("os.wake.cross_cpu", &params("via", "futex"), 5_000.0, 10.0),
        smoke::record("os.unix.rtt", &params("kind", "stream"), 3_000.0, 10.0),
    ];
    assert!(records.iter().all(|record| ABOUT.needs.contains(&record.metric.as_str())));
    let mut found = Vec::new();
    for case in all() {
        let known = Inputs::new(&records);
        let prediction = TcpRtt.predict(&case, &Host::default(), &known).expect("a model");
        found.push((prediction.value, prediction.low));
        records.push(smoke::record(ABOUT.id, &case.params, 10_000.0, 10.0));
    }
    let expected = [
        (None, Some(200.0)),
        (None, Some(3_000.0)),
        (Some(20_000.0), Some(14_000.0)),
        (Some(10_000.0), Some(8_500.0)),
        (Some(10_000.0), Some(8_500.0)),
        (Some(10_000.0), Some(8_500.0)),
    ];
    assert_eq!(found, expected);
}
