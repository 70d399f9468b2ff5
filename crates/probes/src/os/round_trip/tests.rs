use super::*;
use crate::os::check_names;
use crate::smoke;

const ALL: [&RoundTrip; 4] = [&PIPE_RTT, &FIFO_RTT, &UNIX_RTT, &SEMAPHORE_RTT];

#[test]
fn every_link_switches_twice_a_round_trip() {
    for probe in ALL {
        for (case, sample) in smoke::take(probe) {
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
fn predictions_combine_switches_and_calls() {
    let call = |name, ns| smoke::record("os.syscall", &Params::one("call", name), ns, 1.0);
    let records = [
        call("getppid", 100.0),
        call("getppid_called", 150.0),
        call("read1", 160.0),
        call("write1", 140.0),
        smoke::record("os.switch.process", &Params::one("set_bytes", 0), 1500.0, 10.0),
        smoke::record("os.pipe.rtt", &bare_pipe(), 4000.0, 10.0),
    ];
    let predicted = |probe: &RoundTrip| -> Vec<(Option<f64>, Option<f64>)> {
        let cases = probe.cases(&Host::default(), &Sizes::default());
        let known = Known::new(&records);
        let predict = |case| probe.predict(case, &Host::default(), &known).unwrap();
        cases.iter().map(predict).map(|prediction| (prediction.value, prediction.low)).collect()
    };
    let value = |value: f64, share: f64| (Some(value), Some(value * share));
    assert_eq!(predicted(&PIPE_RTT), [(None, Some(3600.0)), value(4200.0, 0.85)]);
    assert_eq!(predicted(&SEMAPHORE_RTT), [value(3560.0, 0.75), value(3760.0, 0.75)]);
    assert_eq!(predicted(&FIFO_RTT), [value(4000.0, 0.85)]);
    assert_eq!(predicted(&UNIX_RTT), [(None, Some(4000.0)); 2]);
}

#[test]
fn unknown_link_kind_fails() {
    let mut sampler = smoke::sampler(1, 0);
    UNIX_RTT.visit(&[Case::usual(Params::one("kind", "carrier pigeon"))], &mut sampler).unwrap();
    let fault = sampler.finish().samples.remove(0).unwrap_err();
    assert!(matches!(&fault, Fault::Failed(text) if text.contains("pigeon")), "{fault}");
}
