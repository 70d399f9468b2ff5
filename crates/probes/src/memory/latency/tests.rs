//! A visit at smoke size, the cases, and the models by level.

use std::collections::BTreeSet;

use fathom_record::host::MemoryModule;

use super::super::chain::Pattern;
use super::*;
use crate::smoke;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn zen4() -> Host {
    let mut host = smoke::zen4();
    host.memory.available_bytes = Some(16 << 30);
    host
}

fn chase_cases(host: &Host, effort: Effort) -> Vec<ChaseCase> {
    cases::chase_cases(host, &effort.into())
}

fn random(page: Page, set_bytes: usize) -> ChaseCase {
    ChaseCase { pattern: Pattern::Random, page, set_bytes }
}

#[test]
fn smoke_size_measures_patterns_with_both_page_sizes() {
    let measured = smoke::run(&Latency);
    assert_eq!(measured.len(), 12);
    let has_base_pages = |case: &Case| case.params.text("page") == Some(Page::Base.name().as_str());
    for (case, sample) in measured.iter().filter(|(case, _)| has_base_pages(case)) {
        let sample = sample.as_ref().unwrap_or_else(|fault| panic!("{}: {fault}", case.params));
        assert!(sample.checks.iter().any(|check| check.name == "pages"), "{}", case.params);
    }
}

/// Measures one curve with base pages on a host with this much memory.
fn curve(sets: &[usize], available: u64) -> Vec<Result<fathom_record::Sample>> {
    let mut host = zen4();
    host.memory.available_bytes = Some(available);
    let chases: Vec<(ChaseCase, usize)> =
        sets.iter().enumerate().map(|(index, set)| (random(Page::Base, *set), index)).collect();
    smoke::pinned(|cpu| {
        let mut sampler = smoke::sampler(chases.len(), cpu);
        measure_curve(&chases, &host, &mut sampler);
        sampler.finish().samples
    })
}

#[test]
fn only_the_too_large_working_set_is_unavailable() {
    let samples = curve(&[4 * KIB, 64 * KIB, MIB], 512 << 10);
    assert!(samples[0].is_ok() && samples[1].is_ok(), "{samples:?}");
    let Err(Fault::Unavailable(text, _)) = &samples[2] else { panic!("{:?}", samples[2]) };
    assert!(text.contains("needs 1088 KiB"), "the working set and its order: {text}");
    assert!(matches!(curve(&[4 * KIB], 0)[..], [Err(Fault::Unavailable(..))]));
}

#[test]
fn pages_reclaimed_while_measuring_fail_the_check() {
    smoke::pinned(|cpu| {
        let mut sampler = smoke::sampler(1, cpu);
        let mut buffer = Buffer::of(MIB, Page::Base).unwrap();
        let half = buffer.start().wrapping_add(MIB / 2).cast();
        // SAFETY: pages of the buffer outside the working set.
        unsafe { libc::madvise(half, MIB / 2, libc::MADV_DONTNEED) };
        let case = random(Page::Base, 64 * KIB);
        measure_chase(&case, 0, &zen4(), &mut buffer, &mut sampler).unwrap();
        let checks = sampler.finish().samples.remove(0).unwrap().checks;
        let failed: Vec<&str> =
            checks.iter().filter(|check| !check.passed).map(|it| it.name.as_str()).collect();
        assert_eq!(failed, ["pages"], "half of the buffer is not resident: {checks:?}");
    });
}

#[test]
fn largest_set_is_four_caches_or_what_memory_allows() {
    let mut host = zen4();
    assert_eq!(cases::largest(&host), 128 * MIB);
    host.cpu.caches[2].size_bytes = 36 << 20;
    assert_eq!(cases::largest(&host), 256 * MIB, "rounded up to a power of two");
    // A quarter of 512 MiB is 128 MiB, which leaves no space for the order of the chain.
    host.memory.available_bytes = Some(512 << 20);
    assert_eq!(cases::largest(&host), 64 * MIB);
    host.cgroup.memory_limit_bytes = Some(16 << 20);
    assert_eq!(cases::largest(&host), 2 * MIB);
}

