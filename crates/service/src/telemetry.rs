//! The service's own counters, and those of the machine around it.

use std::fs;

use fathom_measure::clock::{monotonic_raw_ns, process_cpu_ns};
use serde::Serialize;

use crate::counters::{Count, ServiceCounters, connections, sum};
use crate::shared::{REACTOR, ServiceShared};

#[derive(Debug, Serialize)]
pub(crate) struct Telemetry {
    /// CLOCK_MONOTONIC_RAW.
    at_ns: u64,
    pid: u32,
    pub(crate) cpu_ns: u64,
    run_queue_wait_ns: u64,
    /// Of the reactors only.
    reactor_cpu_ns: u64,
    reactor_wait_ns: u64,
    /// CPUs that the process may use: the allowed ones, or its quota.
    cpus: f64,
    /// How long its cgroups were throttled by a quota.
    throttled_ns: Option<u64>,
    pub(crate) resident_bytes: u64,
    responses: u64,
    responses_ok: u64,
    bytes_sent: u64,
    bytes_on_wire: u64,
    busy_ns: u64,
    connections: u64,
    pub(crate) descriptors: u64,
    /// Fetched from devices by this process.
    read_bytes: Option<u64>,
    device: Option<TelemetryDevice>,
    links: Vec<TelemetryLink>,
    tcp_retransmits: Option<u64>,
    congestion: String,
    cold: bool,
    /// The serial section of every request.
    serial_ns: u64,
    evictions_missed: u64,
    threads: usize,
}

/// The block device of the folder.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct TelemetryDevice {
    name: String,
    reads: u64,
    read_bytes: u64,
    busy_ns: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct TelemetryLink {
    name: String,
    tx_bytes: u64,
    rx_bytes: u64,
    tx_packets: u64,
    speed_bits: Option<u64>,
}

pub(crate) fn read(shared: &ServiceShared) -> Telemetry {
    let of = |of: fn(&ServiceCounters) -> &Count| sum(&shared.counters, of);
    let device = shared.root.stat.st_dev;
    let schedules = schedules();
    let run_queue_wait_ns = schedules.iter().map(|thread| thread.wait_ns).sum();
    let reactors = || schedules.iter().filter(|thread| thread.is_reactor);
    Telemetry {
        at_ns: monotonic_raw_ns(),
        pid: std::process::id(),
        cpu_ns: process_cpu_ns(),
        run_queue_wait_ns,
        reactor_cpu_ns: reactors().map(|thread| thread.cpu_ns).sum(),
        reactor_wait_ns: reactors().map(|thread| thread.wait_ns).sum(),
        cpus: cpus(),
        throttled_ns: fathom_measure::disturbance::throttled_ns(),
        resident_bytes: resident_bytes(),
        responses: of(|c| &c.responses),
        responses_ok: of(|c| &c.responses_ok),
        bytes_sent: of(|c| &c.body_bytes),
        bytes_on_wire: of(|c| &c.wire_bytes),
        busy_ns: of(|c| &c.busy_ns),
        connections: connections(&shared.counters) as u64,
        descriptors: descriptors(),
        read_bytes: fathom_fileio::proc_io::read_bytes(),
        device: device_of(rustix::fs::major(device), rustix::fs::minor(device)),
        links: text("/proc/net/dev").map(|text| links(&text)).unwrap_or_default(),
        tcp_retransmits: text("/proc/net/snmp").and_then(|text| retransmits(&text)),
        congestion: shared.congestion.clone(),
        cold: shared.cold,
        serial_ns: shared.serial_ns,
        evictions_missed: shared.evictions_missed.load(std::sync::atomic::Ordering::Relaxed),
        threads: shared.counters.len(),
    }
}

fn cpus() -> f64 {
    let allowed = fathom_measure::affinity::allowed().len() as f64;
    fathom_measure::host::HostReader::live().cpu_quota().map_or(allowed, |quota| quota.min(allowed))
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// CPU time of a thread, and the time that it was ready and did not run.
struct TelemetrySchedule {
    is_reactor: bool,
    cpu_ns: u64,
    wait_ns: u64,
}

fn schedules() -> Vec<TelemetrySchedule> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let read = |thread: fs::DirEntry| {
        let name = fs::read_to_string(thread.path().join("comm")).ok()?;
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
        let (cpu_ns, wait_ns) = (numbers.next()??, numbers.next()??);
        Some(TelemetrySchedule { is_reactor: name.starts_with(REACTOR), cpu_ns, wait_ns })
    };
    threads.filter_map(read).collect()
}

