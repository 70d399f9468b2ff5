//! Models, lists of processes, and the overlap of a round.

use super::*;

#[test]
fn range_means_every_number_and_1_is_included() {
    assert_eq!(processes("1..4"), Ok(CommandCounts(vec![1, 2, 3, 4])));
    assert_eq!(processes("8,2"), Ok(CommandCounts(vec![1, 2, 8])));
    assert!(["0", "5..2", "65", "x", ""].iter().all(|text| processes(text).is_err()));
}

/// Evenly spaced timestamps.
fn stamps(from: u64, apart: u64, blocks: u64) -> Vec<u64> {
    (0..=blocks).map(|block| from + apart * block).collect()
}

#[test]
fn only_the_common_time_counts() {
    let alone = stamps(100, 100, 40);
    assert_eq!(overlap(std::slice::from_ref(&alone)), Some(100.0));
    // Common time 1100 to 4100: 30 and 10 blocks.
    let slower = stamps(1100, 300, 40);
    assert_eq!(overlap(&[alone.clone(), slower]), Some(2.0 * 3000.0 / 40.0));
    assert_eq!(overlap(&[alone.clone(), stamps(4100, 100, 40)]), None, "sequential");
    assert_eq!(overlap(&[alone.clone(), stamps(3500, 100, 40)]), None, "too little overlap");
    assert_eq!(overlap(&[alone, vec![100]]), None);
    assert_eq!(overlap(&[]), None);
}

#[test]
fn each_round_has_a_line() {
    let row = |processes, values: [f64; 3]| ContentionRow {
        processes,
        rounds: values.map(Some).into(),
        disturbance: Vec::new(),
    };
    let mut rows = [
        row(1, [10.0, 11.0, 12.0]),
        row(2, [20.0, 22.0, 24.0]),
        row(4, [40.0, 44.0, 48.0]),
        row(8, [80.0, 88.0, 96.0]),
    ];
    let slopes = |rows: &[ContentionRow]| {
        let (all, _) = fitted(rows).expect("enough points");
        all.map(|part| part.iter().map(|number| number.round()).collect::<Vec<_>>())
    };
    assert_eq!(slopes(&rows), [[10.0, 11.0, 12.0], [0.0; 3], [1.0; 3]]);
    rows[1].rounds[0] = None;
    assert_eq!(slopes(&rows)[0], [10.0, 11.0, 12.0], "a round may lack a point");
    assert!(rows[1].doubt().is_some_and(|doubt| doubt.text.contains("1 of 3 rounds")));
    assert_eq!(rows[0].doubt(), None);
    assert!(fitted(&rows[..2]).is_none(), "two points are too few");
}
