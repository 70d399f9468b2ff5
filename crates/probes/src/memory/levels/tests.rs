//! Plateaus and edges of made-up records.

use fathom_record::host::Cache;
use fathom_record::{Agreement, Summary};

use super::*;
use crate::smoke;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn host(sizes: &[u64]) -> Host {
    let mut host = Host::default();
    host.cpu.architecture = "x86_64".to_owned();
    let cache = |(at, size): (usize, &u64)| Cache {
        level: at as u32 + 1,
        kind: "unified".to_owned(),
        size_bytes: *size,
        ..Cache::default()
    };
    host.cpu.caches = sizes.iter().enumerate().map(cache).collect();
    host
}

/// A curve by half octaves: each part goes up to a size and has a latency, and three processes
/// differ by a hundredth each.
fn records(page: Page, parts: &[(u64, f64)], largest: u64) -> Vec<Record> {
    let sets = (0..40).map(|at| (1024.0 * (f64::from(at) / 2.0).exp2()) as usize / 64 * 64);
    let sets = sets.take_while(|set| *set as u64 <= largest);
    let record = |set_bytes: usize| {
        let part = parts.iter().find(|(size, _)| set_bytes as u64 <= *size).unwrap();
        let step = Step { pattern: Pattern::Random, page, set_bytes };
        let mut record = smoke::record("memory.latency", &step.params(), part.1, 0.1);
        let summary = record.summary.as_mut().unwrap();
        summary.process_medians = [1.0, 1.01, 0.99].map(|share| share * part.1).into();
        record
    };
    sets.map(record).collect()
}

const PARTS: [(u64, f64); 4] = [(32 * KIB, 1.0), (MIB, 4.0), (32 * MIB, 15.0), (u64::MAX, 150.0)];

fn reduced(of: &OfLevel, records: &[Record], host: &Host) -> Result<Estimate, MissingInput> {
    of.reduce(&Params::none(), &Known::new(records).on(host))
}

#[test]
fn each_level_has_the_median_of_its_plateau_in_each_process() {
    let (host, records) =
        (host(&[32 * KIB, MIB, 32 * MIB]), records(Page::Huge, &PARTS, 128 * MIB));
    for (of, ns) in
        [(&LATENCY_L1, 1.0), (&LATENCY_L2, 4.0), (&LATENCY_L3, 15.0), (&LATENCY_DRAM, 150.0)]
    {
        let estimate = reduced(of, &records, &host).unwrap();
        let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-9;
        let expected = [ns, 1.01 * ns, 0.99 * ns];
        assert!(
            estimate.per_process.iter().zip(expected).all(|(a, b)| near(*a, b)),
            "{estimate:?}"
        );
        assert!(estimate.notes[0].contains("huge pages"), "{:?}", estimate.notes);
    }
    let first = reduced(&LATENCY_L1, &records, &host).unwrap();
    assert_eq!(first.notes[1], "the plateau goes from 1 KiB to 32 KiB (median over processes)");
}

#[test]
fn each_edge_lies_between_the_last_point_of_its_level_and_the_first_of_the_next() {
    let (host, records) =
        (host(&[32 * KIB, MIB, 32 * MIB]), records(Page::Huge, &PARTS, 128 * MIB));
    for (of, size) in [(&SIZE_L1, 32 * KIB), (&SIZE_L2, MIB), (&SIZE_L3, 32 * MIB)] {
        let estimate = reduced(of, &records, &host).unwrap();
        let quarter = size as f64 * 0.25_f64.exp2();
        assert_eq!(estimate.per_process.len(), 3);
        for edge in &estimate.per_process {
            assert!((edge / quarter - 1.0).abs() < 0.02, "{edge} is not half-way in {size}");
        }
    }
}

#[test]
fn a_level_without_a_plateau_is_unavailable_and_so_is_the_edge_before_it() {
    let host = host(&[32 * KIB, MIB, 32 * MIB]);
    // What the guest is left of the third level is nothing.
    let parts = [PARTS[0], PARTS[1], (u64::MAX, 150.0)];
    let records = records(Page::Huge, &parts, 128 * MIB);
    let error = reduced(&LATENCY_L3, &records, &host).unwrap_err().to_string();
    assert!(error.contains("3 of 3 processes the curve has no flat part for it"), "{error}");
    assert!(reduced(&SIZE_L3, &records, &host).is_err());
    let error = reduced(&SIZE_L2, &records, &host).unwrap_err().to_string();
    assert!(error.contains("next level has no plateau"), "{error}");
    assert!(reduced(&LATENCY_L2, &records, &host).is_ok());
    let memory = reduced(&LATENCY_DRAM, &records, &host).unwrap();
    assert!((memory.per_process[0] - 150.0).abs() < 1e-9);
}

