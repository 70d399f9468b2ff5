//! Every threshold of the rules at its limit, and the words on its other side.

use fathom_record::Fix;
use fathom_record::Severity::{self, Good, Note, Severe, Warning};
use fathom_record::condition::{CpuShares, QuotaSight};
use fathom_record::diagnosis::Acceptable;

use super::fixture::{FixtureMachine, after, finds, is_unknown, look, quiet, shares};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Asserts the severity of a rule and the whole text it found.
#[track_caller]
fn exactly(id: &str, severity: Severity, text: &str, change: impl FnOnce(&mut FixtureMachine)) {
    let finding = after(id, change);
    assert_eq!((finding.severity, finding.found.as_str()), (severity, text), "{id}");
}

/// Asserts the severities of a rule over values of one fact.
#[track_caller]
fn rates<T: Copy + std::fmt::Debug>(
    id: &str,
    set: impl Fn(&mut FixtureMachine, T),
    rows: &[(T, Severity)],
) {
    for (value, severity) in rows {
        let finding = after(id, |m| set(m, *value));
        assert_eq!(
            (finding.severity, finding.unknown),
            (*severity, false),
            "{value:?} {finding:?}"
        );
    }
}

#[test]
fn limits_of_load_belong_to_the_lower_severity() {
    let busy = |m: &mut FixtureMachine, share| m.condition.look = look(vec![shares(1, share, 0.0)]);
    rates("cpu-busy", busy, &[(0.2, Good), (0.21, Warning), (0.5, Warning), (0.51, Severe)]);
    let load = |m: &mut FixtureMachine, one| m.condition.load_average = Some([one, 9.0, 9.0]);
    rates("load-average", load, &[(1.4, Good), (1.41, Note), (4.0, Note), (4.1, Warning)]);
    let uptime = |m: &mut FixtureMachine, seconds| m.host.uptime_s = Some(seconds);
    let rows = [(59.9, Warning), (60.0, Note), (299.9, Note), (300.0, Good)];
    rates("uptime", uptime, &rows);
    assert_eq!(after("uptime", |m| uptime(m, 59.0)).remedy, Some(Fix::WaitAfterBoot));
    assert_eq!(after("uptime", |m| uptime(m, 60.0)).remedy, Some(Fix::MeasureLater));
    for (seconds, text) in [
        (119.0, "booted 119 s ago"),
        (120.0, "booted 2 min ago"),
        (7_199.0, "booted 120 min ago"),
        (7_200.0, "booted 2 h ago"),
        (172_799.0, "booted 48 h ago"),
        (172_800.0, "booted 2 days ago"),
    ] {
        assert_eq!(after("uptime", |m| uptime(m, seconds)).found, text);
    }
    let of_one_cpu = |m: &mut FixtureMachine| {
        (m.host.cpu.logical, m.condition.runnable) = (1, Some(3));
        m.condition.load_average = Some([0.5; 3]);
    };
    let text = "0.50 0.50 0.50 (1, 5, 15 min) on 1 CPU; 2 other runnable threads";
    exactly("load-average", Good, text, of_one_cpu);
    exactly("another-run", Good, "no other run of Fathom", |_| {});
}

#[test]
fn busy_lists_eight_allowed_cpus() {
    let many = |cpus: u32| {
        move |m: &mut FixtureMachine| {
            m.host.cpu.allowed = (0..cpus).collect();
            m.condition.look = look((0..=cpus).map(|cpu| shares(cpu, 0.0, 0.0)).collect());
        }
    };
    let eight = after("cpu-busy", many(8)).found;
    assert!(eight.contains("over 200 ms: CPU 0: 0 %") && eight.ends_with("CPU 7: 0 %)"), "{eight}");
    let nine = after("cpu-busy", many(9)).found;
    assert!(nine.ends_with("CPU 7: 0 %, …)"), "{nine}");
}

