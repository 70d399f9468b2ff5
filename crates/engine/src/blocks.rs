//! Division of a plan into blocks. Within a block, visits are interleaved. At its end, records are
//! reduced in the order of the registry, so that their inputs come first.

use crate::plan::VisitGroup;

/// Approximate number of cases in a block: enough to spread visits over bursts of interference, and
/// few enough that rows are printed soon.
const CASES: usize = 24;

/// Indices of the units of each block, in the order of the registry.
pub(crate) fn cut(units: &[VisitGroup]) -> Vec<Vec<usize>> {
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    let mut block: Vec<usize> = Vec::new();
    for (index, unit) in units.iter().enumerate() {
        let cases: usize = block.iter().map(|at| units[*at].cases.len()).sum();
        if !block.is_empty() && cases + unit.cases.len() > CASES {
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
    use crate::Plan;

    #[test]
    fn blocks_partition_the_plan_in_order() {
        let plan = Plan::new(
            &fathom_probes::REGISTRY,
            Vec::new(),
            Effort::Quick,
            Protocol::Median,
            1,
            &Host::default(),
        );
        let units = plan.expect("a plan").units;
        let blocks = cut(&units);
        assert_eq!(blocks.concat(), (0..units.len()).collect::<Vec<_>>());
        assert!(blocks.len() > 1 && blocks.len() < units.len(), "{blocks:?}");
        for block in blocks {
            let cases: usize = block.iter().map(|index| units[*index].cases.len()).sum();
            assert!(cases <= CASES || block.len() == 1, "{block:?} has {cases} cases");
        }
    }
}