#[test]
fn a_level_that_most_processes_do_not_have_is_unavailable() {
    let host = host(&[32 * KIB, MIB, 32 * MIB]);
    let mut records = records(Page::Huge, &PARTS, 128 * MIB);
    let third = |record: &&mut Record| {
        let set = record.params.integer("set_bytes").unwrap() as u64;
        set > MIB && set <= 32 * MIB
    };
    let spoil = |records: &mut Vec<Record>, process: usize| {
        for (at, record) in records.iter_mut().filter(third).enumerate() {
            let summary: &mut Summary = record.summary.as_mut().unwrap();
            summary.process_medians[process] = 20.0 * (at as f64 / 2.0).exp2();
        }
    };
    spoil(&mut records, 0);
    let estimate = reduced(&LATENCY_L3, &records, &host).unwrap();
    assert_eq!(estimate.per_process.len(), 2);
    let [doubt] = estimate.doubts.as_slice() else { panic!("{:?}", estimate.doubts) };
    assert!(doubt.text.starts_with("only 2 of 3 processes show such a level"), "{doubt:?}");
    assert!(reduced(&LATENCY_L2, &records, &host).unwrap().doubts.is_empty());
    spoil(&mut records, 1);
    assert!(reduced(&LATENCY_L3, &records, &host).is_err());
}

#[test]
fn a_machine_without_a_third_cache_says_so() {
    let host = host(&[64 * KIB, 2 * MIB]);
    let parts = [(64 * KIB, 1.0), (2 * MIB, 4.0), (u64::MAX, 90.0)];
    let records = records(Page::Huge, &parts, 128 * MIB);
    assert_eq!(
        reduced(&LATENCY_L3, &records, &host),
        Err(MissingInput::Absent("this CPU reports no such cache"))
    );
    assert!((reduced(&LATENCY_DRAM, &records, &host).unwrap().per_process[0] - 90.0).abs() < 1e-9);
    assert!(reduced(&SIZE_L2, &records, &host).is_ok());
    let nothing = Host::default();
    assert_eq!(reduced(&LATENCY_L1, &records, &nothing), Err(NO_CACHES));
}

#[test]
fn a_ladder_that_ends_before_memory_has_no_memory() {
    let host = host(&[32 * KIB, MIB, 32 * MIB]);
    let records = records(Page::Huge, &PARTS, 48 * MIB);
    let error = reduced(&LATENCY_DRAM, &records, &host).unwrap_err().to_string();
    assert!(error.contains("64 MiB are needed: the last cache holds much"), "{error}");
    assert!(reduced(&LATENCY_L3, &records, &host).is_ok());
}

#[test]
fn memory_is_told_by_sets_of_twice_the_last_cache_and_more() {
    let host = host(&[32 * KIB, MIB, 32 * MIB]);
    // Of the third level 6 MiB are had, and what lies behind still hits it now and then.
    let parts = [PARTS[0], PARTS[1], (6 * MIB, 15.0), (60 * MIB, 145.0), (u64::MAX, 158.0)];
    let mut records = records(Page::Huge, &parts, 128 * MIB);
    let memory = reduced(&LATENCY_DRAM, &records, &host).unwrap();
    assert!((memory.per_process[0] - 158.0).abs() < 1e-9, "{memory:?}");
    let points = "the points of the plateau from 64 MiB to 128 MiB";
    assert!(memory.notes[1].starts_with(points), "{:?}", memory.notes);
    // Where all of these are spoilt there is nothing to tell it by.
    for record in &mut records {
        let set = record.params.integer("set_bytes").unwrap() as u64;
        if set >= 64 * MIB {
            record.summary.as_mut().unwrap().process_medians = vec![40.0; 3];
        }
    }
    let error = reduced(&LATENCY_DRAM, &records, &host).unwrap_err().to_string();
    assert!(error.contains("the plateau ends at 46340 KiB"), "{error}");
}

#[test]
fn the_edge_of_the_third_level_in_a_guest_is_called_what_a_chase_holds() {
    let mut host = host(&[32 * KIB, MIB, 32 * MIB]);
    let records = records(Page::Huge, &PARTS, 128 * MIB);
    let says = |of: &OfLevel, host: &Host| {
        let notes = reduced(of, &records, host).unwrap().notes;
        notes.iter().any(|note| note.contains("can hold against neighbours"))
    };
    host.virtualization = Some("none".to_owned());
    assert!(!says(&SIZE_L3, &host));
    host.virtualization = Some("kvm".to_owned());
    assert!(says(&SIZE_L3, &host));
    assert!(!says(&SIZE_L2, &host) && !says(&LATENCY_L3, &host));
}

