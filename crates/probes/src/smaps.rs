//! Parsers for `/proc/self/smaps` and `/proc/self/numa_maps`.

use std::collections::BTreeMap;
use std::ops::Range;

/// The kernel's counts for an address range, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryUsage {
    /// Resident in pages of any size.
    pub(crate) resident: u64,
    /// Resident in huge pages: transparent (THP) or from the pool (hugetlb).
    pub(crate) huge: u64,
    pub(crate) swapped: u64,
}

/// Sums over the mappings in `/proc/self/smaps` that overlap a range.
pub(crate) fn usage(smaps: &str, range: &Range<u64>) -> MemoryUsage {
    let mut usage = MemoryUsage::default();
    let mut overlaps = false;
    for line in smaps.lines() {
        if let Some(mapping) = addresses(line) {
            overlaps = mapping.start < range.end && range.start < mapping.end;
        } else if overlaps {
            let Some((key, value)) = line.split_once(':') else { continue };
            let kib = value.trim().strip_suffix(" kB").and_then(|text| text.trim().parse().ok());
            let bytes = kib.map_or(0, |kib: u64| kib << 10);
            match key {
                "Rss" => usage.resident += bytes,
                "AnonHugePages" => usage.huge += bytes,
                // `Rss` does not include pages of the pool.
                "Private_Hugetlb" | "Shared_Hugetlb" => {
                    usage.resident += bytes;
                    usage.huge += bytes;
                }
                "Swap" => usage.swapped += bytes,
                _ => {}
            }
        }
    }
    usage
}

/// The addresses in the first line of a mapping: `7f0000000000-7f0000100000 rw-p …`.
fn addresses(line: &str) -> Option<Range<u64>> {
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

/// Pages by NUMA node of the mappings in `/proc/self/numa_maps` that start in a range, with lines
/// such as `7f0000000000 default anon=3 dirty=3 N0=1 N1=2 kernelpagesize_kB=4`.
pub(crate) fn nodes(numa_maps: &str, range: &Range<u64>) -> BTreeMap<u32, u64> {
    let mut nodes = BTreeMap::new();
    for line in numa_maps.lines() {
        let mut words = line.split(' ');
        let start = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
        if !start.is_some_and(|start| range.contains(&start)) {
            continue;
        }
        for word in words.filter_map(|word| word.strip_prefix('N')) {
            let Some((node, pages)) = word.split_once('=') else { continue };
            if let (Ok(node), Ok(pages)) = (node.parse(), pages.parse::<u64>()) {
                *nodes.entry(node).or_default() += pages;
            }
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
55d0-55e0 r--p 00000000 fe:00 12 /usr/bin/fathom-with-a-dash
Rss:                   4 kB
AnonHugePages:      2048 kB
7f00-7f80 rw-p 00000000 00:00 0
Size:               1024 kB
Rss:                1020 kB
Swap:                  4 kB
AnonHugePages:         0 kB
Private_Hugetlb:       0 kB
VmFlags: rd wr mr mw me ac nh
8000-8f00 rw-p 00000000 00:0f 99 /anon_hugepage (deleted)
Rss:                   0 kB
Private_Hugetlb:    4096 kB
";

    #[test]
    fn usage_covers_only_the_given_range() {
        for (range, [resident, huge, swapped]) in [
            (0x7f00..0x7f80, [1020 << 10, 0, 4 << 10]),
            (0x55d0..0x55e0, [4096, 2 << 20, 0]),
            (0x7f80..0x8000, [0; 3]),
            (0x8000..0x8f00, [4 << 20, 4 << 20, 0]),
        ] {
            assert_eq!(usage(SMAPS, &range), MemoryUsage { resident, huge, swapped });
        }
    }

    #[test]
    fn pages_are_summed_by_node() {
        let text = "\
7f0000000000 default anon=3 dirty=3 N0=1 N1=2 kernelpagesize_kB=4
7f0000400000 default anon=1 N1=5
7f0000800000 prefer:0 file=/Nobody=3 mapped=9 N0=9";
        let of = |range| nodes(text, &range);
        assert_eq!(of(0x7f00_0000_0000..0x7f00_0080_0000), BTreeMap::from([(0, 1), (1, 7)]));
        assert_eq!(of(0x7f00_0080_0000..0x7f00_0090_0000), BTreeMap::from([(0, 9)]));
        assert!(of(0..1).is_empty());
    }
}
