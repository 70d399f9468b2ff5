//! Plateaus and edges of simulated records.

use fathom_record::Agreement;

use super::*;
use crate::smoke;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn host() -> Host {
    Host { virtualization: Some("none".to_owned()), ..smoke::zen4() }
}

/// A curve in half octaves up to `largest`, from parts with an upper size and a latency. Three
/// processes differ by 1 % each.
fn records(page: BufferPage, parts: &[(u64, f64)], largest: u64) -> Vec<Record> {
    let sets = (0..40).map(|at| (1024.0 * (f64::from(at) / 2.0).exp2()) as usize / 64 * 64);
    let sets = sets.take_while(|set| *set as u64 <= largest);
    let record = |set_bytes: usize| {
        let part = parts.iter().find(|(size, _)| set_bytes as u64 <= *size).unwrap();
        let case = ChaseCase { pattern: Pattern::Random, page, set_bytes };
        let medians = [1.0, 1.01, 0.99].map(|share| share * part.1);
        smoke::record("memory.latency", &case.params(), part.1, 0.1)
            .with_summary(|it| it.process_medians = medians.into())
    };
    sets.map(record).collect()
}

const PARTS: [(u64, f64); 4] = [(32 * KIB, 1.0), (MIB, 4.0), (32 * MIB, 15.0), (u64::MAX, 150.0)];

fn reduced(
    metric: &LevelMetric,
    records: &[Record],
    host: &Host,
) -> Result<DerivedEstimate, MissingInput> {
    metric.reduce(&Params::none(), &Inputs::new(records).on(host))
}

/// The estimate of the first process.
fn first(metric: &LevelMetric, records: &[Record], host: &Host) -> f64 {
    reduced(metric, records, host).unwrap().per_process[0]
}

fn assert_near(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 1e-9, "{value} {expected}");
}

fn set_of(record: &Record) -> u64 {
    record.params.integer("set_bytes").unwrap() as u64
}

#[test]
fn level_is_the_median_of_its_plateau_per_process() {
    let (host, records) = (host(), records(BufferPage::Huge, &PARTS, 128 * MIB));
    for (metric, ns) in
        [(&LATENCY_L1, 1.0), (&LATENCY_L2, 4.0), (&LATENCY_L3, 15.0), (&LATENCY_DRAM, 150.0)]
    {
        let estimate = reduced(metric, &records, &host).unwrap();
        for (value, share) in estimate.per_process.iter().zip([1.0, 1.01, 0.99]) {
            assert_near(*value, share * ns);
        }
        assert!(estimate.notes[0].contains("huge pages"), "{:?}", estimate.notes);
    }
    let l1 = reduced(&LATENCY_L1, &records, &host).unwrap();
    assert_eq!(l1.notes[1], "plateau from 1 KiB to 32 KiB (median over processes)");
    for (metric, size) in [(&SIZE_L1, 32 * KIB), (&SIZE_L2, MIB), (&SIZE_L3, 32 * MIB)] {
        let estimate = reduced(metric, &records, &host).unwrap();
        // Half-way between the last point of the level and the first of the next.
        let middle = size as f64 * 0.25_f64.exp2();
        assert_eq!(estimate.per_process.len(), 3);
        for (at, [from, to]) in estimate.per_process.iter().zip(&estimate.edges) {
            assert!((at / middle - 1.0).abs() < 0.02, "{at} {size}");
            assert!(*from == size as f64 && (to / from - 0.5_f64.exp2()).abs() < 0.01, "{to}");
        }
    }
}

