//! Differences between runs in every recorded fact.

use fathom_analysis::differences::differences;
use fathom_record::host::{BufferSizes, Cache, Disk, NetworkLink};
use fathom_record::{Cause, Document, Effort, Protocol, RunState, State, Verdict};

use super::runs::bare;

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn all(a: &Document, b: &Document) -> Vec<String> {
    let line =
        |it: fathom_analysis::differences::Difference| format!("{}: {} → {}", it.what, it.a, it.b);
    differences(a, b).into_iter().map(line).collect()
}

fn change_host(b: &mut Document) {
    let (host, gib) = (&mut b.host, 1 << 30);
    host.name = "other".to_owned();
    (host.kernel, host.libc, host.autogroup) = ("7.0.1".to_owned(), text("musl"), Some(false));
    let cpu = &mut host.cpu;
    (cpu.model, cpu.microcode, cpu.logical) = ("Other".to_owned(), text("0x1"), 4);
    (cpu.cores, cpu.allowed, cpu.governor) = (Some(2), vec![0], text("powersave"));
    cpu.caches.push(Cache {
        level: 2,
        kind: "unified".to_owned(),
        size_bytes: 1 << 19,
        ..Cache::default()
    });
    (cpu.smt, cpu.boost, cpu.frequency_driver) = (Some(true), Some(false), text("acpi"));
    (host.virtualization, host.container) = (text("none"), text("podman"));
    (host.kernel_command_line, host.distribution) = (text("mitigations=off"), text("Debian"));
    (host.clocksource, host.aslr) = (text("tsc"), Some(2));
    let memory = &mut host.memory;
    (memory.total_bytes, memory.page_bytes, memory.swap_bytes) = (Some(8 * gib), 4096, Some(gib));
    (memory.zswap.compressor, memory.zswap.max_pool_percent) = (text("lz4"), Some(20));
    (memory.thp, memory.damon) = (text("never"), text("pageout"));
    (memory.zswap.enabled, memory.ksm.run) = (Some(true), Some(2));
    memory.huge_pages = [(gib, 0), (1 << 21, 64)].into();
    (host.cgroup.memory_limit_bytes, host.cgroup.cpu_quota) = (Some(2 * gib), Some(0.5));
    let disk = |name: &str, model, scheduler| Disk {
        name: name.to_owned(),
        model,
        scheduler,
        ..Disk::default()
    };
    host.disks = vec![disk("vdb", None, None), disk("sda", text("Model "), text("none"))];
    let link = |name: &str, driver, mtu_bytes| NetworkLink {
        name: name.to_owned(),
        driver,
        mtu_bytes,
        ..NetworkLink::default()
    };
    host.network = vec![
        link("lo", None, Some(65_536)),
        link("eth0", text("virtio"), Some(1_500)),
        link("veth1234", None, Some(1_400)),
    ];
    let tcp = &mut host.tcp;
    (tcp.congestion, tcp.ports) = (text("bbr"), Some([1024, 65_535]));
    let buffer =
        |max_bytes| Some(BufferSizes { min_bytes: 4096, default_bytes: 1 << 17, max_bytes });
    (tcp.receive_buffer, tcp.send_buffer) = (buffer(6 << 20), buffer(4 << 20));
    (tcp.receive_buffer_limit_bytes, tcp.send_buffer_limit_bytes) = (Some(1 << 18), Some(1 << 17));
    (tcp.queue_discipline, tcp.time_wait_reuse) = (text("fq"), Some(2));
    (tcp.slow_start_after_idle, tcp.accept_queue_max) = (Some(true), Some(4096));
    (host.default_route.tso, host.default_route.gro) = (Some(true), Some(false));
}

