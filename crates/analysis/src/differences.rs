//! Differences between the hosts and settings of two runs, for comparisons and histories.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::host::{BufferSizes, DirtyLimits, NetworkLink, performance_parameters};
use fathom_record::quantity::binary_size;
use fathom_record::{Document, Host, Protocol, RunHead};
use serde::Serialize;

/// A difference of how well two runs were measured.
pub(crate) const QUALITY: &str = "run verdict";

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The fact, such as `kernel`.
    pub what: String,
    /// Its value in the first run; `unknown` if not recorded.
    pub a: String,
    pub b: String,
}

/// Recorded facts of the machine and the run that differ.
pub fn differences<'a>(a: impl Into<RunHead<'a>>, b: impl Into<RunHead<'a>>) -> Vec<Difference> {
    let (a, b) = (a.into(), b.into());
    let mut all = between_hosts(a.host, b.host);
    all.extend(between(facts_of_run(a), facts_of_run(b)));
    // A run of metrics without files has none; one of the same metrics could not use its folder.
    let folders = [a, b].map(|it| it.run.folder.clone());
    let are_of_files = folders.iter().all(Option::is_some) || a.run.asked == b.run.asked;
    if let [in_a, in_b] = folders.map(Option::unwrap_or_default)
        && are_of_files
        && in_a != in_b
    {
        all.push(difference("folder of test files", Some(in_a), Some(in_b)));
    }
    let names: BTreeSet<&str> = a.far.iter().chain(b.far).map(|far| far.name.as_str()).collect();
    for name in names {
        let of = |run: RunHead<'_>| run.far.iter().position(|far| far.name == name);
        let what = format!("far end {name}");
        match (of(a), of(b)) {
            (Some(in_a), Some(in_b)) => {
                let found = between_hosts(&a.far[in_a].host, &b.far[in_b].host);
                all.extend(found.into_iter().map(|it| {
                    let what = format!("{what}: {}", it.what);
                    Difference { what, ..it }
                }));
            }
            (in_a, in_b) => {
                let there = |at: Option<usize>| at.map_or_else(String::new, |_| name.to_owned());
                all.push(difference(&what, Some(there(in_a)), Some(there(in_b))));
            }
        }
    }
    all
}

fn between_hosts(a: &Host, b: &Host) -> Vec<Difference> {
    let mut all: Vec<Difference> = of_host(a, b).into_iter().collect();
    all.extend(between(facts(a), facts(b)));
    let (in_a, in_b) = (&a.mitigations, &b.mitigations);
    let names: BTreeSet<&String> = in_a.keys().chain(in_b.keys()).collect();
    let differ = names.into_iter().filter(|name| in_a.get(*name) != in_b.get(*name));
    all.extend(differ.map(|it| difference(it, in_a.get(it).cloned(), in_b.get(it).cloned())));
    all
}

pub(crate) fn between(
    a: Vec<DifferenceFact>,
    b: Vec<DifferenceFact>,
) -> impl Iterator<Item = Difference> {
    let differ = a.into_iter().zip(b).filter(|((_, a), (_, b))| a != b);
    differ.map(|((what, a), (_, b))| difference(what, a, b))
}

/// Whether both runs are from one machine with the same settings.
pub(crate) fn have_one_machine(a: &Document, b: &Document) -> bool {
    a.host.identity() == b.host.identity() && machine(&a.host) == machine(&b.host)
}

/// Another host, even with the same name, or a renamed host.
fn of_host(a: &Host, b: &Host) -> Option<Difference> {
    let what = if a.identity() == b.identity() { "host name" } else { "host" };
    let (a, b) = (a.label([b]), b.label([a]));
    (a != b).then(|| difference(what, Some(a), Some(b)))
}

fn difference(what: &str, a: Option<String>, b: Option<String>) -> Difference {
    let known = |fact: Option<String>| match fact {
        Some(fact) if fact.is_empty() => "none".to_owned(),
        Some(fact) => fact,
        None => "unknown".to_owned(),
    };
    Difference { what: what.to_owned(), a: known(a), b: known(b) }
}

