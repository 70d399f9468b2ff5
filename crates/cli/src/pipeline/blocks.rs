//! Cutting a plan into blocks: what a block needs has been measured in an earlier one, and a block
//! is small enough that its rows do not keep a person waiting.

use super::plan::Unit;

/// Cases in a block, about.
const CASES: usize = 10;

/// Indices of the units of each block, in the order of the registry.
pub(super) fn cut(units: &[Unit]) -> Vec<Vec<usize>> {
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    let mut block: Vec<usize> = Vec::new();
    for (index, unit) in units.iter().enumerate() {
        let in_block = |id: &&str| block.iter().any(|at| units[*at].entry.about().id == *id);
        let needs_block = unit.entry.about().needs.iter().any(|need| in_block(&need));
        let cases: usize = block.iter().map(|at| units[*at].cases.len()).sum();
        if !block.is_empty() && (needs_block || cases + unit.cases.len() > CASES) {
            blocks.push(std::mem::take(&mut block));
        }
        block.push(index);
    }
    blocks.extend((!block.is_empty()).then_some(block));
    blocks
}

#[cfg(test)]
mod tests {
    use fathom_record::{Effort, Host, Protocol};

    use super::*;
    use crate::pipeline::Plan;

    #[test]
    fn every_unit_is_in_one_block_and_its_needs_in_earlier_ones() {
        let plan = Plan::new(Vec::new(), Effort::Quick, Protocol::Median, 1, &Host::default());
        let units = plan.expect("a plan").units;
        let blocks = cut(&units);
        assert_eq!(blocks.concat(), (0..units.len()).collect::<Vec<_>>());
        for (at, block) in blocks.iter().enumerate() {
            let earlier: Vec<&str> =
                blocks[..at].concat().iter().map(|index| units[*index].entry.about().id).collect();
            for index in block {
                for need in units[*index].entry.about().needs {
                    assert!(earlier.contains(need), "{need} is not measured before it is needed");
                }
            }
        }
    }
}
