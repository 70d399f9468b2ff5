//! The caches of the first allowed CPU.

use fathom_record::Host;
use fathom_record::host::Cache;

use super::{HostSources, cpulist, first_cpu};
use crate::tree::{FileTree, TreeFact, keep};

pub(super) fn read(sources: &HostSources, host: &mut Host) {
    let by_cpuid = || {
        let caches = sources.cpuid.as_ref()?.caches.clone();
        TreeFact::unless_empty(caches, "cpuid leaf 4 or 0x8000001d")
    };
    keep!(host.cpu.caches, by_kernel(&sources.tree, first_cpu(host)).or_else(by_cpuid));
}

fn by_kernel(tree: &FileTree, cpu: u32) -> Option<TreeFact<Vec<Cache>>> {
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
    let names = tree.names(&folder);
    let indices = names.iter().filter(|name| name.starts_with("index"));
    let mut caches: Vec<Cache> =
        indices.filter_map(|name| cache(tree, &format!("{folder}/{name}"))).collect();
    caches.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    TreeFact::unless_empty(caches, format!("{folder}/index*"))
}

/// One cache. Omitted without a size, as with the firmware of some ARM boards.
fn cache(tree: &FileTree, folder: &str) -> Option<Cache> {
    let kind = match tree.line(&format!("{folder}/type"))?.as_str() {
        "Data" => "data",
        "Instruction" => "instruction",
        "Unified" => "unified",
        _ => return None,
    };
    // The kernel writes 0 for unknown.
    let known =
        |name: &str| tree.parsed::<u32>(&format!("{folder}/{name}")).filter(|&value| value > 0);
    let shared = tree.line(&format!("{folder}/shared_cpu_list"));
    Some(Cache {
        level: known("level")?,
        kind: kind.to_owned(),
        size_bytes: size(&tree.line(&format!("{folder}/size"))?)?,
        line_bytes: known("coherency_line_size"),
        ways: known("ways_of_associativity"),
        shared_by: shared.and_then(|text| cpulist::parse(&text)).unwrap_or_default(),
    })
}

/// `48K`, in units of 1024.
fn size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|&bytes| bytes > 0)
}