#[test]
fn level_without_plateau_is_unavailable() {
    let host = host();
    // Other guests use all of L3.
    let parts = [PARTS[0], PARTS[1], (u64::MAX, 150.0)];
    let records = records(BufferPage::Huge, &parts, 128 * MIB);
    let error = reduced(&LATENCY_L3, &records, &host).unwrap_err().to_string();
    assert!(error.contains("3 of 3 processes the curve has no plateau for it"), "{error}");
    assert!(reduced(&SIZE_L3, &records, &host).is_err());
    let error = reduced(&SIZE_L2, &records, &host).unwrap_err().to_string();
    assert!(error.contains("next level has no plateau"), "{error}");
    assert!(reduced(&LATENCY_L2, &records, &host).is_ok());
    assert_near(first(&LATENCY_DRAM, &records, &host), 150.0);
}

#[test]
fn level_of_some_processes_is_their_number_and_noisy() {
    let host = host();
    let mut records = records(BufferPage::Huge, &PARTS, 128 * MIB);
    let remove_l3 = |records: &mut Vec<Record>, process: usize| {
        let is_l3 = |record: &&mut Record| (MIB + 1..=32 * MIB).contains(&set_of(record));
        for (index, record) in records.iter_mut().filter(is_l3).enumerate() {
            let medians = &mut record.summary.as_mut().unwrap().process_medians;
            medians[process] = 20.0 * (index as f64 / 2.0).exp2();
        }
    };
    remove_l3(&mut records, 0);
    let estimate = reduced(&LATENCY_L3, &records, &host).unwrap();
    assert_eq!(estimate.per_process.len(), 2);
    let [doubt] = estimate.doubts.as_slice() else { panic!("{:?}", estimate.doubts) };
    assert!(doubt.text.starts_with("only 2 of 3 processes have this level"), "{doubt:?}");
    assert!(reduced(&LATENCY_L2, &records, &host).unwrap().doubts.is_empty());
    remove_l3(&mut records, 1);
    let estimate = reduced(&LATENCY_L3, &records, &host).unwrap();
    assert_eq!((estimate.per_process.len(), estimate.doubts.len()), (1, 1));
    remove_l3(&mut records, 2);
    assert!(reduced(&LATENCY_L3, &records, &host).is_err(), "no process has it");
}

#[test]
fn machine_without_l3_has_no_l3_latency() {
    let mut host = host();
    host.cpu.caches = smoke::caches(&[64 * KIB, 2 * MIB]);
    let parts = [(64 * KIB, 1.0), (2 * MIB, 4.0), (u64::MAX, 90.0)];
    let records = records(BufferPage::Huge, &parts, 128 * MIB);
    assert_eq!(
        reduced(&LATENCY_L3, &records, &host),
        Err(MissingInput::Absent("this CPU reports no such cache"))
    );
    assert_near(first(&LATENCY_DRAM, &records, &host), 90.0);
    assert!(reduced(&SIZE_L2, &records, &host).is_ok());
}

/// As in many guests on ARM, whose kernel reports no caches.
#[test]
fn unknown_caches_are_numbered_by_the_plateaus() {
    let (host, unknown) = (host(), Host { cpu: Default::default(), ..host() });
    let mut all = records(BufferPage::Huge, &PARTS, 128 * MIB);
    for metric in [&LATENCY_L1, &LATENCY_L2, &LATENCY_L3, &LATENCY_DRAM, &SIZE_L1, &SIZE_L3] {
        let of = |host| reduced(metric, &all, host).unwrap();
        assert_eq!(of(&unknown).per_process, of(&host).per_process, "{}", metric.about.id);
        let is_noted = |host| of(host).notes.contains(&FROM_CURVE.to_owned());
        assert_eq!([&unknown, &host].map(is_noted), [true, false]);
    }
    // A process without L2: the curves of the others number its L3.
    let is_l2 = |record: &&mut Record| (32 * KIB + 1..=MIB).contains(&set_of(record));
    for (index, record) in all.iter_mut().filter(is_l2).enumerate() {
        let medians = &mut record.summary.as_mut().unwrap().process_medians;
        medians[0] = (index as f64 * 0.4).exp2();
    }
    assert_eq!(reduced(&LATENCY_L2, &all, &unknown).unwrap().per_process.len(), 2);
    assert_near(first(&LATENCY_L3, &all, &unknown), 15.0);
}

