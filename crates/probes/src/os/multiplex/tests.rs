use super::*;
use crate::os::child::fork;
use crate::smoke;

const ALL: [&Multiplex; 3] = [&SELECT, &POLL, &EPOLL];

#[test]
fn wrong_count_or_descriptor_is_not_counted() {
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
    let refused = || {
        let rlimit = Rlimit { current: Some(20), maximum: Some(40) };
        setrlimit(Resource::Nofile, rlimit).unwrap();
        raise_limit(500);
        let raised = getrlimit(Resource::Nofile).current == Some(40);
        match POLL.watch(500).err() {
            Some(SamplerFault::Unavailable(_, Some(Remedy::RaiseLimit { .. }))) if raised => 7,
            _ => 8,
        }
    };
    // SAFETY: glibc's fork keeps the heap usable in the child.
    let child = unsafe { fork(refused) }.unwrap();
    assert_eq!(child.wait_for(7), Ok(()));
}

#[test]
fn visit_raises_the_soft_limit() {
    let visit = || {
        setrlimit(Resource::Nofile, Rlimit { current: Some(80), maximum: Some(1000) }).unwrap();
        let mut sampler = smoke::sampler(1, 0);
        let results = POLL.visit(&[ProbeCase::usual(params(100))], &mut sampler);
        if results.is_ok() && sampler.finish().samples[0].is_ok() { 7 } else { 8 }
    };
    // SAFETY: as above.
    let child = unsafe { fork(visit) }.unwrap();
    assert_eq!(child.wait_for(7), Ok(()));
}
