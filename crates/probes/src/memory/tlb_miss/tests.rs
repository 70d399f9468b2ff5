//! Differences of simulated records.

use super::*;
use crate::smoke;

fn record(page: BufferPage, set_bytes: usize, medians: &[f64]) -> Record {
    let case = ChaseCase { pattern: Pattern::Random, page, set_bytes };
    smoke::record("memory.latency", &case.params(), medians[0], 0.1)
        .with_summary(|it| it.process_medians = medians.into())
}

fn pair(set_bytes: usize) -> Vec<Record> {
    vec![
        record(BufferPage::Base, set_bytes, &[200.0, 210.0, 190.0]),
        record(BufferPage::Huge, set_bytes, &[160.0, 150.0, 165.0]),
    ]
}

const LARGE: usize = 128 << 20;

#[test]
fn result_depends_on_the_two_subtracted_cases() {
    let mut records = pair(LARGE / 2);
    records.extend(pair(LARGE));
    records.push(record(BufferPage::Base, 2 * LARGE, &[400.0; 3]));
    let depends =
        |record: &Record| TlbMiss.depends_on(&Params::none(), record, &Inputs::new(&records));
    let of: Vec<bool> = records.iter().map(depends).collect();
    assert_eq!(of, [false, false, true, true, false]);
    let case = ChaseCase { pattern: Pattern::Stride(64), page: BufferPage::Base, set_bytes: LARGE };
    assert!(!depends(&smoke::record("memory.latency", &case.params(), 1.0, 0.1)));
}
