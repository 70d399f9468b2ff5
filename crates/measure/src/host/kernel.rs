//! Kernel and system: release, command line, distribution, clock sources, ASLR, mitigations,
//! uptime.

use std::collections::BTreeMap;

use fathom_record::Host;
use fathom_record::host::performance_parameters;

use super::HostSources;
use crate::tree::{FileTree, TreeFact, after, flag, keep};

pub(super) fn read(sources: &HostSources, host: &mut Host) {
    let tree = &sources.tree;
    keep!(host.name, name(sources));
    let by_uname = || sources.uname(|name| name.release(), "uname(2): release");
    keep!(host.kernel, tree.fact("/proc/sys/kernel/osrelease").or_else(by_uname));
    let parameters = |text: &str| Some(performance_parameters(text));
    keep!(host.kernel_command_line, tree.value("/proc/cmdline", parameters));
    keep!(host.distribution, distribution(tree));
    let clocks = "/sys/devices/system/clocksource/clocksource0";
    keep!(host.clocksource, tree.fact(&format!("{clocks}/current_clocksource")));
    let words = |text: &str| Some(text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let available = tree.value(&format!("{clocks}/available_clocksource"), words);
    keep!(host.clocksources_available, available);
    keep!(host.aslr, tree.number::<u32>("/proc/sys/kernel/randomize_va_space"));
    keep!(host.autogroup, tree.value("/proc/sys/kernel/sched_autogroup_enabled", flag));
    keep!(host.libc, if sources.live { libc() } else { None });
    keep!(host.mitigations, mitigations(tree));
    let seconds = |text: &str| {
        let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
        (seconds.is_finite() && seconds >= 0.0).then_some(seconds)
    };
    keep!(host.uptime_s, tree.value("/proc/uptime", seconds));
}

/// The host name. Until one is set, the kernel has `(none)`, and what `/etc/hostname` has is not
/// the name.
fn name(sources: &HostSources) -> Option<TreeFact<String>> {
    let by_kernel = sources.tree.fact("/proc/sys/kernel/hostname");
    let by_uname = || sources.uname(|name| name.nodename(), "uname(2): nodename");
    let name = by_kernel.or_else(by_uname).or_else(|| sources.tree.fact("/etc/hostname"));
    name.filter(|name| name.value != "(none)")
}

/// `PRETTY_NAME` of os-release(5), whose values may be quoted as in a shell.
fn distribution(tree: &FileTree) -> Option<TreeFact<String>> {
    ["/etc/os-release", "/usr/lib/os-release"].iter().find_map(|path| {
        let text = tree.text(path)?;
        let value = after(&text, "PRETTY_NAME=")?;
        let unquoted = ['"', '\'']
            .iter()
            .find_map(|&quote| value.strip_prefix(quote)?.strip_suffix(quote))
            .unwrap_or(value);
        let clean = unquoted.replace(|c: char| c.is_control(), " ");
        (!clean.trim().is_empty()).then(|| TreeFact::new(clean, format!("{path}: PRETTY_NAME")))
    })
}

/// The C library, which affects thread creation and copies.
#[cfg(target_env = "gnu")]
fn libc() -> Option<TreeFact<String>> {
    // SAFETY: returns a static string that ends with a zero byte.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    let version = version.to_str().ok()?;
    Some(TreeFact::new(format!("glibc {version}"), "gnu_get_libc_version(3)"))
}

/// musl has no call that gives its version.
#[cfg(not(target_env = "gnu"))]
fn libc() -> Option<TreeFact<String>> {
    cfg!(target_env = "musl").then(|| TreeFact::new("musl".to_owned(), "target of the build"))
}

fn mitigations(tree: &FileTree) -> Option<TreeFact<BTreeMap<String, String>>> {
    let folder = "/sys/devices/system/cpu/vulnerabilities";
    let states = tree.names(folder).into_iter().filter_map(|name| {
        let state = tree.line(&format!("{folder}/{name}"))?;
        Some((name, state))
    });
    TreeFact::unless_empty(states.collect(), format!("{folder}/*"))
}
