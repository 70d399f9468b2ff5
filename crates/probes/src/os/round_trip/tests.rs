use super::*;
use crate::os::check_names;
use crate::smoke;

const ALL: [&RoundTrip; 4] = [&PIPE_RTT, &FIFO_RTT, &UNIX_RTT, &SEMAPHORE_RTT];

#[test]
fn every_link_switches_twice_a_round_trip() {
    for probe in ALL {
        for (case, sample) in smoke::run(probe) {
            // Some kernels have no System V semaphores.
            let Ok(sample) = sample else {
                assert_eq!(case.params.text("kind"), Some("sysv"));
                continue;
            };
            let (id, names) = (probe.about.id, ["context switches", "one CPU", "turns"]);
            assert_eq!(check_names(&sample), names, "{id}{}", case.params);
        }
    }
}

#[test]
fn unknown_link_kind_fails() {
    let mut sampler = smoke::sampler(1, 0);
    UNIX_RTT.visit(&[Case::usual(Params::one("kind", "carrier pigeon"))], &mut sampler).unwrap();
    let fault = sampler.finish().samples.remove(0).unwrap_err();
    assert!(matches!(&fault, Fault::Failed(text) if text.contains("pigeon")), "{fault}");
}
