//! Memory bandwidth as an input of the file models.

use crate::prelude::*;

/// The highest known DRAM read bandwidth, with the name of its record.
pub fn all_cores(known: &Inputs<'_>) -> Option<(String, f64)> {
    let cases = known.cases_of("memory.bandwidth").filter(|(params, _)| {
        params.text("op") == Some("read") && params.text("level") == Some("dram")
    });
    let quantities = cases.filter_map(|(params, _)| {
        let quantity = known.quantity("memory.bandwidth", params)?;
        Some((format!("memory.bandwidth{params}"), quantity))
    });
    quantities.max_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// The bound of a read from the page cache: the bandwidth of [`all_cores`].
pub(super) fn at_most_all_cores(known: &Inputs<'_>) -> Model {
    let missing = || NoModel::NoKeptResult { metric: "memory.bandwidth".to_owned() };
    let (name, most) = all_cores(known).ok_or_else(missing)?;
    let source = "each byte of the page cache is loaded from DRAM at least once";
    let meaning = "the file was in the CPU caches, or the other result was disturbed";
    Ok(at_most((&name, most), Unit::BytesPerSecond, (source, meaning)))
}