#[test]
fn each_effort_has_its_patterns_and_cases_are_unique() {
    let host = zen4();
    for (effort, count) in [(Effort::Quick, 1), (Effort::Standard, 3), (Effort::Thorough, 8)] {
        let cases = chase_cases(&host, effort);
        let patterns: BTreeSet<Pattern> = cases.iter().map(|case| case.pattern).collect();
        assert_eq!(patterns.len(), count);
        assert_eq!(cases.iter().map(|case| case.set_bytes).max(), Some(128 * MIB));
    }
    let all = chase_cases(&host, Effort::Thorough);
    assert!(all.iter().all(|case| ChaseCase::of(&case.params()) == Some(*case)));
    let unique: BTreeSet<Params> = all.iter().map(ChaseCase::params).collect();
    assert_eq!(unique.len(), all.len());
    for octave in 10..=27 {
        for stride in [32, 64, 128, 256, 512, 1024] {
            for page in Page::ALL {
                let pattern = Pattern::Stride(stride);
                assert!(all.contains(&ChaseCase { pattern, page, set_bytes: 1 << octave }));
            }
        }
    }
}

fn known() -> Vec<Record> {
    vec![smoke::record("cpu.frequency", &Params::none(), 4e9, 1e6)]
}

fn predict(case: ChaseCase, host: &Host) -> Model {
    Latency.predict(&Case::usual(case.params()), host, &Inputs::new(&known()))
}

#[test]
fn set_clearly_in_a_level_is_predicted_by_its_cycles() {
    for (set, ns) in [
        (KIB, 1.0),
        (16 * KIB, 1.0),
        (64 * KIB, 3.5),
        (512 * KIB, 3.5),
        (2 * MIB, 12.5),
        (16 * MIB, 12.5),
    ] {
        assert_eq!(predict(random(Page::Huge, set), &zen4()).unwrap().value, Some(ns));
    }
    // Between two levels: their latencies, each with its tolerance.
    for (between, low, high) in [
        (32 * KIB, 0.9, Some(3.85)),
        (MIB, 3.15, Some(16.25)),
        (32 * MIB, 8.75, None),
        (48 * MIB, 8.75, None),
    ] {
        let bracket = predict(random(Page::Huge, between), &zen4()).unwrap();
        let near = |limit: Option<f64>, wanted: Option<f64>| {
            limit
                .zip(wanted)
                .map_or(limit == wanted, |(limit, wanted)| (limit - wanted).abs() < 1e-9)
        };
        assert!(near(bracket.low, Some(low)) && near(bracket.high, high), "{between}: {bracket:?}");
        assert_eq!(bracket.value, None, "{between}");
    }
}

/// A cyclic walk over more than a cache misses all loads with LRU replacement; with random
/// replacement 58.3 % at 1.5 times the size (m = 1 − exp(−1.5 m)).
#[test]
fn set_beyond_a_cache_is_between_random_and_lru_replacement() {
    for (set, hit, miss, high) in
        [(48 * KIB, 0.9, 0.9 * 3.5, 1.1 * 3.5), (3 * MIB / 2, 0.9 * 3.5, 0.7 * 12.5, 1.3 * 12.5)]
    {
        let bracket = predict(random(Page::Huge, set), &zen4()).unwrap();
        let low = (1.0 - 0.583) * hit + 0.583 * miss;
        assert!((bracket.low.unwrap() / low - 1.0).abs() < 1e-3, "{set}: {bracket:?}");
        assert!((bracket.high.unwrap() / high - 1.0).abs() < 1e-9 && bracket.value.is_none());
        assert_eq!(bracket.inputs.len(), 4, "two latencies, frequency and share: {bracket:?}");
    }
    // 4K pages collide in a physically indexed cache before it is full: one limit only.
    assert_eq!(predict(random(Page::Base, 3 * MIB / 2), &zen4()).unwrap().high, None);
}

/// Where other guests share the last-level cache, a set of half its size is not clearly inside.
#[test]
fn set_in_a_shared_cache_needs_more_room() {
    let mut guest = zen4();
    guest.virtualization = Some("kvm".to_owned());
    for (inside, beyond, ns) in [(4 * MIB, 6 * MIB, 12.5), (KIB << 8, KIB << 9, 3.5)] {
        assert_eq!(predict(random(Page::Huge, inside), &guest).unwrap().value, Some(ns));
        assert_eq!(predict(random(Page::Huge, beyond), &zen4()).unwrap().value, Some(ns));
        assert!(predict(random(Page::Huge, beyond), &guest).unwrap().is_ordinal());
    }
}

