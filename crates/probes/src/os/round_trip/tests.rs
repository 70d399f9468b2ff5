//! Round trips through every kind of link, and what becomes of a dead end.

use super::*;
use crate::os::smoke;

const ALL: [&RoundTrip; 4] = [&PIPE_RTT, &FIFO_RTT, &UNIX_RTT, &SEMAPHORE_RTT];

#[test]
fn every_kind_switches_twice_a_round_trip_and_leaves_nothing_behind() {
    for probe in ALL {
        for (case, sample) in smoke::take(probe) {
            // Only System V semaphores are missing from some kernels.
            let Ok(sample) = sample else {
                assert_eq!(case.params.text("kind"), Some("sysv"));
                continue;
            };
            let names: Vec<&str> = sample.checks.iter().map(|check| check.name.as_str()).collect();
            let id = probe.about.id;
            assert_eq!(names, ["context switches", "one CPU", "turns"], "{id}{}", case.params);
            assert!(sample.values.iter().all(|ns| *ns > 0.0), "{:?}", sample.values);
        }
    }
}

#[test]
fn predictions_are_made_of_switches_and_calls() {
    let call = |name, ns| smoke::record("os.syscall", &Params::one("call", name), ns, 1.0);
    let records = [
        call("read1", 160.0),
        call("write1", 140.0),
        smoke::record("os.switch.process", &Params::one("set_bytes", 0), 1500.0, 10.0),
        smoke::record("os.pipe.rtt", &Params::none(), 4000.0, 10.0),
    ];
    let predict = |probe: &RoundTrip| {
        let case = probe.cases(&Host::default(), &Plan::default()).remove(0);
        probe.predict(&case, &Host::default(), &Known::new(&records)).unwrap()
    };
    assert_eq!(predict(&PIPE_RTT).value, Some(3600.0));
    assert_eq!(predict(&SEMAPHORE_RTT).value, Some(3560.0));
    assert_eq!(predict(&FIFO_RTT).value, Some(4000.0));
    let unix = predict(&UNIX_RTT);
    assert_eq!((unix.value, unix.low), (None, Some(4000.0)));
}

#[test]
fn an_unknown_kind_is_a_failure_and_no_other_link() {
    let mut sampler = smoke::sampler(1, 0);
    UNIX_RTT.visit(&[Case::usual(Params::one("kind", "carrier pigeon"))], &mut sampler).unwrap();
    let fault = sampler.finish().samples.remove(0).unwrap_err();
    assert!(matches!(&fault, Fault::Failed(text) if text.contains("pigeon")), "{fault}");
}