#[test]
fn the_curve_by_small_pages_is_taken_where_huge_ones_cannot_be_had() {
    let host = host(&[32 * KIB, MIB, 32 * MIB]);
    let slower = PARTS.map(|(size, ns)| (size, 1.2 * ns));
    let mut both = records(Page::Base, &slower, 128 * MIB);
    let small = reduced(&LATENCY_L2, &both, &host).unwrap();
    assert!((small.per_process[0] - 4.8).abs() < 1e-9 && small.notes[0].contains("4K pages"));
    both.extend(records(Page::Huge, &PARTS, 16 * MIB));
    assert_eq!(reduced(&LATENCY_L2, &both, &host).unwrap(), small, "not all of it by huge pages");
    both.extend(records(Page::Huge, &PARTS, 128 * MIB));
    assert!((reduced(&LATENCY_L2, &both, &host).unwrap().per_process[0] - 4.0).abs() < 1e-9);
}

#[test]
fn a_plateau_that_is_one_of_fewer_is_known_by_where_it_lies() {
    let sizes = [32.0 * 1024.0, 1048576.0, 33554432.0];
    let curve: Vec<Point> = (10..28).map(|octave| (f64::from(octave).exp2(), 1.0)).collect();
    let of = |from: usize, to: usize| {
        let mut found = curve::plateaus(&curve[from - 10..=to - 10], 1);
        found.iter_mut().for_each(|plateau| {
            plateau.first += from - 10;
            plateau.last += from - 10;
        });
        labelled(&curve, &found, &sizes).iter().position(Option::is_some)
    };
    assert_eq!(of(10, 14), Some(0));
    assert_eq!(of(16, 19), Some(1));
    assert_eq!(of(21, 23), Some(2));
    // Memory begins early where little of the third level is left; it goes beyond the cache.
    assert_eq!(of(21, 27), Some(3));
    assert_eq!(of(23, 26), Some(3), "the last point was spoilt");
    assert_eq!(of(21, 24), Some(2));
    assert_eq!(of(23, 25), None, "memory, or the third level: nobody can tell");
}

#[test]
fn as_many_plateaus_as_levels_are_no_proof_of_each() {
    let host = host(&[32 * KIB, MIB, 32 * MIB]);
    // Nothing is left of the third level, and what others do splits memory in two.
    let parts = [PARTS[0], PARTS[1], (6 * MIB, 30.0), (24 * MIB, 100.0), (u64::MAX, 160.0)];
    let mut records = records(Page::Huge, &parts, 128 * MIB);
    let ramp = |record: &&mut Record| {
        let set = record.params.integer("set_bytes").unwrap() as u64;
        set > MIB && set <= 6 * MIB
    };
    for (at, record) in records.iter_mut().filter(ramp).enumerate() {
        let ns = 10.0 * (at as f64 * 0.7).exp2();
        record.summary.as_mut().unwrap().process_medians = vec![ns; 3];
    }
    let known = Known::new(&records).on(&host);
    assert_eq!(Curves::of(&known).unwrap().per_process[0].len(), records.len());
    let found = curve::plateaus(&Curves::of(&known).unwrap().per_process[0], 4);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(reduced(&LATENCY_L3, &records, &host).is_err());
    assert!((reduced(&LATENCY_DRAM, &records, &host).unwrap().per_process[0] - 160.0).abs() < 1e-9);
}

#[test]
fn a_size_is_predicted_by_the_kernel_and_a_small_share_of_a_shared_cache_explained() {
    let mut host = host(&[32 * KIB, MIB, 32 * MIB]);
    let predict =
        |of: &OfLevel, host: &Host| of.predict(&Params::none(), host, &Known::new(&[])).unwrap();
    let second = predict(&SIZE_L2, &host);
    assert_eq!(second.value, Some(1048576.0));
    assert_eq!(second.agreement(Some([0.86e6, 1.2e6])), Agreement::Within);
    assert_eq!(second.agreement(Some([1.25e6, 1.3e6])), Agreement::Outside);
    assert!(!predict(&SIZE_L3, &host).if_below.contains("other guests"));
    host.virtualization = Some("kvm".to_owned());
    let below = predict(&SIZE_L3, &host).if_below;
    assert!(below.contains("other guests") && below.contains("hold against neighbours"), "{below}");
    assert!(!predict(&SIZE_L2, &host).if_below.contains("other guests"));
}
