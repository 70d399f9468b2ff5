//! `/proc/cpuinfo`: a block per CPU with lines `key : value`. The keys depend on the architecture.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{FileTree, TreeFact};

const PATH: &str = "/proc/cpuinfo";

/// The blocks that describe a CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuInfo {
    blocks: Vec<BTreeMap<String, String>>,
}

impl CpuInfo {
    pub(crate) fn read(tree: &FileTree) -> Self {
        Self::parse(&tree.text(PATH).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut blocks = vec![BTreeMap::new()];
        for line in text.lines() {
            match (line.split_once(':'), blocks.last_mut()) {
                (Some((key, value)), Some(block)) => {
                    let value = value.trim().replace(|c: char| c.is_control(), " ");
                    block.insert(key.trim().to_owned(), value);
                }
                _ => blocks.push(BTreeMap::new()),
            }
        }
        blocks.retain(|block| block.contains_key("processor"));
        Self { blocks }
    }

    pub(crate) fn cpus(&self) -> Option<TreeFact<Vec<u32>>> {
        let cpus: Vec<u32> =
            self.blocks.iter().filter_map(|block| block.get("processor")?.parse().ok()).collect();
        (!cpus.is_empty()).then(|| TreeFact::new(cpus, format!("{PATH}: processor")))
    }

    /// The value of a key for a CPU, or for the first CPU if that one is not listed.
    pub(crate) fn fact_of(&self, cpu: u32, key: &str) -> Option<TreeFact<String>> {
        let number = cpu.to_string();
        let block = self
            .blocks
            .iter()
            .find(|block| block.get("processor") == Some(&number))
            .or_else(|| self.blocks.first())?;
        let value = block.get(key).filter(|value| !value.is_empty())?;
        Some(TreeFact::new(value.clone(), format!("{PATH}: {key}")))
    }

    /// The number of distinct combinations of values of some keys. Unknown if a CPU lacks one.
    pub(crate) fn distinct(&self, keys: &[&str]) -> Option<TreeFact<u32>> {
        let mut seen = BTreeSet::new();
        for block in &self.blocks {
            let values: Option<Vec<&String>> = keys.iter().map(|key| block.get(*key)).collect();
            seen.insert(values?);
        }
        let count = u32::try_from(seen.len()).ok().filter(|&count| count > 0)?;
        Some(TreeFact::new(count, format!("{PATH}: {}", keys.join(", "))))
    }
}

/// A number of `/proc/cpuinfo`: decimal, or hexadecimal after `0x`.
pub(crate) fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
