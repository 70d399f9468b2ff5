//! The condition of synthetic machines, and of the current one.

use std::time::Duration;

use fathom_measure::condition::Reader;
use fathom_measure::host;
use fathom_record::Condition;
use fathom_record::condition::QuotaSight;

use crate::fixture::{self, HostMachine};

const MOMENT: &str = r"
/proc/stat = cpu  1000 0 0 8000 0 0 0 1000 0 0\ncpu2 100 0 0 900 0 0 0 0\ncpu3 100 0 0 900 0 0 0 0
/proc/loadavg = 1.50 0.75 0.25 3/200 4321
/proc/pressure/cpu = some avg10=12.50 avg60=1.00 avg300=0.00 total=5\nfull avg10=99.00
/proc/pressure/io = some avg10=0.00 avg60=1.00 avg300=0.00 total=5
/proc/vmstat = pswpin 10\npswpout 20
/proc/net/sockstat = sockets: used 9\nTCP: inuse 1 orphan 0 tw 7 alloc 1 mem 2\nUDP: inuse 0 mem 0
/proc/meminfo = MemTotal: 16000000 kB\nSwapTotal: 2048 kB\nSwapFree: 1024 kB
/proc/net/unix = Num RefCount\n0: 2 0 10000 1 1 99 @fathom-runner\n0: 2 0 10000 1 1 98 /fathom-run
/proc/self/schedstat = 1 2 3
/proc/self/limits = Limit  Soft\nMax processes  100 200 processes\nMax open files  unlimited unlimited
/proc/10/status = Uid:\t1000\t1000\t1000\t1000\nThreads:\t7
/proc/11/status = Uid:\t1000\t0\t0\t0\nThreads:\t1
/proc/12/status = Uid:\t0\t0\t0\t0\nThreads:\t50
/proc/sys/kernel/perf_event_paranoid = -1
/proc/sys/kernel/io_uring_disabled = 2
/proc/sys/vm/drop_caches = 0
/sys/bus/event_source/devices/cpu_atom/type = 10
/sys/bus/event_source/devices/software/type = 1
";

/// The laptop in use by an unprivileged user.
fn machine() -> HostMachine {
    let status = "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000804000\n\
                  Cpus_allowed_list:\t2-63\n";
    crate::laptop::machine().with(MOMENT).with_file("/proc/self/status", status)
}

/// The condition from files at the start and the end of the sampling interval.
fn between(before: &HostMachine, after: &HostMachine) -> Condition {
    let dirs = [before, after].map(HostMachine::folder);
    let host = host::HostReader::at(dirs[0].path()).read();
    Reader::at(dirs[0].path(), dirs[1].path()).read(&host, Duration::ZERO)
}

/// The laptop a moment later, when CPU 3 is busier.
fn later() -> HostMachine {
    machine().with(
        r"/proc/stat = cpu  1000 0 0 8000 0 0 0 1000 0 0\ncpu2 102 0 0 918 0 0 0 0\ncpu3 100 0 0 910 0 0 0 10
        /proc/vmstat = pswpin 12\npswpout 25",
    )
}

/// The server with usage of its limits: the maximum of two groups counts.
fn used_server() -> HostMachine {
    crate::server::machine().with(
        r"/sys/fs/cgroup/machine.slice/pod7/cpu.stat = nr_periods 50\nnr_throttled 5\nthrottled_usec 7
        /sys/fs/cgroup/machine.slice/cpu.stat = nr_periods 60\nnr_throttled 20\nthrottled_usec 900
        /sys/fs/cgroup/machine.slice/pod7/pids.current = 17
        /sys/fs/cgroup/machine.slice/pod7/memory.current = 1048576",
    )
}

/// The laptop and the server, for `golden`.
pub(crate) fn all() -> [(&'static str, Condition); 2] {
    let server = used_server();
    [("laptop", between(&machine(), &later())), ("server", between(&server, &server))].map(
        |(name, mut condition)| {
            // The time between the looks is real.
            condition.origins.remove("look");
            condition.look.iter_mut().for_each(|look| look.length_ns = 0.0);
            (name, condition)
        },
    )
}

#[test]
fn another_run_is_seen_by_its_socket() {
    assert_eq!(between(&machine(), &machine()).another_run, Some(false), "other names");
    let running = machine().with(
        r"/proc/net/unix = 0: 2 0 10000 1 1 99 /x\n0: 00000002 00000000 0001 01 99 @fathom-run",
    );
    assert_eq!(between(&running, &running).another_run, Some(true));
}

#[test]
fn limits_that_are_unknown_differ_from_none() {
    let condition = between(&machine(), &machine());
    assert_eq!(condition.limits.files, None);
    assert!(condition.origins.contains_key("limits.files"), "unlimited is known");
    assert!(!condition.origins.contains_key("limits.locked_bytes"), "a missing line is unknown");
    let free = condition.throttling;
    assert_eq!((free.sight, free.throttled_ns), (QuotaSight::Unlimited, Some(0)));
    let guest = crate::server::machine()
        .with("/sys/bus/event_source/devices/software/type = 1\n/proc/stat = cpu0 1 1 1 1 1 1 1");
    let condition = between(&guest, &guest);
    assert_eq!(condition.permissions.pmu, Some(false));
    assert_eq!(condition.permissions.drop_caches, None, "no such file");
}

#[test]
fn unreadable_machine_has_no_condition() {
    let condition = between(&HostMachine::default(), &HostMachine::default());
    assert_eq!(condition.look, None);
    assert_eq!((condition.cpu, condition.load_average), (None, None));
    assert_eq!((condition.another_run, condition.permissions.root), (None, None));
    assert!(!condition.proc_readable && !condition.sys_readable);
    assert_eq!(condition.counters_missing.len(), 4);
    assert_eq!(condition.throttling.sight, QuotaSight::Unknown);
    let origins: Vec<&String> = condition.origins.keys().collect();
    assert_eq!(origins, ["counters_missing"]);
}

#[test]
fn damaged_files_never_make_the_reader_panic() {
    for (name, machine) in fixture::all() {
        let whole = machine.with(MOMENT);
        for by in ["-1", "18446744073709551615", "1e308", ""] {
            let mut copy = HostMachine::default();
            for (path, content) in &whole.files {
                let text = String::from_utf8_lossy(content);
                let digits = |c: char| c.is_ascii_digit();
                let damaged: Vec<&str> = text.split(digits).collect();
                copy = copy.with_file(path, damaged.join(by));
            }
            let condition = between(&whole, &copy);
            let shares = condition.look.iter().flat_map(|look| &look.cpus);
            for one in shares {
                let within = (0.0..=1.0).contains(&one.busy);
                assert!(
                    within && one.steal.is_none_or(|s| (0.0..=1.0).contains(&s)),
                    "{name} {by}"
                );
            }
        }
    }
}

#[test]
fn condition_of_this_machine_is_read() {
    let host = host::read();
    let condition = Reader::live().read(&host, Duration::from_millis(5));
    assert!(condition.proc_readable);
    assert!(condition.cpu.is_some_and(|cpu| host.cpu.allowed.contains(&cpu)), "{condition:?}");
    assert!(condition.look.is_some_and(|look| look.length_ns >= 5e6));
    assert_eq!(condition.permissions.root, Some(rustix::process::geteuid().is_root()));
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    assert_eq!(condition.limits.files, files);
    assert!(condition.permissions.io_uring.is_some());
}
