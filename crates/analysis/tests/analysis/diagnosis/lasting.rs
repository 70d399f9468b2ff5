//! Rules on properties of the machine: clock, frequency, topology, memory, environment.

use fathom_record::Fix;
use fathom_record::Severity::{Good, Note, Severe, Warning};
use fathom_record::diagnosis::Acceptable;

use super::fixture::{FixtureMachine, after, finds, is_unknown, look, quiet, shares};

fn refused(read_ns: f64, resolution_ns: f64) -> impl FnOnce(&mut FixtureMachine) {
    move |m| {
        let clock = m.clock.facts.as_mut().unwrap();
        clock.source = "monotonic_raw".to_owned();
        clock.refused = Some("the kernel's clock source is hpet".to_owned());
        (clock.read_ns, clock.resolution_ns, clock.hz) = (read_ns, resolution_ns, 1e9);
    }
}

#[test]
fn rejected_counter_is_rated_by_its_substitute() {
    let id = "clock-counter";
    finds(id, Good, "tsc at 2.6000 GHz, resolution 10 ns", |_| {});
    finds(id, Severe, "out of order", |m| {
        refused(60.0, 1.0)(m);
        let clock = m.clock.facts.as_mut().unwrap();
        clock.refused = Some("stamps are out of order by up to 40 ticks".to_owned());
        clock.details.insert("out_of_order_ticks".to_owned(), 40.0);
    });
    let standing = |m: &mut FixtureMachine| {
        m.clock.facts = None;
        m.clock.failure = Some("0 ticks in 50 ms".to_owned());
    };
    finds(id, Severe, "0 ticks in 50 ms", standing);
    is_unknown("clock-calibration", standing);
}

#[test]
fn calibration_is_rated_by_its_repeatability() {
    let ppm = |ppm: f64| {
        move |m: &mut FixtureMachine| {
            let clock = m.clock.facts.as_mut().unwrap();
            clock.details.insert("calibration_repeat_ppm".to_owned(), ppm);
        }
    };
    finds("clock-calibration", Good, "1.00 ppm", ppm(1.0));
    finds("clock-calibration", Good, "not needed", refused(60.0, 1.0));
    is_unknown("clock-calibration", |m| m.clock.facts.as_mut().unwrap().details.clear());
}

#[test]
fn slow_clock_source_is_a_warning() {
    finds("clock-source", Good, "kvm-clock", |m| m.host.clocksource = Some("kvm-clock".to_owned()));
    let back = after("clock-source", |m| m.host.clocksource = Some("hpet".to_owned()));
    assert_eq!(back.severity, Warning);
    assert_eq!(back.remedy, Some(Fix::ChooseTsc));
    let lost = after("clock-source", |m| {
        m.host.clocksource = Some("acpi_pm".to_owned());
        m.host.clocksources_available = vec!["acpi_pm".to_owned()];
    });
    assert_eq!(lost.remedy, Some(Fix::FindTscFailure));
    is_unknown("clock-source", |m| m.host.clocksource = None);
}

#[test]
fn ondemand_governor_is_a_warning() {
    is_unknown("cpu-governor", |_| {});
    let unread = after("cpu-governor", |_| {});
    assert!(unread.found.contains("virtual machine"), "{unread:?}");
    let governed = |governor: &str| {
        let governor = governor.to_owned();
        move |m: &mut FixtureMachine| {
            m.host.cpu.governor = Some(governor);
            m.host.cpu.frequency_driver = Some("intel_pstate".to_owned());
        }
    };
    for governor in ["powersave", "schedutil", "ondemand", "conservative"] {
        finds("cpu-governor", Warning, "driver intel_pstate", governed(governor));
    }
    let slow = after("cpu-governor", governed("powersave"));
    assert_eq!(slow.remedy, Some(Fix::SetGovernor));
    finds("cpu-governor", Good, "performance", governed("performance"));
    finds("cpu-governor", Note, "userspace", governed("userspace"));
    finds("cpu-boost", Note, "on", |m| m.host.cpu.boost = Some(true));
    finds("cpu-boost", Good, "off", |m| m.host.cpu.boost = Some(false));
    is_unknown("cpu-boost", |_| {});
}

