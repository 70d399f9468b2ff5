//! Rules on the current condition: load, steal, pressure, quotas, limits, permissions.

use fathom_record::Fix;
use fathom_record::Severity::{Good, Note, Severe, Warning};
use fathom_record::condition::{QuotaSight, StorePlace};

use super::fixture::{FixtureMachine, after, finds, is_unknown, look, shares};

#[test]
fn busy_cpu_is_a_warning() {
    let busy = |share: f64| look(vec![shares(0, 0.9, 0.0), shares(1, share, 0.0)]);
    finds("cpu-busy", Warning, "would use, is 30 % busy", |m| m.condition.look = busy(0.3));
    finds("cpu-busy", Severe, "CPU 0: 90 %, CPU 1: 60 %", |m| m.condition.look = busy(0.6));
    is_unknown("cpu-busy", |m| m.condition.look = None);
    is_unknown("cpu-busy", |m| m.condition.cpu = Some(7));
}

#[test]
fn steal_needs_a_guest_and_counts_allowed_cpus() {
    finds("cpu-steal", Good, "no hypervisor", |m| {
        m.host.virtualization = Some("none".to_owned());
        m.condition.look = look(vec![shares(0, 0.5, 0.9), shares(1, 0.5, 0.9)]);
    });
    finds("cpu-steal", Good, "0 % of CPU time", |m| {
        m.condition.look.as_mut().unwrap().cpus.push(shares(9, 1.0, 1.0));
    });
    is_unknown("cpu-steal", |m| m.condition.steal_is_told = Some(false));
    // As on ARM: none so far may be none that is reported.
    is_unknown("cpu-steal", |m| {
        m.condition.steal_is_told = None;
        m.condition.since_boot.as_mut().unwrap().steal = Some(0.0);
    });
    finds("cpu-steal", Good, "0 % of CPU time", |m| m.condition.steal_is_told = None);
    is_unknown("cpu-steal", |m| m.condition.look.as_mut().unwrap().cpus[1].steal = None);
}

#[test]
fn load_pressure_and_uptime_are_reported() {
    finds("load-average", Note, "on 2 CPUs", |m| m.condition.load_average = Some([2.0; 3]));
    is_unknown("load-average", |m| m.condition.load_average = None);
    for (kind, good, bad, words) in [
        ("cpu", 0.25, 0.3, "CPU 30 %"),
        ("memory", 0.01, 0.02, "memory 2 %"),
        ("io", 0.25, 0.5, "I/O 50 %"),
    ] {
        let waits = |share: f64| {
            move |m: &mut FixtureMachine| *m.condition.pressure.get_mut(kind).unwrap() = share
        };
        finds("pressure", Good, "memory", waits(good));
        finds("pressure", Warning, words, waits(bad));
    }
    is_unknown("pressure", |m| m.condition.pressure.clear());
    is_unknown("uptime", |m| m.host.uptime_s = None);
    finds("another-run", Warning, "another run of Fathom", |m| {
        m.condition.another_run = Some(true)
    });
    is_unknown("another-run", |m| m.condition.another_run = None);
}

#[test]
fn quota_below_one_cpu_is_a_warning() {
    let id = "cgroup-cpu-quota";
    finds(id, Severe, "0.50 CPU", |m| m.host.cgroup.cpu_quota = Some(0.5));
    finds(id, Good, "no CPU quota", |_| {});
    finds(id, Warning, "30 % of 100 periods, 1.5 s", |m| {
        m.host.cgroup.cpu_quota = Some(1.5);
        let throttling = &mut m.condition.throttling;
        throttling.sight = QuotaSight::Limited;
        (throttling.throttled_periods, throttling.periods) = (Some(30), Some(100));
        throttling.throttled_ns = Some(1_500_000_000);
    });
}

#[test]
fn remedy_of_quota_names_its_file() {
    let file = "/sys/fs/cgroup/a/cpu.max";
    let finding = after("cgroup-cpu-quota", |m| {
        m.host.cgroup.cpu_quota = Some(0.4);
        m.host.origin("cgroup.cpu_quota", file);
    });
    assert_eq!(finding.remedy, Some(Fix::RaiseCpuQuota { file: Some(file.to_owned()) }));
    assert_eq!(finding.read_at, [file]);
}