fn resident_bytes() -> u64 {
    let pages = text("/proc/self/statm")
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

fn descriptors() -> u64 {
    // Since Linux 6.2 the size of the folder is their number.
    match fs::metadata("/proc/self/fd").map(|data| data.len()) {
        Ok(count) if count > 0 => count,
        _ => fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64),
    }
}

/// Whether the folder is on a block device.
pub(crate) fn has_device(shared: &ServiceShared) -> bool {
    let device = shared.root.stat.st_dev;
    device_of(rustix::fs::major(device), rustix::fs::minor(device)).is_some()
}

fn device_of(major: u32, minor: u32) -> Option<TelemetryDevice> {
    let folder = format!("/sys/dev/block/{major}:{minor}");
    let name = fs::canonicalize(&folder).ok()?.file_name()?.to_string_lossy().into_owned();
    device(name, &text(&format!("{folder}/stat"))?)
}

/// From the fields of /sys/block/…/stat: sectors have 512 bytes.
fn device(name: String, stat: &str) -> Option<TelemetryDevice> {
    let fields: Vec<u64> = stat.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [reads, _, sectors] = *fields.first_chunk()?;
    let busy_ns = fields.get(9)?.saturating_mul(1_000_000);
    Some(TelemetryDevice { name, reads, read_bytes: sectors.saturating_mul(512), busy_ns })
}

/// From /proc/net/dev, which is that of this process's network namespace.
fn links(text: &str) -> Vec<TelemetryLink> {
    let link = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let name = name.trim().to_owned();
        let count = |at| counts.split_whitespace().nth(at)?.parse::<u64>().ok();
        let (rx_bytes, tx_bytes, tx_packets) = (count(0)?, count(8)?, count(9)?);
        // Without a device it is a constant of the driver.
        let folder = format!("/sys/class/net/{name}");
        let has_device = fs::exists(format!("{folder}/device")).unwrap_or(false);
        let speed =
            has_device.then(|| fs::read_to_string(format!("{folder}/speed")).ok()).flatten();
        // In Mbit/s; -1 without a carrier.
        let speed = speed.and_then(|text| text.trim().parse::<u64>().ok());
        let speed_bits = speed.map(|mbit| mbit.saturating_mul(1_000_000));
        Some(TelemetryLink { name, tx_bytes, rx_bytes, tx_packets, speed_bits })
    };
    text.lines().filter_map(link).collect()
}

/// `RetransSegs` of /proc/net/snmp: a line of names, then one of numbers.
fn retransmits(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let mut both = names.split_whitespace().zip(numbers.split_whitespace());
    both.find(|(name, _)| *name == "RetransSegs")?.1.parse().ok()
}

/// Parses a text as each of the kernel's files.
#[cfg(any(test, fuzzing))]
pub(crate) fn check_kernel_files(text: &str) {
    let found = device("vda".to_owned(), text).map_or(0, |device| device.read_bytes);
    assert!(found.is_multiple_of(512) || found == u64::MAX);
    let _ = retransmits(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_files_are_parsed() {
        let stat = " 10 2 4096 7 1 2 3 4 0 250 260 0 0 0 0 0 0\n";
        let expected = TelemetryDevice {
            name: "vda".into(),
            reads: 10,
            read_bytes: 2 << 20,
            busy_ns: 250_000_000,
        };
        assert_eq!(device("vda".into(), stat), Some(expected));
        assert_eq!(device("vda".into(), "1 2"), None);
        let snmp = "Ip: A\nIp: 1\nTcp: RtoAlgorithm RetransSegs InErrs\nTcp: 1 42 0\n";
        assert_eq!(retransmits(snmp), Some(42));
        let dev = "Inter-| Receive | Transmit\n face |bytes packets\n \
                   none0: 5 1 0 0 0 0 0 0 7 2 0 0 0 0 0 0\n";
        let link = TelemetryLink {
            name: "none0".into(),
            tx_bytes: 7,
            rx_bytes: 5,
            tx_packets: 2,
            speed_bits: None,
        };
        assert_eq!(links(dev), [link]);
    }
}