pub(crate) type DifferenceFact = (&'static str, Option<String>);

/// The facts compared, in a fixed order.
pub(crate) fn facts(host: &Host) -> Vec<DifferenceFact> {
    [machine(host), system(host), background(host), network(host)].concat()
}

fn machine(host: &Host) -> Vec<DifferenceFact> {
    let cpu = &host.cpu;
    vec![
        ("CPU", some(&cpu.model)),
        ("microcode", cpu.microcode.clone()),
        ("logical CPUs", (cpu.logical > 0).then(|| cpu.logical.to_string())),
        ("cores", cpu.cores.map(|cores| cores.to_string())),
        ("caches", known(caches(host))),
        ("SMT", on(cpu.smt)),
        ("boost", on(cpu.boost)),
        ("governor", cpu.governor.clone()),
        ("frequency driver", cpu.frequency_driver.clone()),
        ("memory", size(host.memory.total_bytes)),
        ("virtualisation", host.virtualization.clone()),
        ("emulation", Some(host.emulation.clone().unwrap_or_default())),
        ("container", Some(host.container.clone().unwrap_or_default())),
    ]
}

/// Earlier runs have the whole line.
fn parameters(line: &str) -> String {
    Some(performance_parameters(line)).filter(|it| !it.is_empty()).unwrap_or("none".to_owned())
}

fn system(host: &Host) -> Vec<DifferenceFact> {
    let memory = &host.memory;
    let schedulers: BTreeMap<&str, &str> = host
        .disks
        .iter()
        .filter_map(|disk| Some((disk.name.as_str(), disk.scheduler.as_deref()?)))
        .collect();
    let schedulers: Vec<String> =
        schedulers.into_iter().map(|(disk, scheduler)| format!("{disk}: {scheduler}")).collect();
    vec![
        ("kernel", some(&host.kernel)),
        ("kernel command line", host.kernel_command_line.as_deref().map(parameters)),
        ("distribution", host.distribution.clone()),
        ("C library", host.libc.clone()),
        ("kernel clock source", host.clocksource.clone()),
        ("page size", size(Some(memory.page_bytes).filter(|&bytes| bytes > 0))),
        ("transparent huge pages", memory.thp.clone()),
        ("address randomisation", host.aslr.map(|aslr| aslr.to_string())),
        ("CPU quota", quota(host)),
        ("memory limit", limit(host)),
        ("CPUs allowed", known(numbers(&host.cpu.allowed))),
        ("huge pages reserved", Some(reserved(host))),
        ("disks", known(disks(host))),
        ("I/O scheduler", known(schedulers.join(", "))),
        ("data disk", host.data_disk.name.clone()),
        ("scheduler of the data disk", host.data_disk.scheduler.clone()),
        ("read-ahead of the data disk", size(host.data_disk.read_ahead_bytes)),
    ]
}

/// Kernel features that change memory or scheduling in the background.
fn background(host: &Host) -> Vec<DifferenceFact> {
    let memory = &host.memory;
    vec![
        ("swap", size(memory.swap_bytes)),
        ("swappiness", memory.swappiness.map(|swappiness| swappiness.to_string())),
        ("dirty limits", dirty_limits(&memory.dirty)),
        ("DAMON", memory.damon.clone()),
        ("zswap", on(memory.zswap.enabled)),
        ("zswap compressor", memory.zswap.compressor.clone()),
        ("zswap pool limit", memory.zswap.max_pool_percent.map(|share| format!("{share} %"))),
        ("KSM", on(memory.ksm.run.map(|run| run == 1))),
        ("autogroup", on(host.autogroup)),
    ]
}

fn network(host: &Host) -> Vec<DifferenceFact> {
    let tcp = &host.tcp;
    vec![
        ("TCP congestion control", tcp.congestion.clone()),
        ("queueing discipline", tcp.queue_discipline.clone()),
        ("TCP receive buffer", tcp.receive_buffer.map(sizes)),
        ("TCP send buffer", tcp.send_buffer.map(sizes)),
        ("receive buffer limit", size(tcp.receive_buffer_limit_bytes)),
        ("send buffer limit", size(tcp.send_buffer_limit_bytes)),
        ("ephemeral ports", tcp.ports.map(|[first, last]| format!("{first}-{last}"))),
        ("TIME_WAIT reuse", tcp.time_wait_reuse.map(|reuse| reuse.to_string())),
        ("slow start after idle", on(tcp.slow_start_after_idle)),
        ("accept queue limit", tcp.accept_queue_max.map(|max| max.to_string())),
        ("MTU", of_links(host, |link| link.mtu_bytes)),
        ("transmit queue", of_links(host, |link| link.queue_packets)),
        ("offloads", offloads(host)),
    ]
}

/// `20 %, in the background 10 %`.
fn dirty_limits(dirty: &DirtyLimits) -> Option<String> {
    let limit = |bytes: Option<u64>, percent: Option<u32>| match bytes.filter(|bytes| *bytes > 0) {
        Some(bytes) => size(Some(bytes)),
        None => percent.map(|percent| format!("{percent} %")),
    };
    let most = limit(dirty.bytes, dirty.percent)?;
    let background = limit(dirty.background_bytes, dirty.background_percent)?;
    Some(format!("{most}, in the background {background}"))
}

/// `eth0: 1500`. Virtual links of containers have random names: they count where they carry the
/// default route, or where there are no others.
fn of_links(host: &Host, value: fn(&NetworkLink) -> Option<u32>) -> Option<String> {
    let route = host.default_route.interface.as_deref();
    let is_own = |link: &NetworkLink| link.driver.is_some() || Some(link.name.as_str()) == route;
    let is_local = |link: &NetworkLink| link.name == "lo";
    let all_virtual = !host.network.iter().any(is_own);
    let is_shown = |link: &&NetworkLink| {
        is_own(link) || is_local(link) || all_virtual && link.up != Some(false)
    };
    let links = host.network.iter().filter(is_shown);
    let each = links.filter_map(|link| Some(format!("{}: {}", link.name, value(link)?)));
    known(each.collect::<Vec<String>>().join(", "))
}

fn offloads(host: &Host) -> Option<String> {
    let route = &host.default_route;
    let all = [("tso", route.tso), ("gso", route.gso), ("gro", route.gro)];
    let known = all.into_iter().filter_map(|(name, state)| Some((name, on(state)?)));
    let states: Vec<String> = known.map(|(name, state)| format!("{name} {state}")).collect();
    (!states.is_empty()).then(|| states.join(", "))
}

fn facts_of_run(RunHead { run, tool, .. }: RunHead<'_>) -> Vec<DifferenceFact> {
    let protocol = match run.protocol {
        Protocol::Median => "median",
        Protocol::Trimmed => "trimmed",
    };
    vec![
        ("test setting", Some(run.imposed.join(", "))),
        ("tool", Some(format!("{} {}", tool.name, tool.version))),
        ("effort", some(run.effort.word())),
        ("protocol", some(protocol)),
        ("state", some(run.state.word())),
        ("clock", some(&run.clock.source)),
        ("CPU measured on", Some(run.cpu.to_string())),
        ("tuned", Some(run.tuned.join(", "))),
        (QUALITY, some(run.verdict.state.word())),
    ]
}

/// `L1 data 32 KiB, L2 unified 512 KiB`.
fn caches(host: &Host) -> String {
    let caches = host.cpu.caches.iter().map(|cache| {
        let bytes = size(Some(cache.size_bytes)).unwrap_or_default();
        format!("L{} {} {bytes}", cache.level, cache.kind)
    });
    caches.collect::<Vec<String>>().join(", ")
}

/// `2 MiB: 64`.
fn reserved(host: &Host) -> String {
    let reserved = host.memory.huge_pages.iter().filter(|(_, count)| **count > 0);
    let pages = reserved
        .map(|(bytes, count)| format!("{}: {count}", size(Some(*bytes)).unwrap_or_default()));
    pages.collect::<Vec<String>>().join(", ")
}

/// `sda (Model), vda`.
fn disks(host: &Host) -> String {
    let disks = host.disks.iter().map(|disk| match &disk.model {
        Some(model) => format!("{} ({})", disk.name, model.trim()),
        None => disk.name.clone(),
    });
    disks.collect::<Vec<String>>().join(", ")
}

fn numbers(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<String>>().join(" ")
}

/// What every machine has: without it, it was not read.
fn known(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn on(flag: Option<bool>) -> Option<String> {
    flag.map(|flag| if flag { "on" } else { "off" }.to_owned())
}

pub(crate) fn size(bytes: Option<u64>) -> Option<String> {
    bytes.map(|bytes| binary_size(i64::try_from(bytes).unwrap_or(i64::MAX)))
}

/// Minimum, default and maximum of a buffer.
fn sizes(buffer: BufferSizes) -> String {
    let BufferSizes { min_bytes, default_bytes, max_bytes } = buffer;
    let sizes = [min_bytes, default_bytes, max_bytes].map(|bytes| size(Some(bytes)));
    sizes.into_iter().flatten().collect::<Vec<String>>().join("/")
}

/// An absent quota of a known cgroup is shown as `none`, not `unknown`.
fn quota(host: &Host) -> Option<String> {
    let none = host.cgroup.version.map(|_| String::new());
    host.cgroup.cpu_quota.map(|cpus| format!("{cpus:.2} CPUs")).or(none)
}

fn limit(host: &Host) -> Option<String> {
    let none = host.cgroup.version.map(|_| String::new());
    size(host.cgroup.memory_limit_bytes).or(none)
}