#[test]
fn busy_sibling_is_a_warning() {
    let pair = |busy: f64| {
        move |m: &mut FixtureMachine| {
            m.host.cpu.smt = Some(true);
            m.host.cpu.siblings = vec![vec![0, 4], vec![1, 5]];
            m.condition.look = look(vec![shares(1, 0.0, 0.0), shares(5, busy, 0.0)]);
        }
    };
    finds("cpu-smt", Note, "CPU 1 shares its core with CPU 5, 10 % busy", pair(0.1));
    finds("cpu-smt", Warning, "CPU 5 is 80 % busy", pair(0.8));
    assert_eq!(after("cpu-smt", pair(0.8)).remedy, Some(Fix::TakeSiblingOffline));
    finds("cpu-smt", Good, "no SMT sibling", |m| {
        pair(0.8)(m);
        m.condition.cpu = Some(2);
    });
    is_unknown("cpu-smt", |m| m.host.cpu.smt = None);
    is_unknown("cpu-smt", |m| m.condition.cpu = None);
}

#[test]
fn hardware_properties_are_notes() {
    finds("cpu-kinds", Note, "a run would use CPU 1 (cpu_core)", |m| {
        m.host.cpu.kinds.insert("cpu_core".to_owned(), vec![0, 1]);
        m.host.cpu.kinds.insert("cpu_atom".to_owned(), vec![2, 3]);
    });
    is_unknown("cpu-kinds", |m| m.host.cpu.logical = 0);
    is_unknown("cpu-kinds", |m| m.condition.sys_readable = false);
    let one_kind = after("cpu-kinds", |m| {
        m.host.cpu.kinds.insert("cpu_core".to_owned(), vec![0, 1]);
        m.host.cpu.kinds.insert("cpu_atom".to_owned(), vec![2, 3]);
        m.host.cpu.allowed = vec![0, 1];
    });
    assert_eq!(one_kind.remedy, Some(Fix::Nothing { why: Acceptable::OnPurpose }));
    finds("cpu-numa", Note, "2 nodes; a run would use node 0", |m| {
        m.host.cpu.numa.insert(1, vec![2, 3]);
    });
    finds("cpu-numa", Note, "2 nodes, distances 10 to 21; a run", |m| {
        m.host.cpu.numa.insert(1, vec![2, 3]);
        m.host.cpu.numa_distances = [(0, vec![10, 21]), (1, vec![21, 10])].into();
    });
    is_unknown("cpu-numa", |m| m.host.cpu.numa.clear());
    finds("cpu-mitigations", Note, "mitigated: spectre_v2; vulnerable: mds", |m| {
        m.host.mitigations.insert("mds".to_owned(), "Vulnerable; SMT on".to_owned());
    });
    finds("cpu-mitigations", Good, "none needed", |m| {
        m.host.mitigations = [("mds".to_owned(), "Not affected".to_owned())].into();
    });
    is_unknown("cpu-mitigations", |m| m.host.mitigations.clear());
}

#[test]
fn isolated_cpus_are_named() {
    let isolated = |cpus: &[u32], chosen: u32| {
        let cpus = cpus.to_vec();
        move |m: &mut FixtureMachine| {
            (m.host.cpu.isolated, m.condition.cpu) = (Some(cpus), Some(chosen));
        }
    };
    let id = "cpu-isolated";
    finds(id, Good, "no isolated CPU", |_| {});
    finds(id, Note, "isolcpus: CPU 1-3; a run would use CPU 1", isolated(&[1, 2, 3], 1));
    finds(id, Note, "isolcpus: CPU 1-3, some of them allowed", isolated(&[1, 2, 3], 0));
    finds(id, Good, "isolcpus: CPU 2-3", isolated(&[2, 3], 1));
    finds(id, Good, "nohz_full: CPU 1", |m| m.host.cpu.nohz_full = Some(vec![1]));
    is_unknown(id, |m| m.host.cpu.isolated = None);
    let four =
        |m: &mut FixtureMachine| (m.host.cpu.logical, m.host.cpu.isolated) = (4, Some(vec![2, 3]));
    finds("cpus-allowed", Note, "CPU 0-1 of 4 (isolcpus)", four);
}

