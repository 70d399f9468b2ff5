//! The counters of a visit, with synthetic files and on the current machine.

use std::path::Path;

use fathom_record::DeviceTime;

use super::*;

/// Counter files of a machine at one moment.
struct VisitFiles<'a> {
    schedstat: &'a str,
    /// `irq softirq steal` of CPU 1.
    ticks: &'a str,
    pressure: u64,
    throttled: u64,
}

const BEFORE: VisitFiles<'_> =
    VisitFiles { schedstat: "1000 500 3\n", ticks: "10 20 30", pressure: 7, throttled: 100 };

fn write(root: &Path, path: &str, text: &str) {
    let place = root.join(path);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::write(place, text).unwrap();
}

/// A process in `/pod/box` of cgroup version 2, with a quota on `/pod`.
fn tree(root: &Path, files: &VisitFiles<'_>) {
    write(root, "proc/self/schedstat", files.schedstat);
    let stat =
        format!("cpu  9 9 9 9 9 9 9 9\ncpu1 1 2 3 4 5 {}\ncpu10 1 1 1 1 1 1 1 1\n", files.ticks);
    write(root, "proc/stat", &stat);
    let pressure = format!("some avg10=0.00 avg60=0.00 total={}\nfull total=9\n", files.pressure);
    write(root, "proc/pressure/cpu", &pressure);
    write(root, "proc/self/cgroup", "0::/pod/box\n");
    let mounts = "31 23 0:28 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";
    write(root, "proc/self/mountinfo", mounts);
    write(root, "sys/fs/cgroup/cgroup.controllers", "cpu\n");
    write(root, "sys/fs/cgroup/pod/cgroup.type", "domain\n");
    write(root, "sys/fs/cgroup/pod/cpu.max", "50000 100000\n");
    write(root, "sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
    let stat = |throttled| format!("nr_periods 9\nnr_throttled 4\nthrottled_usec {throttled}\n");
    write(root, "sys/fs/cgroup/pod/cpu.stat", &stat(files.throttled));
    write(root, "sys/fs/cgroup/pod/box/cpu.stat", &stat(0));
}

/// The counters of that process on CPU 1, which look at its files of before.
fn opened() -> (tempfile::TempDir, VisitCounters) {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path(), &BEFORE);
    let counters = VisitCounters::open_at(&FileTree::at(dir.path()), 1, true);
    (dir, counters)
}

/// The counters that are read from files.
fn from_files(it: &Disturbance) -> [Option<u64>; 5] {
    [it.run_queue_ns, it.interrupt_ns, it.steal_ns, it.cpu_pressure_ns, it.throttled_ns]
}

fn visit(before: &VisitFiles<'_>, after: &VisitFiles<'_>) -> Disturbance {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path(), before);
    let mut counters = VisitCounters::open_at(&FileTree::at(dir.path()), 1, true);
    tree(dir.path(), after);
    counters.since_mark()
}

#[test]
fn visit_reports_the_increase_of_each_counter() {
    let after =
        VisitFiles { schedstat: "2000 900 8\n", ticks: "11 22 34", pressure: 9, throttled: 150 };
    let delta = visit(&BEFORE, &after);
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    let expected = [400, 3 * tick_ns, 4 * tick_ns, 2_000, 50_000].map(Some);
    assert_eq!(from_files(&delta), expected, "the quota is on the parent group");
    assert_eq!((delta.throttled_periods, delta.quota_periods), (Some(0), Some(0)));
    assert!(delta.wall_ns > 0);
}

#[test]
fn devices_are_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let disks = ["vda", "dm-0", "loop0"];
    disks.iter().for_each(|disk| write(dir.path(), &format!("sys/block/{disk}/size"), "9\n"));
    let stat = |reads, ms, flushes: &str| {
        let line = |name: &str| {
            format!("254 0 {name} {reads} 1 8 {ms} 20 1 8 40 0 5 6 7 8 9 10{flushes}\n")
        };
        let lines: String = ["vda", "vda1", "dm-0", "loop0"].map(line).concat();
        write(dir.path(), "proc/diskstats", &lines);
    };
    stat(100, 1_000, " 3 4");
    tree(dir.path(), &BEFORE);
    let mut counters = VisitCounters::open_at(&FileTree::at(dir.path()), 1, true);
    assert_eq!(counters.since_mark().devices, None, "no request");
    stat(150, 1_030, " 5 14");
    let expected = Some(DeviceTime { requests: 52, ns: 40_000_000 });
    assert_eq!(counters.since_mark().devices, expected);
    stat(100, 999, " 3 4");
    assert_eq!(counters.since_mark().devices, None, "backwards");
    // Before Linux 5.5.
    stat(100, 1_000, "");
    counters.mark();
    stat(101, 1_002, "");
    let expected = Some(DeviceTime { requests: 1, ns: 2_000_000 });
    assert_eq!(counters.since_mark().devices, expected);
}