#[test]
fn limits_of_steal_belong_to_the_lower_severity() {
    let steal = |m: &mut FixtureMachine, (share, ticks): (f64, u64)| {
        m.condition.look = look(vec![CpuShares { ticks, ..shares(1, 0.5, share) }]);
    };
    let rows = [
        ((0.05, 100), Good),
        ((0.06, 100), Warning),
        ((0.25, 100), Warning),
        ((0.26, 100), Severe),
        // 2.5 ticks may be chance.
        ((0.25, 10), Good),
        ((0.5, 5), Good),
        ((0.5, 6), Severe),
        ((0.25, 12), Warning),
    ];
    rates("cpu-steal", steal, &rows);
    let boot = |m: &mut FixtureMachine, (busy, steal): (f64, f64)| {
        let boot = m.condition.since_boot.as_mut().unwrap();
        (boot.busy, boot.steal) = (busy, Some(steal));
    };
    rates("cpu-steal", boot, &[((0.5, 0.025), Good), ((0.5, 0.026), Warning)]);
    exactly("cpu-steal", Good, "0 % of CPU time", |m| boot(m, (0.0, 0.1)));
    let text = "0 % of CPU time; 50 % of busy time since boot: low now, but not always";
    exactly("cpu-steal", Warning, text, |m| boot(m, (0.5, 0.25)));
    // Steal is weighed by the ticks of each CPU, and a CPU without ticks does not count.
    let weighed = |m: &mut FixtureMachine| {
        let cpu = |cpu, steal, ticks| CpuShares { steal, ticks, ..shares(cpu, 0.5, 0.0) };
        m.host.cpu.allowed = vec![0, 1, 2];
        m.condition.look =
            look(vec![cpu(0, Some(0.4), 10), cpu(1, Some(0.0), 30), cpu(2, None, 0)]);
    };
    exactly("cpu-steal", Warning, "10 % of CPU time; 1 % of busy time since boot", weighed);
    is_unknown("cpu-steal", |m| steal(m, (0.5, 0)));
}

#[test]
fn limits_of_the_cgroup_belong_to_the_better_severity() {
    let quota = |m: &mut FixtureMachine, cpus| m.host.cgroup.cpu_quota = Some(cpus);
    let rows = [(0.51, Warning), (0.99, Warning), (1.0, Note), (1.99, Note), (2.0, Good)];
    rates("cgroup-cpu-quota", quota, &rows);
    exactly("cgroup-cpu-quota", Note, "1.00 CPU; throttled periods unknown", |m| {
        quota(m, 1.0);
        (m.condition.throttling.throttled_periods, m.condition.throttling.periods) =
            (Some(0), Some(0));
    });
    let throttled = |m: &mut FixtureMachine, (throttled, periods): (u64, u64)| {
        quota(m, 1.5);
        (m.condition.throttling.throttled_periods, m.condition.throttling.periods) =
            (Some(throttled), Some(periods));
    };
    rates("cgroup-cpu-quota", throttled, &[((19, 19), Note), ((2, 20), Warning), ((1, 20), Note)]);
    exactly(
        "cgroup-cpu-quota",
        Warning,
        "throttled for 0.5 s by a quota outside this container",
        |m| {
            m.condition.throttling.sight = QuotaSight::Hidden;
            m.condition.throttling.throttled_ns = Some(500_000_000);
        },
    );
    let memory = |m: &mut FixtureMachine, bytes| m.host.cgroup.memory_limit_bytes = Some(bytes);
    rates("cgroup-memory", memory, &[(GIB - 1, Warning), (GIB, Good)]);
    exactly("cgroup-memory", Good, "no memory limit", |_| {});
    exactly("cgroup-pids", Good, "no limit on processes", |_| {});
    let room = |m: &mut FixtureMachine, room: u64| {
        (m.host.cgroup.pids_max, m.condition.pids) = (Some(1_000), Some(1_000 - room));
    };
    let rows = [(15, Severe), (16, Warning), (127, Warning), (128, Good)];
    rates("cgroup-pids", room, &rows);
    exactly("cgroup-pids", Severe, "985 of 1000 processes and threads, 15 free", |m| room(m, 15));
}

#[test]
fn allowed_cpus_name_what_restricts_them() {
    exactly("cpus-allowed", Good, "all 2 CPUs allowed", |_| {});
    let restricted = |cpuset: &[u32]| {
        let cpuset = cpuset.to_vec();
        after("cpus-allowed", |m| {
            (m.host.cpu.logical, m.host.cgroup.cpus) = (4, cpuset);
        })
    };
    assert_eq!(restricted(&[0, 1]).found, "CPU 0-1 of 4 (cgroup cpuset)");
    assert_eq!(restricted(&[0, 1, 2, 3]).found, "CPU 0-1 of 4 (CPU affinity)");
    assert_eq!(restricted(&[]).found, "CPU 0-1 of 4 (CPU affinity)");
    let one = |logical: u32| {
        after("cpus-allowed", |m| (m.host.cpu.allowed, m.host.cpu.logical) = (vec![0], logical))
    };
    assert_eq!(one(1).remedy, Some(Fix::Nothing { why: Acceptable::OneCpu }));
    assert_eq!(one(2).remedy, Some(Fix::SecondCpu));
}