#[test]
fn missing_files_are_not_missing_features() {
    let no_sys = |m: &mut FixtureMachine| m.condition.sys_readable = false;
    let found = |id: &str, change: fn(&mut FixtureMachine)| {
        let finding = after(id, |m| {
            no_sys(m);
            m.host.virtualization = Some("none".to_owned());
            change(m);
        });
        assert!(finding.unknown, "{finding:?}");
        finding.found
    };
    for (id, change) in [
        ("damon", (|m| m.host.memory = Default::default()) as fn(&mut FixtureMachine)),
        ("cpu-governor", |_| {}),
        ("cpu-boost", |_| {}),
        ("zswap", |m| m.host.memory.zswap.enabled = None),
        ("clock-source", |m| m.host.clocksource = None),
        ("perf-events", |m| m.condition.permissions.pmu = None),
    ] {
        assert!(found(id, change).ends_with("(/sys cannot be read)"), "{id}");
    }
    let by_root = after("damon", |m| m.host.memory.damon = None);
    assert!(by_root.found.contains("readable by root only"), "{by_root:?}");
    is_unknown("perf-events", |m| {
        (m.condition.permissions.pmu, m.condition.proc_readable) = (Some(true), false);
        m.condition.permissions.perf_event_paranoid = None;
    });
    is_unknown("container", |m| m.condition.proc_readable = false);
    for logical in ["cpus-allowed", "load-average", "cpu-kinds"] {
        is_unknown(logical, |m| m.host.cpu.logical = 0);
    }
    for id in ["cgroup-memory", "cgroup-pids"] {
        is_unknown(id, |m| m.host.cgroup.sees_root = Some(false));
    }
}

#[test]
fn pressure_that_is_off_is_not_called_a_build() {
    let off = |line: &'static str| {
        move |m: &mut FixtureMachine| {
            m.condition.pressure.clear();
            m.condition.pressure_missing = Some("psi=0 on the kernel command line".to_owned());
            m.condition.counters_missing.push("pressure (/proc/pressure)".to_owned());
            m.host.kernel_command_line = Some(line.to_owned());
        }
    };
    assert_eq!(after("counters", off("quiet psi=0")).remedy, Some(Fix::EnablePressure));
    // It is given already: the kernel has no pressure.
    let built = Some(Fix::Nothing { why: Acceptable::KernelBuild });
    assert_eq!(after("counters", off("psi=1")).remedy, built);
    let reason = after("pressure", off("psi=0")).found;
    assert_eq!(reason, "unknown: pressure (psi=0 on the kernel command line)");
}

#[test]
fn remedies_change_something() {
    let nothing = |why| Some(Fix::Nothing { why });
    let root = |m: &mut FixtureMachine| m.condition.permissions.root = Some(true);
    assert_eq!(after("drop-caches", |_| {}).remedy, Some(Fix::BecomeRootToDropCaches));
    assert_eq!(after("drop-caches", root).remedy, nothing(Acceptable::Forbidden));
    let runs = |m: &mut FixtureMachine| m.host.memory.damon = Some("unknown actions".to_owned());
    assert_eq!(after("damon", runs).remedy, Some(Fix::ReadDamonAsRoot));
    let by_root = after("damon", |m| {
        runs(m);
        root(m);
    });
    assert_eq!(by_root.remedy, nothing(Acceptable::Forbidden));
    // The clock source is as fast as any, or that of an emulator.
    let slow = |m: &mut FixtureMachine| refused(500.0, 1.0)(m);
    assert_eq!(after("clock-counter", slow).remedy, nothing(Acceptable::KernelClock));
    let hpet = |m: &mut FixtureMachine| m.host.clocksource = Some("hpet".to_owned());
    let see = Fix::SeeFinding { id: "clock-source".to_owned() };
    let of_hpet = after("clock-counter", |m| {
        slow(m);
        hpet(m);
    });
    assert_eq!(of_hpet.remedy, Some(see));
    let emulated = after("clock-source", |m| {
        hpet(m);
        m.host.emulation = Some("tcg".to_owned());
    });
    assert_eq!(emulated.remedy, nothing(Acceptable::Nature));
    let arm = after("clock-source", |m| {
        m.host.cpu.architecture = "aarch64".to_owned();
        m.host.clocksource = Some("timer".to_owned());
        m.host.clocksources_available.clear();
    });
    assert_eq!(arm.remedy, Some(Fix::FindClockSource));
}

