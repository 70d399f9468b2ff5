//! Memory: size, pages, swap, background activity, modules.

use std::collections::BTreeMap;

use fathom_record::Host;

use super::{HostSources, damon, smbios};
use crate::tree::{FileTree, TreeFact, after, bracketed, flag, keep};

pub(crate) const MEMINFO: &str = "/proc/meminfo";
const TABLE: &str = "/sys/firmware/dmi/tables/DMI";

pub(super) fn read(sources: &HostSources, host: &mut Host) {
    let tree = &sources.tree;
    let text = tree.text(MEMINFO).unwrap_or_default();
    let line = |key: &str| Some(TreeFact::new(bytes(&text, key)?, format!("{MEMINFO}: {key}")));
    keep!(host.memory.total_bytes, line("MemTotal"));
    // Without /proc, free memory, which is less than available memory.
    let free =
        || sources.live.then(free_bytes)?.map(|bytes| TreeFact::new(bytes, "sysinfo: freeram"));
    keep!(host.memory.available_bytes, line("MemAvailable").or_else(free));
    keep!(host.memory.swap_bytes, line("SwapTotal"));
    let vm = |name: &str| format!("/proc/sys/vm/{name}");
    keep!(host.memory.swappiness, tree.number::<u32>(&vm("swappiness")));
    keep!(host.memory.dirty.percent, tree.number::<u32>(&vm("dirty_ratio")));
    let background = tree.number::<u32>(&vm("dirty_background_ratio"));
    keep!(host.memory.dirty.background_percent, background);
    keep!(host.memory.dirty.bytes, tree.number::<u64>(&vm("dirty_bytes")));
    let background = tree.number::<u64>(&vm("dirty_background_bytes"));
    keep!(host.memory.dirty.background_bytes, background);
    let page = || TreeFact::new(rustix::param::page_size() as u64, "getauxval(AT_PAGESZ)");
    keep!(host.memory.page_bytes, sources.live.then(page));
    keep!(host.memory.thp, tree.value("/sys/kernel/mm/transparent_hugepage/enabled", bracketed));
    let huge = huge_pages(tree).or_else(|| {
        let size = bytes(&text, "Hugepagesize").filter(|&size| size > 0)?;
        let count = after(&text, "HugePages_Total:")?.parse().ok()?;
        Some(TreeFact::new(BTreeMap::from([(size, count)]), format!("{MEMINFO}: HugePages_Total")))
    });
    keep!(host.memory.huge_pages, huge);
    damon::read(tree, host);
    let zswap = |name: &str| format!("/sys/module/zswap/parameters/{name}");
    keep!(host.memory.zswap.enabled, tree.value(&zswap("enabled"), flag));
    keep!(host.memory.zswap.compressor, tree.fact(&zswap("compressor")));
    keep!(host.memory.zswap.max_pool_percent, tree.number::<u32>(&zswap("max_pool_percent")));
    keep!(host.memory.ksm.run, tree.number::<u32>("/sys/kernel/mm/ksm/run"));
    keep!(host.memory.ksm.pages_sharing, tree.number::<u64>("/sys/kernel/mm/ksm/pages_sharing"));
    let modules = smbios::modules(&tree.bytes(TABLE).unwrap_or_default());
    keep!(host.memory.modules, TreeFact::unless_empty(modules, format!("{TABLE}: type 17")));
}

fn free_bytes() -> Option<u64> {
    let info = rustix::system::sysinfo();
    (info.freeram as u64).checked_mul(u64::from(info.mem_unit))
}

/// A line of `/proc/meminfo`, whose `kB` is 1024 bytes.
pub(crate) fn bytes(text: &str, key: &str) -> Option<u64> {
    let size = after(text, &format!("{key}:"))?.strip_suffix("kB")?;
    size.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// Reserved huge pages by size, including empty pools.
fn huge_pages(tree: &FileTree) -> Option<TreeFact<BTreeMap<u64, u64>>> {
    let folder = "/sys/kernel/mm/hugepages";
    let pools = tree.names(folder).into_iter().filter_map(|name| {
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let count = tree.parsed(&format!("{folder}/{name}/nr_hugepages"))?;
        Some((kib.checked_mul(1 << 10)?, count))
    });
    let pools: BTreeMap<u64, u64> = pools.collect();
    TreeFact::unless_empty(pools, format!("{folder}/*/nr_hugepages"))
}
