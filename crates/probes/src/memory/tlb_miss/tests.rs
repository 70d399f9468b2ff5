//! Differences of made-up records.

use fathom_record::host::Cache;

use super::*;
use crate::smoke;

fn record(page: Page, set_bytes: usize, medians: &[f64]) -> Record {
    let step = ChaseCase { pattern: Pattern::Random, page, set_bytes };
    let mut record = smoke::record("memory.latency", &step.params(), medians[0], 0.1);
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
fn it_is_the_difference_in_each_process_at_the_largest_set_of_both() {
    let mut records = pair(LARGE / 2);
    records.extend(pair(LARGE));
    records[2].summary.as_mut().unwrap().process_medians = vec![300.0, 310.0, 290.0];
    // A set that there is by small pages only is none of both.
    records.push(record(Page::Base, 2 * LARGE, &[400.0; 3]));
    let estimate = TlbMiss.reduce(&Params::none(), &Known::new(&records)).unwrap();
    assert_eq!(estimate.per_process, [140.0, 160.0, 125.0]);
    assert!(estimate.difference);
    assert_eq!(estimate.notes, ["at 128 MiB"]);
}

#[test]
fn a_set_that_a_translation_buffer_may_hold_gives_none() {
    let error = TlbMiss.reduce(&Params::none(), &Known::new(&pair(16 << 20))).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("16 MiB") && error.contains("32 MiB are needed"), "{error}");
    let alone = [record(Page::Base, LARGE, &[200.0])];
    let error = TlbMiss.reduce(&Params::none(), &Known::new(&alone)).unwrap_err();
    assert!(error.to_string().contains("by small and by huge pages"), "{error}");
}

#[test]
fn only_the_two_cases_that_are_subtracted_spoil_it() {
    let mut records = pair(LARGE / 2);
    records.extend(pair(LARGE));
    records.push(record(Page::Base, 2 * LARGE, &[400.0; 3]));
    let rests = |record: &Record| TlbMiss.rests_on(&Params::none(), record, &Known::new(&records));
    let of: Vec<bool> = records.iter().map(rests).collect();
    assert_eq!(of, [false, false, true, true, false]);
    let step = ChaseCase { pattern: Pattern::Stride(64), page: Page::Base, set_bytes: LARGE };
    assert!(!rests(&smoke::record("memory.latency", &step.params(), 1.0, 0.1)));
    let step = ChaseCase { pattern: Pattern::Random, ..step };
    assert!(!rests(&smoke::record("memory.other", &step.params(), 1.0, 0.1)));
}

#[test]
fn in_a_guest_it_says_that_huge_pages_may_miss_too() {
    let (mut host, records) = (Host::default(), pair(LARGE));
    let notes = |host: &Host| {
        TlbMiss.reduce(&Params::none(), &Known::new(&records).on(host)).unwrap().notes
    };
    host.virtualization = Some("none".to_owned());
    assert_eq!(notes(&host).len(), 1);
    host.virtualization = Some("kvm".to_owned());
    assert!(notes(&host)[1].contains("the chase by huge pages misses too"));
}

#[test]
fn it_is_at_least_a_load_from_the_level_that_holds_the_table_and_nested_no_model() {
    let mut host = Host::default();
    host.cpu.architecture = "x86_64".to_owned();
    host.cpu.vendor = Some("AuthenticAMD".to_owned());
    (host.cpu.family, host.cpu.model_number) = (Some(0x19), Some(0x11));
    let cache = |level, size_bytes| Cache {
        level,
        size_bytes,
        kind: "unified".to_owned(),
        ..Cache::default()
    };
    host.cpu.caches = vec![cache(1, 32 << 10), cache(2, 1 << 20), cache(3, 32 << 20)];
    let mut records = pair(LARGE);
    records.push(smoke::record("cpu.frequency", &Params::none(), 4e9, 1e6));
    let predict = |host: &Host| TlbMiss.predict(&Params::none(), host, &Known::new(&records));
    let nested = |host: &Host| predict(host) == Err(NoModel::NestedPaging);
    assert!(nested(&host), "whether it is a guest is unknown");
    host.virtualization = Some("kvm".to_owned());
    assert!(nested(&host));
    host.virtualization = Some("none".to_owned());
    // 256 KiB of entries lie in the second level, whose loads take 14 cycles on Zen 4.
    let claim = predict(&host).unwrap();
    assert_eq!((claim.low, claim.value), (Some(3.5), None));
}