#[test]
fn limits_of_the_clock_belong_to_the_better_severity() {
    let refused = |m: &mut FixtureMachine, (read_ns, resolution_ns): (f64, f64)| {
        let clock = m.clock.facts.as_mut().unwrap();
        (clock.source, clock.refused) = ("monotonic_raw".to_owned(), Some("hpet".to_owned()));
        (clock.read_ns, clock.resolution_ns) = (read_ns, resolution_ns);
    };
    let rows = [
        ((200.0, 1.0), Note),
        ((201.0, 1.0), Warning),
        ((50.0, 100.0), Note),
        ((50.0, 101.0), Warning),
        ((2_000.0, 1.0), Warning),
        ((2_001.0, 1.0), Severe),
        ((50.0, 10_000.0), Warning),
        ((50.0, 10_001.0), Severe),
    ];
    rates("clock-counter", refused, &rows);
    for (times, text) in [
        ((9.5, 10.0), "resolution 10 ns, read cost 9.50 ns"),
        ((9_999.0, 1e4), "resolution 10.0 µs, read cost 9999 ns"),
        ((999_900.0, 1e6), "resolution 1.0 ms, read cost 999.9 µs"),
    ] {
        let found = after("clock-counter", |m| refused(m, times)).found;
        assert_eq!(
            found,
            format!("hardware counter rejected: hpet; monotonic_raw instead, {text}")
        );
    }
    let ppm = |m: &mut FixtureMachine, ppm| {
        let clock = m.clock.facts.as_mut().unwrap();
        clock.details.insert("calibration_repeat_ppm".to_owned(), ppm);
    };
    let rows =
        [(1.0, Good), (1.1, Note), (10.0, Note), (10.1, Warning), (50.0, Warning), (51.0, Severe)];
    rates("clock-calibration", ppm, &rows);
    let not_tried = after("clock-counter", |m| m.clock.facts = None);
    assert_eq!(not_tried.found, "calibration failed: not tried");
    exactly("clock-source", Good, "tsc (available: tsc, kvm-clock)", |_| {});
    exactly("clock-source", Good, "tsc", |m| m.host.clocksources_available.clear());
}

#[test]
fn limits_of_memory_belong_to_the_better_severity() {
    let available = |m: &mut FixtureMachine, bytes| m.host.memory.available_bytes = Some(bytes);
    let rows = [
        (64 * MIB - 1, Severe),
        (64 * MIB, Warning),
        (256 * MIB - 1, Warning),
        (256 * MIB, Note),
        (4 * GIB - 1, Note),
        (4 * GIB, Good),
    ];
    rates("memory-available", available, &rows);
    let note = after("memory-available", |m| available(m, 2 * GIB));
    assert_eq!(note.effect, "working sets above a quarter of it, 512 MiB, are unavailable");
    let sizes = [(64 << 10, "64 KiB"), (MIB, "1 MiB"), (GIB - MIB, "1023 MiB"), (GIB, "1.0 GiB")];
    for (bytes, text) in sizes {
        let found = after("memory-available", |m| available(m, bytes)).found;
        assert_eq!(found, format!("{text} of 8.0 GiB"));
    }
    exactly("huge-pages", Good, "transparent huge pages: madvise", |_| {});
    exactly("aslr", Good, "on: kernel.randomize_va_space = 2", |_| {});
}

#[test]
fn limits_of_a_process_belong_to_the_better_severity() {
    let processes = |m: &mut FixtureMachine, free: u64| {
        (m.condition.limits.processes, m.condition.limits.processes_now) =
            (Some(1_000), Some(1_000 - free));
    };
    let rows = [(15, Severe), (16, Warning), (127, Warning), (128, Good)];
    rates("limit-processes", processes, &rows);
    let severe = after("limit-processes", |m| processes(m, 15));
    assert_eq!(severe.found, "1000 processes and threads, 985 in use by this user, 15 free");
    assert_eq!(severe.remedy, Some(Fix::RaiseProcessLimit { to: 985 + 512 }));
    let files = |m: &mut FixtureMachine, files| m.condition.limits.files = Some(files);
    let rows = [(63, Severe), (64, Warning), (1_023, Warning), (1_024, Good)];
    rates("limit-files", files, &rows);
    let space =
        |m: &mut FixtureMachine, bytes| m.condition.limits.address_space_bytes = Some(bytes);
    let rows =
        [(128 * MIB - 1, Severe), (128 * MIB, Warning), (4 * GIB - 1, Warning), (4 * GIB, Good)];
    rates("limit-address-space", space, &rows);
    let locked = |m: &mut FixtureMachine, bytes| m.condition.limits.locked_bytes = Some(bytes);
    rates("limit-locked-memory", locked, &[(8 * MIB - 1, Note), (8 * MIB, Good)]);
    exactly("limit-locked-memory", Good, "64 KiB; not enforced: cap_ipc_lock is exempt", |m| {
        locked(m, 64 << 10);
        m.condition.permissions.capabilities = vec!["ipc_lock".to_owned()];
    });
}

