//! A quiet virtual machine in a cloud, and findings after a change to it.

use fathom_analysis::diagnosis::{Subject, diagnose};
use fathom_record::condition::{CpuShares, Limits, Look, Permissions, QuotaSight, StorePlace};
use fathom_record::diagnosis::ClockState;
use fathom_record::host::{BufferSizes, DefaultRoute, NetworkLink, Tcp};
use fathom_record::run::ClockFacts;
use fathom_record::{Condition, Finding, Host, Severity};

#[derive(Clone, Default)]
pub(crate) struct FixtureMachine {
    pub(crate) host: Host,
    pub(crate) condition: Condition,
    pub(crate) clock: ClockState,
}

impl FixtureMachine {
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let (host, condition, clock) = (&self.host, &self.condition, &self.clock);
        diagnose(&Subject { host, condition, clock })
    }

    pub(crate) fn finding(&self, id: &str) -> Finding {
        self.findings().into_iter().find(|finding| finding.id == id).unwrap()
    }
}

/// The finding of the rule `id` on the quiet machine after a change.
pub(crate) fn after(id: &str, change: impl FnOnce(&mut FixtureMachine)) -> Finding {
    let mut machine = quiet();
    change(&mut machine);
    machine.finding(id)
}

/// Asserts severity and text of the rule `id` after a change.
pub(crate) fn finds(
    id: &str,
    severity: Severity,
    words: &str,
    change: impl FnOnce(&mut FixtureMachine),
) {
    let finding = after(id, change);
    assert_eq!((finding.severity, finding.unknown), (severity, false), "{finding:?}");
    assert!(finding.found.contains(words), "`{words}` is missing: {finding:?}");
}

/// Asserts that the finding of the rule `id` is unknown after a change.
pub(crate) fn is_unknown(id: &str, change: impl FnOnce(&mut FixtureMachine)) {
    let finding = after(id, change);
    assert_eq!((finding.severity, finding.unknown), (Severity::Note, true), "{finding:?}");
    assert!(has_reason(&finding), "{finding:?}");
}

/// Whether an unknown finding gives the reason in parentheses.
pub(crate) fn has_reason(finding: &Finding) -> bool {
    finding.found.starts_with("unknown: ") && finding.found.ends_with(')')
}

pub(crate) fn shares(cpu: u32, busy: f64, steal: f64) -> CpuShares {
    CpuShares { cpu: Some(cpu), busy, steal: Some(steal), ticks: 20 }
}

pub(crate) fn look(cpus: Vec<CpuShares>) -> Option<Look> {
    Some(Look { length_ns: 200e6, cpus, swapped_pages: Some(0), busiest: Vec::new() })
}

/// A typical cloud machine: two CPUs, no governor, no hardware counters, an unprivileged user.
pub(crate) fn quiet() -> FixtureMachine {
    FixtureMachine { host: host(), condition: condition(), clock: clock() }
}

fn host() -> Host {
    let mut host = Host {
        virtualization: Some("kvm".to_owned()),
        clocksource: Some("tsc".to_owned()),
        clocksources_available: vec!["tsc".to_owned(), "kvm-clock".to_owned()],
        aslr: Some(2),
        uptime_s: Some(86_400.0),
        ..Host::default()
    };
    host.mitigations.insert("spectre_v2".to_owned(), "Mitigation: Retpolines".to_owned());
    (host.cpu.logical, host.cpu.allowed, host.cpu.smt) = (2, vec![0, 1], Some(false));
    host.cpu.numa.insert(0, vec![0, 1]);
    host.memory.total_bytes = Some(8 << 30);
    host.memory.available_bytes = Some(7 << 30);
    host.memory.swap_bytes = Some(0);
    host.memory.thp = Some("madvise".to_owned());
    host.memory.damon = Some("none".to_owned());
    (host.memory.zswap.enabled, host.memory.ksm.run) = (Some(false), Some(0));
    host.autogroup = Some(false);
    network(&mut host);
    (host.cgroup.version, host.cgroup.sees_root) = (Some(2), Some(true));
    (host.cpu.isolated, host.cpu.nohz_full) = (Some(Vec::new()), Some(Vec::new()));
    host.origin("memory.thp", "/sys/kernel/mm/transparent_hugepage/enabled");
    host
}

pub(crate) fn link(name: &str, mtu: u32) -> NetworkLink {
    let (mtu_bytes, up) = (Some(mtu), Some(true));
    NetworkLink { name: name.to_owned(), mtu_bytes, up, ..NetworkLink::default() }
}

fn network(host: &mut Host) {
    host.network = vec![link("eth0", 1500), link("lo", 65_536)];
    host.default_route = DefaultRoute {
        interface: Some("eth0".to_owned()),
        tso: Some(true),
        gso: Some(true),
        gro: Some(true),
    };
    let buffer = |max_bytes| BufferSizes { min_bytes: 4096, default_bytes: 16_384, max_bytes };
    host.tcp = Tcp {
        congestion: Some("cubic".to_owned()),
        receive_buffer: Some(buffer(6 << 20)),
        send_buffer: Some(buffer(4 << 20)),
        receive_buffer_limit_bytes: Some(212_992),
        ports: Some([32_768, 60_999]),
        accept_queue_max: Some(4096),
        ..Tcp::default()
    };
}

fn condition() -> Condition {
    let mut condition = Condition {
        cpu: Some(1),
        cpu_reason: "0 % busy just now".to_owned(),
        look: look(vec![shares(0, 0.05, 0.0), shares(1, 0.0, 0.0)]),
        since_boot: Some(CpuShares { cpu: None, busy: 0.1, steal: Some(0.001), ticks: 1_000_000 }),
        steal_is_told: Some(true),
        load_average: Some([0.1, 0.2, 0.3]),
        runnable: Some(1),
        pressure: ["cpu", "memory", "io"].map(|kind| (kind.to_owned(), 0.0)).into(),
        swap_used_bytes: Some(0),
        time_wait: Some(3),
        another_run: Some(false),
        store: Some(StorePlace { path: "/data/fathom.db".to_owned(), refused: None }),
        proc_readable: true,
        sys_readable: true,
        permissions: Permissions {
            root: Some(false),
            perf_event_paranoid: Some(2),
            pmu: Some(false),
            io_uring_disabled: Some(0),
            io_uring: Some("allowed".to_owned()),
            drop_caches: Some(false),
            ..Permissions::default()
        },
        limits: Limits {
            processes: Some(30_000),
            processes_now: Some(40),
            files: Some(1024),
            locked_bytes: Some(8 << 20),
            address_space_bytes: None,
        },
        ..Condition::default()
    };
    condition.throttling.sight = QuotaSight::Unlimited;
    for name in ["processes", "files", "locked_bytes", "address_space_bytes"] {
        condition.origin(&format!("limits.{name}"), "/proc/self/limits");
    }
    condition
}

fn clock() -> ClockState {
    let facts = ClockFacts {
        source: "tsc".to_owned(),
        hz: 2.6e9,
        resolution_ns: 10.0,
        read_ns: 47.0,
        details: [("calibration_repeat_ppm".to_owned(), 0.1)].into(),
        ..ClockFacts::default()
    };
    ClockState { facts: Some(facts), failure: None }
}
