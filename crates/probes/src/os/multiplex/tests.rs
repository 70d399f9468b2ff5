//! What the three calls answer, and what happens when it is not what was asked for.

use super::*;
use crate::os::child::fork;
use crate::smoke;

const ALL: [&Multiplex; 3] = [&SELECT, &POLL, &EPOLL];

#[test]
fn each_call_finds_the_one_that_is_ready_among_any_number() {
    for probe in ALL {
        let taken = smoke::run(probe);
        assert_eq!(taken.len(), SIZES.len());
        assert!(taken[0].1.is_ok(), "{}: no sandbox forbids ten descriptors", probe.about.id);
    }
}

#[test]
fn a_count_other_than_wanted_is_not_counted() {
    let _alone = smoke::alone();
    for probe in ALL {
        let mut watch = probe.watch(10).unwrap();
        assert_eq!(watch.repeat(100), 100, "{}", probe.about.id);
        watch.wanted = 2;
        assert_eq!(watch.repeat(100), 0, "{}", probe.about.id);
    }
}

#[test]
fn another_descriptor_than_the_last_is_not_counted() {
    let _alone = smoke::alone();
    for probe in ALL {
        let mut watch = probe.watch(10).unwrap();
        let count = |files: &[OwnedFd], number: usize, ready: bool| {
            match ready {
                true => rustix::io::write(&files[number], &1_u64.to_ne_bytes()),
                false => rustix::io::read(&files[number], &mut [0; 8]),
            }
            .unwrap();
        };
        count(&watch.files, 9, false);
        assert_eq!(watch.repeat(1), 0, "{}: none is ready", probe.about.id);
        count(&watch.files, 3, true);
        assert_eq!(watch.repeat(1), 0, "{}: another one is ready", probe.about.id);
        count(&watch.files, 9, true);
        assert_eq!(watch.repeat(1), 0, "{}: two are ready", probe.about.id);
        count(&watch.files, 3, false);
        assert_eq!(watch.repeat(1), 1, "{}", probe.about.id);
    }
}

#[test]
fn too_low_a_limit_is_unavailable_with_the_remedy() {
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
    // SAFETY: glibc's fork leaves the heap usable in the child, which runs no other thread's code.
    let child = unsafe { fork(refused) }.unwrap();
    assert_eq!(child.wait_for(7), Ok(()));
}

#[test]
fn a_visit_raises_the_soft_limit() {
    let _alone = smoke::alone();
    let visit = || {
        setrlimit(Resource::Nofile, Rlimit { current: Some(80), maximum: Some(1000) }).unwrap();
        let mut sampler = smoke::sampler(1, 0);
        let taken = POLL.visit(&[Case::usual(params(100))], &mut sampler);
        if taken.is_ok() && sampler.finish().samples[0].is_ok() { 7 } else { 8 }
    };
    // SAFETY: as above.
    let child = unsafe { fork(visit) }.unwrap();
    assert_eq!(child.wait_for(7), Ok(()));
}

#[test]
fn a_fault_that_is_no_limit_is_a_failure() {
    let fault = |error| too_few(500, error);
    assert!(matches!(fault(rustix::io::Errno::MFILE), Fault::Unavailable(..)));
    assert!(matches!(fault(rustix::io::Errno::INVAL), Fault::Failed(_)));
}

fn predicted(probe: &Multiplex, fds: i64, hundred_ns: f64) -> Result<Prediction, NoModel> {
    let id = probe.about.id;
    let records = [
        smoke::record("os.syscall", &Params::one("call", "getppid"), 100.0, 1.0),
        smoke::record(id, &params(10), 400.0, 1.0),
        smoke::record(id, &params(100), hundred_ns, 1.0),
    ];
    probe.predict(&Case::usual(params(fds)), &Host::default(), &Inputs::new(&records))
}

#[test]
fn the_largest_set_lies_on_the_line_through_the_smaller_ones() {
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
fn epoll_does_not_depend_on_the_number() {
    assert_eq!(predicted(&EPOLL, 10, 400.0).unwrap().low, Some(100.0));
    for fds in [100, 500] {
        assert_eq!(predicted(&EPOLL, fds, 400.0).unwrap().value, Some(400.0));
    }
}