#[test]
fn topology_is_described_for_the_measured_cpu() {
    let pair = |m: &mut FixtureMachine, busy| {
        (m.host.cpu.smt, m.host.cpu.siblings) = (Some(true), vec![vec![1, 5, 6]]);
        m.condition.look = look(vec![shares(5, busy, 0.0), shares(6, 0.0, 0.0)]);
    };
    rates("cpu-smt", pair, &[(0.2, Note), (0.21, Warning)]);
    exactly("cpu-smt", Note, "CPU 1 shares its core with CPU 5-6, 20 % busy", |m| pair(m, 0.2));
    exactly("cpu-smt", Good, "CPU 1 has no SMT sibling visible to this guest", |_| {});
    exactly("cpu-smt", Good, "CPU 1 has no SMT sibling", |m| {
        pair(m, 0.9);
        (m.host.cpu.smt, m.host.virtualization) = (Some(false), Some("none".to_owned()));
    });
    exactly("cpu-kinds", Good, "all cores are of one kind", |_| {});
    exactly("cpu-numa", Good, "one node", |_| {});
    let far = after("cpu-numa", |m| m.host.cpu.numa = [(0, vec![0]), (1, vec![1])].into());
    assert_eq!(far.remedy, Some(Fix::BindMemory { node: Some(1) }));
    let bare_metal = |m: &mut FixtureMachine| m.host.virtualization = Some("none".to_owned());
    for (id, guest, metal) in [
        ("cpu-governor", "virtual machine: the host", "no cpufreq driver"),
        ("cpu-boost", "not visible to a guest", "not reported by the cpufreq driver"),
    ] {
        assert!(quiet().finding(id).found.contains(guest), "{id}");
        assert!(after(id, bare_metal).found.contains(metal), "{id}");
    }
}

#[test]
fn each_permission_is_enough_by_itself() {
    let able = |m: &mut FixtureMachine, capability: &str| {
        m.condition.permissions.pmu = Some(true);
        m.condition.permissions.capabilities = vec![capability.to_owned()];
    };
    let restricted = "hardware counters are restricted (kernel.perf_event_paranoid = 2)";
    let readable = "hardware counters are readable (kernel.perf_event_paranoid = 2)";
    exactly("perf-events", Good, readable, |m| able(m, "sys_admin"));
    exactly("perf-events", Good, readable, |m| able(m, "perfmon"));
    exactly("perf-events", Note, restricted, |m| able(m, "ipc_lock"));
    exactly("perf-events", Good, "hardware counters are readable", |m| {
        able(m, "sys_admin");
        m.condition.permissions.perf_event_paranoid = None;
    });
    exactly("privileges", Note, "not root; cap_ipc_lock", |m| able(m, "ipc_lock"));
    exactly("privileges", Note, "not root; no relevant capability", |_| {});
    exactly("drop-caches", Good, "vm.drop_caches is writable", |m| {
        m.condition.permissions.drop_caches = Some(true);
    });
    exactly("io-uring", Good, "allowed (kernel.io_uring_disabled = 0)", |_| {});
    let refused = |value| {
        after("io-uring", |m| {
            m.condition.permissions.io_uring = Some("EPERM".to_owned());
            m.condition.permissions.io_uring_disabled = value;
        })
    };
    assert_eq!(refused(Some(1)).remedy, Some(Fix::AllowIoUring));
    assert_eq!(refused(None).remedy, Some(Fix::Nothing { why: Acceptable::Forbidden }));
    finds("limit-processes", Good, "cap_sys_admin is exempt", |m| {
        m.condition.permissions.capabilities = vec!["sys_admin".to_owned()];
    });
    finds("store", Good, "/data/fathom.db is writable", |_| {});
    finds("counters", Good, "all disturbance counters", |_| {});
}

#[test]
fn origins_of_facts_are_listed_once() {
    let finding = after("swap", |m| {
        for path in ["memory.swap_bytes", "swap_used_bytes"] {
            m.condition.origin(path, "/proc/meminfo");
        }
        m.condition.origin("look.swapped_pages", "/proc/vmstat");
    });
    assert_eq!(finding.read_at, ["/proc/meminfo", "/proc/vmstat"]);
    assert_eq!(quiet().finding("clock-counter").read_at, ["50 ms of calibration"]);
    assert_eq!(quiet().finding("kernel-files").read_at, ["/proc, /sys"]);
}
