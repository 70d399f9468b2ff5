//! Differences of simulated records.

use super::*;
use crate::smoke;

fn record(page: Page, set_bytes: usize, medians: &[f64]) -> Record {
    let case = ChaseCase { pattern: Pattern::Random, page, set_bytes };
    let mut record = smoke::record("memory.latency", &case.params(), medians[0], 0.1);
    record.summary.as_mut().unwrap().process_medians = medians.into();
    record
}

fn pair(set_bytes: usize) -> Vec<Record> {
    vec![
        record(Page::Base, set_bytes, &[200.0, 210.0, 190.0]),
        record(Page::Huge, set_bytes, &[160.0, 150.0, 165.0]),
    ]
}

const LARGE: usize = 128 << 20;

#[test]
fn result_is_the_difference_at_the_largest_common_set() {
    let mut records = pair(LARGE / 2);
    records.extend(pair(LARGE));
    records[2].summary.as_mut().unwrap().process_medians = vec![300.0, 310.0, 290.0];
    // With 4K pages only.
    records.push(record(Page::Base, 2 * LARGE, &[400.0; 3]));
    let estimate = TlbMiss.reduce(&Params::none(), &Inputs::new(&records)).unwrap();
    assert_eq!(estimate.per_process, [140.0, 160.0, 125.0]);
    assert!(estimate.difference);
    assert_eq!(estimate.notes, ["at 128 MiB"]);
}

#[test]
fn set_that_the_tlb_may_cover_gives_no_result() {
    let error = TlbMiss.reduce(&Params::none(), &Inputs::new(&pair(16 << 20))).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("16 MiB") && error.contains("32 MiB are needed"), "{error}");
    let alone = [record(Page::Base, LARGE, &[200.0])];
    let error = TlbMiss.reduce(&Params::none(), &Inputs::new(&alone)).unwrap_err();
    assert!(error.to_string().contains("both 4K and huge pages"), "{error}");
}

#[test]
fn result_depends_on_the_two_subtracted_cases() {
    let mut records = pair(LARGE / 2);
    records.extend(pair(LARGE));
    records.push(record(Page::Base, 2 * LARGE, &[400.0; 3]));
    let depends =
        |record: &Record| TlbMiss.depends_on(&Params::none(), record, &Inputs::new(&records));
    let of: Vec<bool> = records.iter().map(depends).collect();
    assert_eq!(of, [false, false, true, true, false]);
    let case = ChaseCase { pattern: Pattern::Stride(64), page: Page::Base, set_bytes: LARGE };
    assert!(!depends(&smoke::record("memory.latency", &case.params(), 1.0, 0.1)));
}

#[test]
fn guest_notes_that_huge_pages_may_miss_too() {
    let (mut host, records) = (Host::default(), pair(LARGE));
    let notes = |host: &Host| {
        TlbMiss.reduce(&Params::none(), &Inputs::new(&records).on(host)).unwrap().notes
    };
    host.virtualization = Some("none".to_owned());
    assert_eq!(notes(&host).len(), 1);
    host.virtualization = Some("kvm".to_owned());
    assert!(notes(&host)[1].contains("the chase with huge pages misses too"));
}