#[test]
fn all_facts_of_a_host_are_compared() {
    let (mut a, mut b) = (bare(1), bare(1));
    a.host.cpu.allowed = vec![0, 1];
    change_host(&mut b);
    let of_quota = |a: &Document| all(a, &b).into_iter().find(|it| it.starts_with("CPU quota"));
    assert_eq!(of_quota(&a).as_deref(), Some("CPU quota: unknown → 0.50 CPUs"));
    a.host.cgroup.version = Some(2);
    let expected = [
        "host: bench-3 → other",
        "CPU: Example 9 7950X → Other",
        "microcode: unknown → 0x1",
        "logical CPUs: 2 → 4",
        "cores: unknown → 2",
        "caches: L1 data 32 KiB → L1 data 32 KiB, L2 unified 512 KiB",
        "SMT: unknown → on",
        "boost: unknown → off",
        "governor: unknown → powersave",
        "frequency driver: unknown → acpi",
        "memory: 5592405 TiB → 8 GiB",
        "virtualisation: kvm → none",
        "container: none → podman",
        "kernel: 6.12.9 → 7.0.1",
        "kernel command line: unknown → mitigations=off",
        "distribution: unknown → Debian",
        "C library: unknown → musl",
        "kernel clock source: unknown → tsc",
        "page size: unknown → 4 KiB",
        "transparent huge pages: unknown → never",
        "address randomisation: unknown → 2",
        "CPU quota: none → 0.50 CPUs",
        "memory limit: none → 2 GiB",
        "CPUs allowed: 0 1 → 0",
        "huge pages reserved: none → 2 MiB: 64",
        "disks: unknown → vdb, sda (Model)",
        "I/O scheduler: unknown → sda: none",
        "swap: unknown → 1 GiB",
        "DAMON: unknown → pageout",
        "zswap: unknown → on",
        "zswap compressor: unknown → lz4",
        "zswap pool limit: unknown → 20 %",
        "KSM: unknown → off",
        "autogroup: unknown → off",
        "TCP congestion control: unknown → bbr",
        "queueing discipline: unknown → fq",
        "TCP receive buffer: unknown → 4 KiB/128 KiB/6 MiB",
        "TCP send buffer: unknown → 4 KiB/128 KiB/4 MiB",
        "receive buffer limit: unknown → 256 KiB",
        "send buffer limit: unknown → 128 KiB",
        "ephemeral ports: unknown → 1024-65535",
        "TIME_WAIT reuse: unknown → 2",
        "slow start after idle: unknown → on",
        "accept queue limit: unknown → 4096",
        "MTU: unknown → lo: 65536, eth0: 1500",
        "offloads: unknown → tso on, gro off",
    ];
    assert_eq!(all(&a, &b), expected);
}

#[test]
fn all_facts_of_a_run_are_compared() {
    let (a, mut b) = (bare(1), bare(1));
    (b.run.protocol, b.run.state) = (Protocol::Trimmed, RunState::Running);
    b.run.clock.source = "monotonic_raw".to_owned();
    b.run.verdict = Verdict::because(State::Noisy, Cause::MachineDrift, "drift");
    (b.tool.version, b.run.effort, b.run.cpu) = ("0.2.0".to_owned(), Effort::Thorough, 0);
    (b.run.tuned, b.run.imposed) = (Vec::new(), vec!["FATHOM_SPIN=cpu.call=5%".to_owned()]);
    let expected = [
        "test setting: none → FATHOM_SPIN=cpu.call=5%",
        "tool: fathom 0.1.0 → fathom 0.2.0",
        "effort: quick → thorough",
        "protocol: median → trimmed",
        "state: complete → running",
        "clock: tsc → monotonic_raw",
        "CPU measured on: 1 → 0",
        "tuned: governor: performance already → none",
        "run verdict: valid → noisy",
    ];
    assert_eq!(all(&a, &b), expected);
    b = bare(1);
    b.host.memory.ksm.run = Some(1);
    assert_eq!(all(&a, &b), ["KSM: unknown → on"]);
    b = bare(1);
    b.run.folder = Some("/mnt (nfs)".to_owned());
    let mut without = a.clone();
    without.run.asked = vec!["cpu.call".to_owned()];
    assert!(all(&without, &b).is_empty(), "a run without files has no folder");
    assert_eq!(all(&a, &b), ["folder of test files: none → /mnt (nfs)"], "it was not usable");
    let mut with_files = bare(1);
    with_files.run.folder = Some("/var/tmp (ext4)".to_owned());
    assert_eq!(all(&with_files, &b), ["folder of test files: /var/tmp (ext4) → /mnt (nfs)"]);
    b = bare(1);
    b.run.state = RunState::Interrupted;
    assert_eq!(all(&a, &b), ["state: complete → interrupted"]);
    b = bare(1);
    b.host.mitigations = [("mds".to_owned(), "Not affected".to_owned())].into();
    let expected = ["mds: unknown → Not affected", "meltdown: Mitigation: PTI → unknown"];
    assert_eq!(all(&a, &b), expected);
}

#[test]
fn far_hosts_are_compared_by_name() {
    let (a, mut b) = (bare(1), bare(1));
    b.far[0].host.kernel = "6.18".to_owned();
    assert_eq!(all(&a, &b), ["far end bench-4: kernel: 6.1.0 → 6.18"]);
    b.far[0].name = "bench-5".to_owned();
    let expected = ["far end bench-4: bench-4 → none", "far end bench-5: none → bench-5"];
    assert_eq!(all(&a, &b), expected);
}
