use super::*;
use crate::os::child::fork;
use crate::smoke;

const ALL: [&Multiplex; 3] = [&SELECT, &POLL, &EPOLL];

#[test]
fn each_call_finds_the_ready_descriptor() {
    for probe in ALL {
        let results = smoke::take(probe);
        assert_eq!(results.len(), SIZES.len());
        assert!(results[0].1.is_ok(), "{}: no sandbox forbids ten descriptors", probe.about.id);
    }
}

#[test]
fn wrong_count_or_descriptor_is_not_counted() {
    let _alone = smoke::alone();
    for probe in ALL {
        let (id, mut set) = (probe.about.id, probe.watch(10).unwrap());
        assert_eq!(set.repeat(100), 100, "{id}");
        set.expected = 2;
        assert_eq!(set.repeat(100), 0, "{id}");
        set.expected = 1;
        let make_ready = |files: &[OwnedFd], number: usize, ready: bool| {
            match ready {
                true => rustix::io::write(&files[number], &1_u64.to_ne_bytes()),
                false => rustix::io::read(&files[number], &mut [0; 8]),
            }
            .unwrap();
        };
        let changes = [(9, false, 0), (3, true, 0), (9, true, 0), (3, false, 1)];
        for (number, ready, counted) in changes {
            make_ready(&set.files, number, ready);
            assert_eq!(set.repeat(1), counted, "{id}: descriptor {number} ready: {ready}");
        }
    }
}

#[test]
fn low_descriptor_limit_is_unavailable() {
    let _alone = smoke::alone();
    let refused = || {
        let rlimit = Rlimit { current: Some(20), maximum: Some(40) };
        setrlimit(Resource::Nofile, rlimit).unwrap();
        raise_limit(500);
        let raised = getrlimit(Resource::Nofile).current == Some(40);
        match POLL.watch(500).err() {
            Some(Fault::Unavailable(_, Some(Remedy::RaiseLimit { .. }))) if raised => 7,
            _ => 8,
        }
    };
    // SAFETY: glibc's fork keeps the heap usable in the child.
    let child = unsafe { fork(refused) }.unwrap();
    assert_eq!(child.wait_for(7), Ok(()));
}

#[test]
fn visit_raises_the_soft_limit() {
    let _alone = smoke::alone();
    let visit = || {
        setrlimit(Resource::Nofile, Rlimit { current: Some(80), maximum: Some(1000) }).unwrap();
        let mut sampler = smoke::sampler(1, 0);
        let results = POLL.visit(&[Case::usual(params(100))], &mut sampler);
        if results.is_ok() && sampler.finish().samples[0].is_ok() { 7 } else { 8 }
    };
    // SAFETY: as above.
    let child = unsafe { fork(visit) }.unwrap();
    assert_eq!(child.wait_for(7), Ok(()));
}

fn predicted(probe: &Multiplex, fds: i64, hundred_ns: f64) -> Result<Prediction, NoModel> {
    let id = probe.about.id;
    let records = [
        smoke::record("os.syscall", &Params::one("call", "getppid"), 100.0, 1.0),
        smoke::record(id, &params(10), 400.0, 1.0),
        smoke::record(id, &params(100), hundred_ns, 1.0),
    ];
    probe.predict(&Case::usual(params(fds)), &Host::default(), &Known::new(&records))
}

#[test]
fn largest_set_is_extrapolated_linearly() {
    for probe in [&SELECT, &POLL] {
        assert_eq!(predicted(probe, 10, 2200.0).unwrap().low, Some(100.0));
        assert_eq!(predicted(probe, 100, 2200.0).unwrap().low, Some(400.0));
        let largest = predicted(probe, 500, 2200.0).unwrap();
        assert_eq!(largest.value, Some(2200.0 + 400.0 * 20.0));
        assert_eq!((largest.inputs.len(), largest.inputs[1].value), (2, 2200.0));
        assert_eq!(predicted(probe, 500, 400.0), Err(NoModel::NoSlope));
    }
}

#[test]
fn epoll_is_predicted_independent_of_set_size() {
    assert_eq!(predicted(&EPOLL, 10, 400.0).unwrap().low, Some(100.0));
    for fds in [100, 500] {
        assert_eq!(predicted(&EPOLL, fds, 400.0).unwrap().value, Some(400.0));
    }
}
