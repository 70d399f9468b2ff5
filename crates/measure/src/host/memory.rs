//! How much memory there is, in which pages, and on which modules.

use std::collections::BTreeMap;

use fathom_record::Host;

use super::tree::{Fact, Tree, bracketed, keep};
use super::{Sources, smbios};

const MEMINFO: &str = "/proc/meminfo";
const TABLE: &str = "/sys/firmware/dmi/tables/DMI";

pub(super) fn read(sources: &Sources, host: &mut Host) {
    let tree = &sources.tree;
    let text = tree.text(MEMINFO).unwrap_or_default();
    let line = |key: &str| Some(Fact::new(bytes(&text, key)?, format!("{MEMINFO}: {key}")));
    host.memory.total_bytes = keep(host, "memory.total_bytes", line("MemTotal"));
    // What is free is less than what is available, and all that is known without /proc.
    let free = || sources.live.then(free_bytes)?.map(|bytes| Fact::new(bytes, "sysinfo: freeram"));
    let available = line("MemAvailable").or_else(free);
    host.memory.available_bytes = keep(host, "memory.available_bytes", available);
    host.memory.swap_bytes = keep(host, "memory.swap_bytes", line("SwapTotal"));
    let page = sources.live.then(|| Fact::new(page_bytes(), "getauxval(AT_PAGESZ)"));
    host.memory.page_bytes = keep(host, "memory.page_bytes", page).unwrap_or(0);
    let thp = tree.fact("/sys/kernel/mm/transparent_hugepage/enabled");
    let thp = thp.and_then(|fact| fact.and_then(|text| bracketed(&text)));
    host.memory.thp = keep(host, "memory.thp", thp);
    let huge = huge_pages(tree).or_else(|| {
        let size = bytes(&text, "Hugepagesize").filter(|&size| size > 0)?;
        let count = field(&text, "HugePages_Total")?.parse().ok()?;
        Some(Fact::new(BTreeMap::from([(size, count)]), format!("{MEMINFO}: HugePages_Total")))
    });
    host.memory.huge_pages = keep(host, "memory.huge_pages", huge).unwrap_or_default();
    let modules = tree.bytes(TABLE).map(|table| smbios::modules(&table));
    let modules = modules.filter(|modules| !modules.is_empty());
    let modules = modules.map(|modules| Fact::new(modules, format!("{TABLE}: type 17")));
    host.memory.modules = keep(host, "memory.modules", modules).unwrap_or_default();
}

fn free_bytes() -> Option<u64> {
    let info = rustix::system::sysinfo();
    (info.freeram as u64).checked_mul(u64::from(info.mem_unit))
}

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim()))
}

/// A line of `/proc/meminfo`, whose `kB` is 1024 bytes.
fn bytes(text: &str, key: &str) -> Option<u64> {
    field(text, key)?.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// Huge pages reserved, a size a pool; a pool that is empty is known to be empty.
fn huge_pages(tree: &Tree) -> Option<Fact<BTreeMap<u64, u64>>> {
    let folder = "/sys/kernel/mm/hugepages";
    let pools = tree.names(folder).into_iter().filter_map(|name| {
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let count = tree.parsed(&format!("{folder}/{name}/nr_hugepages"))?;
        Some((kib.checked_mul(1 << 10)?, count))
    });
    let pools: BTreeMap<u64, u64> = pools.collect();
    (!pools.is_empty()).then(|| Fact::new(pools, format!("{folder}/*/nr_hugepages")))
}