#[test]
fn counter_going_backwards_is_unknown() {
    let after =
        VisitFiles { schedstat: "2000 499 8\n", ticks: "9 20 29", pressure: 6, throttled: 99 };
    assert_eq!(from_files(&visit(&BEFORE, &after)), [None; 5]);
}

#[test]
fn missing_counter_is_unknown() {
    let off = VisitFiles { schedstat: "0 0 0\n", ticks: "", ..BEFORE };
    let delta = visit(&off, &off);
    assert_eq!(delta.run_queue_ns, None, "a kernel without schedstats writes zeros");
    assert_eq!((delta.steal_ns, delta.interrupt_ns), (None, None));
    let new = visit(&VisitFiles { schedstat: "0 0 0\n", ..BEFORE }, &BEFORE);
    assert_eq!(new.run_queue_ns, Some(500), "a new thread before its first tick");
    let nothing = tempfile::tempdir().unwrap();
    let delta = VisitCounters::open_at(&FileTree::at(nothing.path()), 1, true).since_mark();
    assert_eq!(from_files(&delta), [None; 5]);
    assert_eq!([delta.throttled_periods, delta.quota_periods], [None; 2]);
}

#[test]
fn steal_is_unknown_if_not_reported() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path(), &BEFORE);
    let mut counters = VisitCounters::open_at(&FileTree::at(dir.path()), 1, false);
    let delta = counters.since_mark();
    assert_eq!((delta.steal_ns, delta.interrupt_ns), (None, Some(0)));
}

#[test]
fn no_quota_means_zero_throttling() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path(), &BEFORE);
    write(dir.path(), "sys/fs/cgroup/pod/cpu.max", "max 100000\n");
    let delta = VisitCounters::open_at(&FileTree::at(dir.path()), 1, true).since_mark();
    assert_eq!((delta.throttled_ns, delta.quota_periods), (Some(0), Some(0)));
    // In a container the visible root is not the actual root.
    write(dir.path(), "sys/fs/cgroup/cgroup.type", "domain\n");
    let delta = VisitCounters::open_at(&FileTree::at(dir.path()), 1, true).since_mark();
    assert_eq!((delta.throttled_ns, delta.quota_periods), (None, None));
    let local = "sys/fs/cgroup/pod/box/cpu.stat.local";
    write(dir.path(), local, "throttled_usec 5\n");
    let mut counters = VisitCounters::open_at(&FileTree::at(dir.path()), 1, true);
    write(dir.path(), local, "throttled_usec 8\n");
    assert_eq!(counters.since_mark().throttled_ns, Some(3_000));
}

#[test]
fn longest_throttled_group_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    tree(root, &BEFORE);
    write(root, "sys/fs/cgroup/pod/box/cpu.max", "200000 100000\n");
    let mut counters = VisitCounters::open_at(&FileTree::at(root), 1, true);
    write(
        root,
        "sys/fs/cgroup/pod/cpu.stat",
        "nr_periods 19\nnr_throttled 9\nthrottled_usec 170\n",
    );
    let delta = counters.since_mark();
    let expected = (Some(70_000), Some(5), Some(10));
    assert_eq!((delta.throttled_ns, delta.throttled_periods, delta.quota_periods), expected);
}

#[test]
fn cgroup_version_1_counts_nanoseconds() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "proc/self/cgroup", "3:cpu,cpuacct:/box\n0::/\n");
    let mounts = "31 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
    write(root, "proc/self/mountinfo", mounts);
    let group = "sys/fs/cgroup/cpu,cpuacct/box";
    write(root, &format!("{group}/cpu.cfs_quota_us"), "25000\n");
    write(root, &format!("{group}/cpu.cfs_period_us"), "100000\n");
    let stat = |ns: u64| format!("nr_periods 1\nnr_throttled 1\nthrottled_time {ns}\n");
    write(root, &format!("{group}/cpu.stat"), &stat(10));
    let mut counters = VisitCounters::open_at(&FileTree::at(root), 0, true);
    write(root, &format!("{group}/cpu.stat"), &stat(35));
    assert_eq!(counters.since_mark().throttled_ns, Some(25));
}

#[test]
fn new_mark_replaces_the_old_one() {
    let (dir, mut counters) = opened();
    let later = VisitFiles { schedstat: "2000 900 8\n", pressure: 20, ..BEFORE };
    tree(dir.path(), &later);
    counters.mark();
    let delta = counters.since_mark();
    assert_eq!((delta.run_queue_ns, delta.cpu_pressure_ns), (Some(0), Some(0)));
}

