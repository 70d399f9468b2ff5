//! What makes records noisy, invalid or unavailable.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::{Cause, Record, State};

/// The first causes of the records in a state, the most frequent first.
pub fn causes<'r>(
    records: impl IntoIterator<Item = &'r Record>,
    state: State,
) -> Vec<(Cause, usize)> {
    let of_state = records.into_iter().filter(|record| record.verdict.state == state);
    first_causes(of_state.filter_map(|record| Some(record.verdict.reasons.first()?.cause)))
}

/// How many there are of each cause, the most frequent first.
pub fn first_causes(all: impl Iterator<Item = Cause>) -> Vec<(Cause, usize)> {
    let mut causes = BTreeMap::new();
    all.for_each(|cause| *causes.entry(cause).or_insert(0) += 1);
    let mut causes: Vec<(Cause, usize)> = causes.into_iter().collect();
    causes.sort_by_key(|(_, count)| Reverse(*count));
    causes
}
