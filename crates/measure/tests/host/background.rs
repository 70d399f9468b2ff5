//! Background activity of the kernel, on synthetic machines.

use crate::fixture::HostMachine;

const DAMON: &str = "/sys/kernel/mm/damon/admin/kdamonds";

/// A kernel with two DAMON threads.
fn with_damon(first: &str, second: &str) -> HostMachine {
    HostMachine::default().with(&format!(
        "{DAMON}/nr_kdamonds = 2
        {DAMON}/0/state = {first}
        {DAMON}/0/contexts/0/schemes/0/action = pageout
        {DAMON}/0/contexts/0/schemes/1/action = lru_prio
        {DAMON}/1/state = {second}
        {DAMON}/1/contexts/nr_contexts = 1"
    ))
}

fn damon(machine: &HostMachine) -> Option<String> {
    machine.read().memory.damon
}

#[test]
fn damon_lists_actions_of_active_schemes() {
    assert_eq!(damon(&with_damon("on", "off")).as_deref(), Some("lru_prio, pageout"));
    assert_eq!(damon(&with_damon("off", "on")).as_deref(), Some("stat"));
    assert_eq!(damon(&with_damon("off", "off")).as_deref(), Some("none"));
    let module = "/sys/module/damon_reclaim/parameters/enabled";
    let reclaim = with_damon("off", "off").with(&format!("{module} = Y"));
    assert_eq!(damon(&reclaim).as_deref(), Some("damon_reclaim"));
    assert_eq!(reclaim.read().origins["memory.damon"], module);
    let without = HostMachine::default().with("/sys/kernel/mm/ksm/run = 0");
    assert_eq!(damon(&without).as_deref(), Some("none"));
    assert_eq!(damon(&HostMachine::default()), None);
}

/// For unprivileged users the state file exists and is not readable.
#[test]
fn unreadable_damon_is_detected_by_its_thread() {
    let hidden = with_damon(r"\n", "off");
    assert_eq!(damon(&hidden), None, "kernel threads are not visible");
    let seen = hidden.with("/proc/2/comm = kthreadd\n/proc/1/comm = init");
    assert_eq!(damon(&seen).as_deref(), Some("none"));
    let running = seen.with("/proc/77/comm = kdamond.0");
    assert_eq!(damon(&running).as_deref(), Some("unknown actions"));
    assert_eq!(running.read().origins["memory.damon"], "/proc/*/comm");
}

#[test]
fn torn_tcp_settings_are_absent() {
    let torn = crate::laptop::machine().with(
        "/proc/sys/net/ipv4/tcp_rmem = 4096 131072
        /proc/sys/net/ipv4/tcp_wmem = 4096 x 4194304
        /proc/sys/net/ipv4/ip_local_port_range = 60999 32768
        /proc/sys/net/ipv4/tcp_slow_start_after_idle = 7",
    );
    let tcp = torn.read().tcp;
    assert_eq!((tcp.receive_buffer, tcp.send_buffer), (None, None));
    assert_eq!((tcp.ports, tcp.slow_start_after_idle), (None, None));
}
