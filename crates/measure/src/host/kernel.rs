//! The kernel and the system around it: release, command line, distribution, clock sources,
//! address space randomisation, mitigations, uptime.

use std::collections::BTreeMap;

use fathom_record::Host;

use super::Sources;
use super::tree::{Fact, Tree, keep};

pub(super) fn read(sources: &Sources, host: &mut Host) {
    let tree = &sources.tree;
    let name = tree.fact("/proc/sys/kernel/hostname").or_else(|| tree.fact("/etc/hostname"));
    host.name = keep(host, "name", name).unwrap_or_default();
    host.kernel = keep(host, "kernel", release(sources)).unwrap_or_default();
    let line = tree.fact("/proc/cmdline");
    host.kernel_command_line = keep(host, "kernel_command_line", line);
    host.distribution = keep(host, "distribution", distribution(tree));
    let clocks = "/sys/devices/system/clocksource/clocksource0";
    let clock = tree.fact(&format!("{clocks}/current_clocksource"));
    host.clocksource = keep(host, "clocksource", clock);
    let available = tree.fact(&format!("{clocks}/available_clocksource"));
    let available = available.map(|fact| {
        fact.map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    });
    host.clocksources_available =
        keep(host, "clocksources_available", available).unwrap_or_default();
    let aslr = tree.fact("/proc/sys/kernel/randomize_va_space");
    let aslr = aslr.and_then(|fact| fact.and_then(|text| text.parse().ok()));
    host.aslr = keep(host, "aslr", aslr);
    host.mitigations = keep(host, "mitigations", mitigations(tree)).unwrap_or_default();
    host.uptime_s = keep(host, "uptime_s", uptime(tree));
}

fn release(sources: &Sources) -> Option<Fact<String>> {
    let live = || {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        (sources.live && !release.is_empty()).then(|| Fact::new(release, "uname(2): release"))
    };
    sources.tree.fact("/proc/sys/kernel/osrelease").or_else(live)
}

/// `PRETTY_NAME` of os-release(5), whose values may be quoted as in a shell.
fn distribution(tree: &Tree) -> Option<Fact<String>> {
    ["/etc/os-release", "/usr/lib/os-release"].iter().find_map(|path| {
        let text = tree.text(path)?;
        let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?.trim();
        let unquoted = ['"', '\'']
            .iter()
            .find_map(|&quote| value.strip_prefix(quote)?.strip_suffix(quote))
            .unwrap_or(value);
        let clean = unquoted.replace(|c: char| c.is_control(), " ");
        (!clean.trim().is_empty()).then(|| Fact::new(clean, format!("{path}: PRETTY_NAME")))
    })
}

fn mitigations(tree: &Tree) -> Option<Fact<BTreeMap<String, String>>> {
    let folder = "/sys/devices/system/cpu/vulnerabilities";
    let said = tree.names(folder).into_iter().filter_map(|name| {
        let state = tree.line(&format!("{folder}/{name}"))?;
        Some((name, state))
    });
    let said: BTreeMap<String, String> = said.collect();
    (!said.is_empty()).then(|| Fact::new(said, format!("{folder}/*")))
}

fn uptime(tree: &Tree) -> Option<Fact<f64>> {
    tree.fact("/proc/uptime")?.and_then(|text| {
        let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
        (seconds.is_finite() && seconds >= 0.0).then_some(seconds)
    })
}