#[test]
fn restricted_cpus_are_reported() {
    let allowed = |allowed: &[u32], logical: u32| {
        let allowed = allowed.to_vec();
        move |m: &mut FixtureMachine| (m.host.cpu.allowed, m.host.cpu.logical) = (allowed, logical)
    };
    finds("cpus-allowed", Note, "one CPU", allowed(&[0], 1));
    finds("cpus-allowed", Warning, "CPU 3 of 8", allowed(&[3], 8));
    finds("cpus-allowed", Note, "CPU 0-1,4 of 8", allowed(&[0, 1, 4], 8));
    finds("cpus-allowed", Severe, "no allowed CPU", allowed(&[], 8));
    finds("cpus-allowed", Note, "cpuset", |m| {
        allowed(&[0, 1], 8)(m);
        m.host.cgroup.cpus = vec![0, 1];
    });
}

#[test]
fn memory_is_rated_by_available_bytes() {
    finds("memory-available", Good, "7.0 GiB of 8.0 GiB", |_| {});
    is_unknown("memory-available", |m| m.host.memory.available_bytes = None);
    let swap = |used: u64, moved: u64| {
        move |m: &mut FixtureMachine| {
            m.host.memory.swap_bytes = Some(2 << 30);
            m.condition.swap_used_bytes = Some(used);
            m.condition.look.as_mut().unwrap().swapped_pages = Some(moved);
        }
    };
    finds("swap", Good, "no swap", |_| {});
    finds("swap", Good, "0 KiB of 2.0 GiB", swap(0, 0));
    finds("swap", Note, "100 MiB of 2.0 GiB", swap(100 << 20, 0));
    finds("swap", Warning, "7 pages are being swapped", swap(100 << 20, 7));
    is_unknown("swap", |m| m.host.memory.swap_bytes = None);
    finds("huge-pages", Note, "always", |m| m.host.memory.thp = Some("always".to_owned()));
    finds("huge-pages", Note, "never", |m| m.host.memory.thp = Some("never".to_owned()));
    is_unknown("huge-pages", |m| m.host.memory.thp = None);
    finds("aslr", Warning, "off", |m| m.host.aslr = Some(0));
    finds("aslr", Note, "partial", |m| m.host.aslr = Some(1));
    is_unknown("aslr", |m| m.host.aslr = None);
}

#[test]
fn unreadable_kernel_files_are_severe() {
    let files = |proc: bool, sys: bool| {
        move |m: &mut FixtureMachine| {
            (m.condition.proc_readable, m.condition.sys_readable) = (proc, sys);
        }
    };
    finds("kernel-files", Severe, "/proc cannot", files(false, true));
    finds("kernel-files", Severe, "neither", files(false, false));
    finds("kernel-files", Warning, "/sys cannot", files(true, false));
    is_unknown("counters", files(false, true));
    finds("counters", Note, "pressure", |m| {
        m.condition.counters_missing.push("pressure".to_owned());
    });
    finds("virtual-machine", Note, "kvm", |_| {});
    finds("virtual-machine", Good, "no virtual machine", |m| {
        m.host.virtualization = Some("none".to_owned());
    });
    finds("virtual-machine", Severe, "CPU emulated (tcg)", |m| {
        m.host.emulation = Some("tcg".to_owned());
    });
    is_unknown("virtual-machine", |m| m.host.virtualization = None);
    finds("container", Note, "podman", |m| m.host.container = Some("podman".to_owned()));
    assert_eq!(quiet().finding("container").severity, Good);
    is_unknown("host-id", |m| m.host.id = None);
    finds("host-id", Note, "by the host's name", |m| {
        m.host.id = Some("1".to_owned());
        m.host.origin("id", format!("HMAC of {}", fathom_record::host::ID_BY_NAME));
    });
    finds("host-id", Good, "by the given name", |m| {
        m.host.id = Some("1".to_owned());
        m.host.origin("id", format!("HMAC of {}", fathom_record::host::NAME_VARIABLE));
    });
}

#[test]
fn expected_load_is_no_more_than_a_note() {
    let finding = |id: &str, severity| fathom_record::Finding {
        id: id.to_owned(),
        severity,
        ..fathom_record::Finding::default()
    };
    let mut all = vec![finding("cpu-busy", Severe), finding("clock-calibration", Severe)];
    fathom_analysis::diagnosis::expect_busy(&mut all);
    let of: Vec<_> = all.iter().map(|one| (one.id.as_str(), one.severity)).collect();
    assert_eq!(of, [("clock-calibration", Severe), ("cpu-busy", Note)], "only the load");
}
