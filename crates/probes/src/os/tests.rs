use super::*;
use crate::smoke;

#[test]
fn every_case_is_measured_and_makes_its_checks() {
    let turns: &[&str] = &["context switches", "one CPU", "turns"];
    let probes: [(&dyn Probe, &[&str]); 18] = [
        (&syscall::Syscall, &[]),
        (&syscall_fresh::SyscallFresh, &[]),
        (&futex::FutexUncontended, &[]),
        (&multiplex::SELECT, &[]),
        (&multiplex::POLL, &[]),
        (&multiplex::EPOLL, &[]),
        (&signal::SignalInstall, &["handler installed", "handler runs"]),
        (&signal::SignalDeliver, &[]),
        (&file_lock::FileLock, &["lock excludes a second open"]),
        (&thread_create::THREAD_CREATE, &[]),
        (&thread_create::THREAD_CREATE_JOIN, &[]),
        (&unix_connect::UnixConnect, &["queue"]),
        (&switch::SWITCH_THREAD, turns),
        (&switch::SWITCH_PROCESS, turns),
        (&round_trip::PIPE_RTT, turns),
        (&round_trip::FIFO_RTT, turns),
        (&round_trip::UNIX_RTT, turns),
        (&round_trip::SEMAPHORE_RTT, turns),
    ];
    for (probe, checks) in probes {
        for (index, (case, sample)) in smoke::run(probe).iter().enumerate() {
            // A sandbox may forbid all calls but the first, and some kernels have no System V
            // semaphores.
            let may_lack =
                checks.is_empty() && index > 0 || case.params.text("kind") == Some("sysv");
            match sample {
                Ok(sample) => assert_eq!(check_names(sample), checks, "{}", probe.about().id),
                Err(fault) => assert!(may_lack, "{}{}: {fault}", probe.about().id, case.params),
            }
        }
    }
}
