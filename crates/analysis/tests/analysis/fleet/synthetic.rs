//! Synthetic fleets.

use fathom_analysis::fleet::{FleetLimits, Group, Judgement, judge};
use fathom_record::{Document, Record, Unit};

use crate::decisions::runs::bare;

/// Deviations of hosts that need no chance: evenly over ± 1.
pub(super) fn deviation(host: usize, hosts: usize) -> f64 {
    2.0 * host as f64 / (hosts - 1) as f64 - 1.0
}

/// A valid time of nine processes within ± 0.2 %.
pub(super) fn time(metric: &str, median: f64) -> Record {
    let record = Record::fixture(metric, Unit::Nanoseconds).within(median, 0.002 * median);
    record.with_summary(|it| it.process_medians = vec![median; 9])
}

/// Hosts `node1` to `nodeN` of one kind, with the records that `records` makes for each index.
pub(super) fn fleet(hosts: usize, records: impl Fn(usize) -> Vec<Record>) -> Vec<Document> {
    let host = |at: usize| {
        let mut run = bare(at);
        run.host.name = format!("node{}", at + 1);
        run.host.id = None;
        run.records = records(at);
        run
    };
    (0..hosts).map(host).collect()
}

pub(super) fn judged(fleet: &[Document]) -> Judgement {
    judge(&fleet.iter().collect(), &FleetLimits::default())
}

/// The only group of a fleet.
pub(super) fn group(fleet: &[Document]) -> Group {
    let mut judgement = judged(fleet);
    assert_eq!(judgement.groups.len(), 1, "{:#?}", judgement.groups);
    judgement.groups.remove(0)
}