#[test]
fn cpu_time_of_a_reaped_child_counts() {
    let mut counters = VisitCounters::open(0);
    let before = RoundUsage::used_by(libc::RUSAGE_CHILDREN).cpu_ns;
    let spin = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let status = std::process::Command::new("sh").args(["-c", spin]).status().unwrap();
    assert!(status.success());
    let child_ns = RoundUsage::used_by(libc::RUSAGE_CHILDREN).cpu_ns - before;
    let delta = counters.since_mark();
    assert!(child_ns > 0 && delta.cpu_ns >= child_ns, "{child_ns} ns by children, {delta:?}");
}

#[test]
fn slowest_thread_of_a_crew_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let stat = |ticks: [&str; 3]| {
        let line = |(cpu, ticks): (usize, &&str)| format!("cpu{cpu} 1 2 3 4 5 {ticks}\n");
        ticks.iter().enumerate().map(line).collect::<String>()
    };
    tree(root, &BEFORE);
    let thread = |id: u32, text: &str| write(root, &format!("proc/self/task/{id}/schedstat"), text);
    thread(7, "100 10 1\n");
    thread(8, "100 10 1\n");
    write(root, "proc/stat", &stat(["0 0 0", "10 20 30", "1 1 1"]));
    let mut counters = VisitCounters::open_at(&FileTree::at(root), 1, true);
    counters.work_with_at(&FileTree::at(root), &[(7, 0), (8, 2)]);
    counters.mark();
    let after = VisitFiles { schedstat: "2000 520 8\n", ..BEFORE };
    tree(root, &after);
    thread(7, "900 810 1\n");
    thread(8, "900 60 1\n");
    write(root, "proc/stat", &stat(["0 1 0", "10 20 31", "1 5 8"]));
    let delta = counters.since_mark();
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    assert_eq!(delta.run_queue_ns, Some(800), "thread 7, not the sum");
    assert_eq!((delta.steal_ns, delta.interrupt_ns), (Some(7 * tick_ns), Some(4 * tick_ns)));
}

#[test]
fn cpu_time_of_the_slowest_thread_counts() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let sleeper = std::thread::spawn(move || {
        sender.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
        let _ = stopped.recv();
    });
    let thread = receiver.recv().unwrap();
    let mut counters = VisitCounters::open(0);
    let spin = |counters: &mut VisitCounters| {
        counters.mark();
        let from = cpu_clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        while cpu_clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) < from + 20_000_000 {}
        counters.since_mark().cpu_ns
    };
    assert!(spin(&mut counters) >= 20_000_000, "alone");
    counters.work_with(&[(thread, 0)]);
    let slept = spin(&mut counters);
    assert!(slept < 10_000_000, "{slept} ns with a sleeping thread");
    let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    counters.work_with(&[(own, 0)]);
    assert!(spin(&mut counters) >= 20_000_000, "with a running thread");
    counters.work_with(&[]);
    assert!(spin(&mut counters) >= 20_000_000, "alone again");
    drop(stop);
    sleeper.join().unwrap();
}

#[test]
fn counters_of_this_kernel_are_read() {
    let mut counters = VisitCounters::open(0);
    let mut delta = counters.since_mark();
    let readable = |path: &str| std::fs::read_to_string(path).is_ok();
    // A few ticks, or 1 s on a kernel without schedstats.
    while delta.run_queue_ns.is_none() && delta.cpu_ns < 1_000_000_000 {
        delta = counters.since_mark();
    }
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let counts = !text.is_empty() && !text.starts_with("0 ");
    assert_eq!(delta.run_queue_ns.is_some(), counts, "{delta:?}");
    assert_eq!(delta.cpu_pressure_ns.is_some(), readable("/proc/pressure/cpu"), "{delta:?}");
    assert!(delta.interrupt_ns.is_some(), "{delta:?}");
}

#[test]
fn malformed_counters_are_unknown() {
    let junk = ["", "\0", "-1 -1 -1", "99999999999999999999 1", "some total=", "cpu1 a b", "cpu1"];
    for junk in junk {
        let (dir, mut counters) = opened();
        let files = ["proc/self/schedstat", "proc/stat", "proc/pressure/cpu"];
        files.iter().for_each(|path| write(dir.path(), path, junk));
        write(dir.path(), "sys/fs/cgroup/pod/cpu.stat", junk);
        assert_eq!(from_files(&counters.since_mark()), [None; 5], "{junk:?}");
    }
}