#[test]
fn level_that_an_unknown_cpu_lacks_is_unavailable() {
    let unknown = Host::default();
    let two = records(BufferPage::Huge, &[(64 * KIB, 1.0), (u64::MAX, 90.0)], 128 * MIB);
    assert_near(first(&LATENCY_L1, &two, &unknown), 1.0);
    assert_near(first(&LATENCY_DRAM, &two, &unknown), 90.0);
    let error = reduced(&LATENCY_L2, &two, &unknown).unwrap_err().to_string();
    assert!(error.contains("too few plateaus"), "{error}");
    // The curve still rises at its end: no plateau is that of memory.
    let mut rising = records(BufferPage::Huge, &PARTS[..3], 32 * MIB);
    rising.extend(records(BufferPage::Huge, &[(u64::MAX, 150.0)], 64 * MIB).split_off(31));
    assert_near(first(&LATENCY_L3, &rising, &unknown), 15.0);
    assert!(reduced(&LATENCY_DRAM, &rising, &unknown).is_err());
}

#[test]
fn model_of_an_unknown_cache_is_missing() {
    let mut host = host();
    host.cpu.caches.clear();
    let frequency = smoke::record("cpu.frequency", &Params::none(), 4e9, 1e6);
    let known = [frequency];
    for metric in [&SIZE_L1, &LATENCY_DRAM] {
        let model = metric.predict(&Params::none(), &host, &Inputs::new(&known));
        assert_eq!(model.unwrap_err(), NoModel::unknown_fact(&["cpu.caches"]));
    }
}

#[test]
fn memory_latency_needs_sets_of_twice_the_last_cache() {
    let host = host();
    let small = records(BufferPage::Huge, &PARTS, 48 * MIB);
    let error = reduced(&LATENCY_DRAM, &small, &host).unwrap_err().to_string();
    assert!(error.contains("64 MiB are needed: the last-level cache holds much"), "{error}");
    assert!(reduced(&LATENCY_L3, &small, &host).is_ok());
    // 6 MiB of L3 are available; larger sets still hit it occasionally.
    let parts = [PARTS[0], PARTS[1], (6 * MIB, 15.0), (60 * MIB, 145.0), (u64::MAX, 158.0)];
    let mut records = records(BufferPage::Huge, &parts, 128 * MIB);
    assert_near(first(&LATENCY_DRAM, &records, &host), 158.0);
    let notes = reduced(&LATENCY_DRAM, &records, &host).unwrap().notes;
    assert!(notes[1].starts_with("points of the plateau from 64 MiB to 128 MiB"), "{notes:?}");
    for record in records.iter_mut().filter(|record| set_of(record) >= 64 * MIB) {
        record.summary.as_mut().unwrap().process_medians = vec![40.0; 3];
    }
    let error = reduced(&LATENCY_DRAM, &records, &host).unwrap_err().to_string();
    assert!(error.contains("the plateau ends at 46340 KiB"), "{error}");
}

#[test]
fn guest_notes_the_shared_l3_in_the_size_only() {
    let mut host = host();
    let records = records(BufferPage::Huge, &PARTS, 128 * MIB);
    let notes_share = |metric: &LevelMetric, host: &Host| {
        reduced(metric, &records, host).unwrap().notes.iter().any(|note| note.contains(SHARE))
    };
    assert!(!notes_share(&SIZE_L3, &host));
    host.virtualization = Some("kvm".to_owned());
    assert!(notes_share(&SIZE_L3, &host));
    assert!(!notes_share(&SIZE_L2, &host) && !notes_share(&LATENCY_L3, &host));
}

