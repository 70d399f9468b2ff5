use super::*;
use crate::smoke;

fn of(name: &'static str, value: &'static str) -> Params {
    Params::one(name, value)
}

#[test]
fn predictions_follow_from_earlier_results() {
    let sets = Params::one("set_bytes", 0);
    let ring = Params::one("processes", 8).and("set_bytes", 0);
    let fork = |part, mib: i64| of("part", part).and("rss_bytes", mib << 20);
    let records = [
        ("cpu.call", Params::one("args", 0), 1.5),
        ("os.syscall", getppid(), 100.0),
        ("os.syscall", of("call", "getppid_called"), 150.0),
        ("os.syscall", of("call", "read1"), 160.0),
        ("os.syscall", of("call", "write1"), 140.0),
        ("os.switch.process", sets, 1500.0),
        ("os.switch.ring", ring, 1800.0),
        ("os.pipe.rtt", of("calls", "bare"), 4000.0),
        ("os.wake.cross_cpu", of("via", "futex"), 3000.0),
        ("os.file_lock", of("kind", "posix"), 800.0),
        ("os.thread.create", Params::none(), 9000.0),
        ("os.thread.create_join", Params::none(), 12_000.0),
        ("os.process.fork", fork("fork", 1), 110_000.0),
        ("os.process.fork", fork("total", 1), 120_000.0),
        ("os.process.fork", fork("fork", 16), 260_000.0),
        ("os.process.fork", fork("total", 16), 270_000.0),
        ("os.process.vfork_exec", of("part", "first_instruction"), 50_000.0),
        ("os.process.vfork_exec", of("part", "total"), 70_000.0),
        ("os.select", Params::one("fds", 10), 400.0),
        ("os.select", Params::one("fds", 100), 2200.0),
        ("os.epoll", Params::one("fds", 10), 400.0),
    ]
    .map(|(metric, params, ns)| smoke::record(metric, &params, ns, 1.0));
    // The values, the self-consistency checks (=) or the lower bounds (≥) of all cases.
    let forks = "≥ 9000, ≥ 110000, ≥ 110000, ≥ 120000, = 2660000, = 2670000, = 10340000, \
                 = 10350000";
    let expected: [(&dyn Probe, &str); 17] = [
        (&syscall::Syscall, "≥ 15, ≥ 15, ≥ 15, ≥ 100, ≥ 100, ≥ 100, ≥ 100, ≥ 200"),
        (&syscall_fresh::SyscallFresh, "≥ 100"),
        (&signal::SignalInstall, "≥ 100"),
        (&signal::SignalDeliver, "≥ 200, ≥ 200"),
        (&file_lock::FileLock, "≥ 200, = 800, ≥ 200"),
        (&unix_connect::UnixConnect, "≥ 500"),
        (&multiplex::SELECT, "≥ 100, ≥ 400, = 10200"),
        (&multiplex::EPOLL, "≥ 100, = 400, = 400"),
        (&thread_create::THREAD_CREATE_JOIN, "≥ 9000"),
        (&process_fork::ProcessFork, forks),
        (&process_exec::VFORK_EXEC, "≥ 12000, ≥ 50000"),
        (&process_exec::SHELL, "≥ 100000, ≥ 140000"),
        (&switch_ring::SwitchRing, "≥ 1500, ≥ 1800, ≥ 1800, ≥ 1800, ≥ 1800"),
        (&round_trip::PIPE_RTT, "≥ 3600, = 4200"),
        (&round_trip::SEMAPHORE_RTT, "3560, 3760"),
        (&round_trip::UNIX_RTT, "≥ 4000, ≥ 4000"),
        (&wake::Wake, "≥ 100, = 3100"),
    ];
    for (probe, expected) in expected {
        let predict = |case| {
            let known = Inputs::new(&records);
            let prediction = probe.predict(case, &Host::default(), &known).unwrap();
            match prediction.value {
                Some(value) if prediction.self_consistency => format!("= {value:.0}"),
                Some(value) => format!("{value:.0}"),
                None => format!("≥ {}", prediction.low.unwrap()),
            }
        };
        let cases = probe.cases(&Host::default(), &Sizes::default());
        let predicted: Vec<String> = cases.iter().map(predict).collect();
        assert_eq!(predicted.join(", "), expected, "{}", probe.about().id);
    }
}

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