#[test]
fn memory_and_base_pages_beyond_the_tlb_have_a_bound_only() {
    let memory = predict(random(Page::Huge, 64 * MIB), &zen4()).unwrap();
    assert_eq!((memory.low, memory.high, memory.value), (Some(12.5), None, None));
    let l2 = predict(random(Page::Base, 64 * KIB), &zen4()).unwrap();
    assert_eq!(l2.value, Some(3.5), "within half of the reach of 3072 entries");
    let l3 = predict(random(Page::Base, 8 * MIB), &zen4()).unwrap();
    assert_eq!((l3.low, l3.value), (Some(12.5), None), "beyond");
    assert_eq!(predict(random(Page::Base, 4 * KIB), &zen4()).unwrap().value, Some(1.0));
}

#[test]
fn prefetched_patterns_have_a_model_in_l1_only() {
    for pattern in [Pattern::RandomPage, Pattern::Stride(64)] {
        let case = |set| ChaseCase { pattern, ..random(Page::Huge, set) };
        assert_eq!(predict(case(4 * KIB), &zen4()).unwrap().value, Some(1.0));
        assert_eq!(predict(case(64 * MIB), &zen4()), Err(NoModel::Prefetched));
    }
}

#[test]
fn reported_ddr4_module_adds_row_and_column() {
    let mut host = zen4();
    for (kind, low, is_weak) in
        [(None, 12.5, true), (Some("DDR4"), 12.5 + 25.0, false), (Some("DDR5"), 12.5, true)]
    {
        let module = |kind: &str| MemoryModule {
            kind: Some(kind.to_owned()),
            transfers_per_s: Some(3.2e9),
            ..MemoryModule::default()
        };
        host.memory.modules = kind.map(module).into_iter().collect();
        let bound = predict(random(Page::Huge, 128 * MIB), &host).unwrap();
        assert_eq!(bound.low, Some(low));
        assert_eq!(bound.formula.contains("a weak lower bound"), is_weak, "{kind:?}");
    }
}

#[test]
fn missing_frequency_or_caches_leave_no_model() {
    let case = random(Page::Huge, 4 * KIB);
    let none = Latency.predict(&Case::usual(case.params()), &zen4(), &Inputs::new(&[]));
    assert_eq!(none, Err(NoModel::MissingInput { metric: "cpu.frequency".to_owned() }));
    let mut host = zen4();
    host.cpu.caches.clear();
    assert_eq!(predict(case, &host), Err(NoModel::unknown_fact(&["cpu.caches"])));
}

#[test]
fn steps_are_fine_where_plateaus_are_detected() {
    let mut host = zen4();
    let count = |host: &Host, page, effort| {
        let is_random = |case: &&ChaseCase| case.page == page && case.pattern == Pattern::Random;
        chase_cases(host, effort).iter().filter(is_random).count()
    };
    host.memory.thp = Some("madvise".to_owned());
    assert_eq!(count(&host, Page::Base, Effort::Quick), 18, "powers of two");
    assert!(count(&host, Page::Huge, Effort::Quick) > 30);
    assert!(count(&host, Page::Base, Effort::Standard) > 30);
    host.memory.thp = Some("never".to_owned());
    assert!(count(&host, Page::Base, Effort::Quick) > 30);
    let sets: BTreeSet<usize> =
        chase_cases(&host, Effort::Quick).iter().map(|case| case.set_bytes).collect();
    let memory: Vec<usize> = sets.iter().copied().filter(|set| *set >= 64 * MIB).collect();
    assert_eq!(memory, [64 * MIB, 96 * MIB, 128 * MIB], "enough for a plateau");
    for set in [24 * KIB, 40 * KIB, 768 * KIB, 1280 * KIB, 5 * MIB / 2, 3 * MIB, 12 * MIB] {
        assert!(sets.contains(&set), "{set}");
    }
}