#[test]
fn base_pages_replace_incomplete_huge_page_curve() {
    let host = host();
    let slower = PARTS.map(|(size, ns)| (size, 1.2 * ns));
    let mut both = records(BufferPage::Base, &slower, 128 * MIB);
    let base = reduced(&LATENCY_L2, &both, &host).unwrap();
    assert!(base.notes[0].contains("4K pages"));
    assert_near(base.per_process[0], 4.8);
    both.extend(records(BufferPage::Huge, &PARTS, 16 * MIB));
    assert_eq!(reduced(&LATENCY_L2, &both, &host).unwrap(), base);
    both.extend(records(BufferPage::Huge, &PARTS, 128 * MIB));
    assert_near(first(&LATENCY_L2, &both, &host), 4.0);
}

#[test]
fn single_plateau_is_assigned_by_its_position() {
    let sizes = [32 * KIB, MIB, 32 * MIB].map(|size| size as f64);
    let curve: Vec<CurvePoint> = (10..28).map(|octave| (f64::from(octave).exp2(), 1.0)).collect();
    for (from, to, level) in [
        (10, 14, Some(0)),
        (16, 19, Some(1)),
        (21, 23, Some(2)),
        // Memory starts early where little of L3 is available; it extends beyond the cache.
        (21, 27, Some(3)),
        // The last point is an outlier.
        (23, 26, Some(3)),
        (21, 24, Some(2)),
        // Memory or L3: ambiguous.
        (23, 25, None),
    ] {
        let mut plateaus = curve::plateaus(&curve[from - 10..=to - 10], 1);
        for plateau in &mut plateaus {
            plateau.first += from - 10;
            plateau.last += from - 10;
        }
        let assigned = assign(&curve, &plateaus, &sizes).iter().position(Option::is_some);
        assert_eq!(assigned, level, "2^{from} to 2^{to}");
    }
}

#[test]
fn split_memory_plateau_is_not_taken_for_l3() {
    let host = host();
    // Nothing of L3 is available, and interference splits the plateau of memory.
    let parts = [PARTS[0], PARTS[1], (6 * MIB, 30.0), (24 * MIB, 100.0), (u64::MAX, 160.0)];
    let mut records = records(BufferPage::Huge, &parts, 128 * MIB);
    let is_ramp = |record: &&mut Record| (MIB + 1..=6 * MIB).contains(&set_of(record));
    for (index, record) in records.iter_mut().filter(is_ramp).enumerate() {
        let ns = 10.0 * (index as f64 * 0.7).exp2();
        record.summary.as_mut().unwrap().process_medians = vec![ns; 3];
    }
    let curves = Curves::from_inputs(&Inputs::new(&records).on(&host)).unwrap();
    assert_eq!(curve::plateaus(&curves.per_process[0], 4).len(), 4);
    assert!(reduced(&LATENCY_L3, &records, &host).is_err());
    assert_near(first(&LATENCY_DRAM, &records, &host), 160.0);
}

#[test]
fn predicted_size_is_the_kernels() {
    let mut host = host();
    let predict = |metric: &LevelMetric, host: &Host| {
        metric.predict(&Params::none(), host, &Inputs::new(&[])).unwrap()
    };
    let l2 = predict(&SIZE_L2, &host);
    assert_eq!(l2.value, Some(1048576.0));
    // In the steps around the size, below and above it, and two steps above it.
    let step = |quarters: f64| [quarters, quarters + 1.0].map(|it| it / 4.0 * 1048576.0);
    assert_eq!([3.0, 4.0].map(|it| l2.agreement(Some(step(it)))), [Agreement::Within; 2]);
    assert_eq!(l2.agreement(Some(step(6.0))), Agreement::Outside);
    assert!(predict(&SIZE_L3, &host).value.is_some());
    host.virtualization = Some("kvm".to_owned());
    let stated = predict(&SIZE_L3, &host);
    assert!(stated.is_ordinal() && stated.formula.contains("unverified"), "{}", stated.formula);
    assert!(predict(&SIZE_L2, &host).value.is_some());
}