#[test]
fn hidden_quota_is_unknown_until_throttled() {
    let id = "cgroup-cpu-quota";
    is_unknown(id, |m| {
        m.condition.throttling.sight = QuotaSight::Hidden;
        m.condition.throttling.throttled_ns = Some(0);
    });
    is_unknown(id, |m| m.condition.throttling.sight = QuotaSight::Unknown);
}

#[test]
fn cgroup_limits_are_rated_by_what_is_left() {
    let memory = |bytes: u64| {
        move |m: &mut FixtureMachine| {
            m.host.cgroup.memory_limit_bytes = Some(bytes);
            m.condition.cgroup_memory_bytes = Some(100 << 20);
        }
    };
    finds("cgroup-memory", Warning, "512 MiB, 100 MiB in use", memory(512 << 20));
    finds("cgroup-memory", Good, "2.0 GiB", memory(2 << 30));
    is_unknown("cgroup-memory", |m| m.host.cgroup.sees_root = None);
    is_unknown("cgroup-pids", |m| (m.host.cgroup.pids_max, m.condition.pids) = (Some(100), None));
    is_unknown("cgroup-pids", |m| m.host.cgroup.sees_root = None);
}

#[test]
fn process_limit_counts_what_is_left() {
    let processes = |now: u64| {
        move |m: &mut FixtureMachine| {
            m.condition.limits.processes = Some(100);
            m.condition.limits.processes_now = Some(now);
        }
    };
    finds("limit-processes", Good, "root is exempt", |m| {
        processes(95)(m);
        m.condition.permissions.root = Some(true);
    });
    finds("limit-processes", Good, "cap_sys_resource is exempt", |m| {
        processes(95)(m);
        m.condition.permissions.capabilities = vec!["sys_resource".to_owned()];
    });
    is_unknown("limit-processes", |m| m.condition.limits.processes_now = None);
    finds("limit-files", Warning, "256 files", |m| m.condition.limits.files = Some(256));
    let space = |bytes: u64| {
        move |m: &mut FixtureMachine| m.condition.limits.address_space_bytes = Some(bytes)
    };
    finds("limit-address-space", Warning, "300 MiB", space(300 << 20));
    finds("limit-address-space", Good, "unlimited", |_| {});
    finds("limit-locked-memory", Note, "64 KiB", |m| {
        m.condition.limits.locked_bytes = Some(64 << 10);
    });
    for id in ["limit-processes", "limit-files", "limit-address-space", "limit-locked-memory"] {
        is_unknown(id, |m| m.condition.origins.clear());
    }
}

#[test]
fn missing_permissions_are_notes() {
    finds("privileges", Note, "not root", |_| {});
    finds("privileges", Good, "root", |m| m.condition.permissions.root = Some(true));
    is_unknown("privileges", |m| m.condition.permissions.root = None);
    finds("drop-caches", Note, "not writable", |_| {});
    is_unknown("drop-caches", |m| m.condition.permissions.drop_caches = None);
    finds("io-uring", Note, "io_uring_disabled = 2", |m| {
        m.condition.permissions.io_uring = Some("permission denied".to_owned());
        m.condition.permissions.io_uring_disabled = Some(2);
    });
    is_unknown("io-uring", |m| m.condition.permissions.io_uring = None);
    let counters = |paranoid: Option<i32>| {
        move |m: &mut FixtureMachine| {
            m.condition.permissions.pmu = Some(true);
            m.condition.permissions.perf_event_paranoid = paranoid;
        }
    };
    finds("perf-events", Note, "no hardware counters", |_| {});
    finds("perf-events", Note, "paranoid = 2", counters(Some(2)));
    finds("perf-events", Good, "paranoid = 1", counters(Some(1)));
    finds("perf-events", Good, "paranoid = 4", |m| {
        counters(Some(4))(m);
        m.condition.permissions.capabilities = vec!["perfmon".to_owned()];
    });
    finds("perf-events", Note, "no perf events", counters(None));
    is_unknown("perf-events", |m| m.condition.permissions.pmu = None);
}

#[test]
fn read_only_store_is_a_warning() {
    let refused = Some("create /data: it is read-only here".to_owned());
    finds("store", Warning, "read-only", |m| {
        m.condition.store = Some(StorePlace { path: "/data/fathom.db".to_owned(), refused });
    });
    is_unknown("store", |m| m.condition.store = None);
}
