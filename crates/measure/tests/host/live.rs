//! The facts of the current machine, compared with system calls.

use fathom_measure::host;

#[test]
fn cpus_agree_with_system_calls() {
    let cpu = host::read().cpu;
    // SAFETY: accesses no memory of ours.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    assert_eq!(i64::from(cpu.logical), online);
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    let allowed: Vec<u32> =
        (0..1024_u32).filter(|&cpu| set.is_set(usize::try_from(cpu).unwrap())).collect();
    assert_eq!(cpu.allowed, allowed);
    assert!(cpu.cores.is_none_or(|cores| cores >= 1 && cores <= cpu.logical), "{cpu:?}");
    assert!(cpu.sockets.is_none_or(|sockets| sockets >= 1), "{cpu:?}");
    assert_eq!(cpu.architecture, std::env::consts::ARCH);
    assert!(!cpu.model.is_empty(), "{cpu:?}");
}

#[test]
fn allowed_cpus_are_those_of_the_calling_thread() {
    let all = host::read().cpu.allowed;
    let Some(&last) = all.last() else { panic!("no CPU allowed") };
    let own = std::thread::spawn(move || {
        let mut set = rustix::thread::CpuSet::new();
        set.set(usize::try_from(last).unwrap());
        rustix::thread::sched_setaffinity(None, &set).unwrap();
        host::read().cpu.allowed
    });
    assert_eq!(own.join().unwrap(), [last]);
    assert_eq!(host::read().cpu.allowed, all);
}

#[test]
fn facts_agree_with_system_calls() {
    let host = host::read();
    let uname = rustix::system::uname();
    assert_eq!(host.kernel, uname.release().to_str().unwrap());
    assert_eq!(host.name, uname.nodename().to_str().unwrap());
    assert_eq!(host.memory.page_bytes, rustix::param::page_size() as u64);
    let info = rustix::system::sysinfo();
    let total = info.totalram * u64::from(info.mem_unit);
    assert_eq!(host.memory.total_bytes, Some(total));
    assert!(host.memory.available_bytes < host.memory.total_bytes);
    assert!(host.uptime_s.is_some_and(|seconds| seconds > 0.0));
}

#[test]
fn caches_grow_with_their_level() {
    let cpu = host::read().cpu;
    let first = cpu.allowed[0];
    for cache in &cpu.caches {
        assert!((1..=4).contains(&cache.level) && cache.size_bytes >= 1024, "{cache:?}");
        assert!(cache.shared_by.is_empty() || cache.shared_by.contains(&first), "{cache:?}");
    }
    let data: Vec<u64> = cpu
        .caches
        .iter()
        .filter(|cache| cache.kind != "instruction")
        .map(|cache| cache.size_bytes)
        .collect();
    assert!(data.is_sorted(), "{data:?}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn hypervisor_flag_agrees_with_virtualization() {
    let host = host::read();
    let named = host.virtualization.as_deref();
    let flag = host.cpu.flags.iter().any(|flag| flag == "hypervisor");
    assert_eq!(named.is_some_and(|kind| kind != "none"), flag, "{named:?}");
}

#[test]
fn tcp_settings_and_libc_are_current() {
    let host = host::read();
    let text = |path: &str| std::fs::read_to_string(path).unwrap().trim().to_owned();
    let congestion = host.tcp.congestion.unwrap();
    assert_eq!(congestion, text("/proc/sys/net/ipv4/tcp_congestion_control"));
    assert!(host.tcp.congestion_available.contains(&congestion));
    let loopback = host.network.iter().find(|link| link.name == "lo").unwrap();
    let mtu = text("/sys/class/net/lo/mtu").parse().unwrap();
    assert_eq!(loopback.mtu_bytes, Some(mtu));
    let libc = host.libc.unwrap();
    assert!(libc == "musl" || libc.starts_with("glibc 2."), "{libc}");
}

#[test]
fn host_id_is_stable_and_not_the_machine_id() {
    let id = host::read().id.unwrap();
    assert_eq!(host::read().id, Some(id.clone()));
    let raw = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    assert_ne!(raw.trim(), id);
}
