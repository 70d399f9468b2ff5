//! A visit at smoke size, the cases, and the models by level.

use std::collections::BTreeSet;

use super::super::chain::Pattern;
use super::*;

#[test]
fn sets_between_levels_are_known_by_cache_sizes() {
    let host = crate::smoke::zen4();
    for (kib, levels) in [(24, None), (32, Some("L1 and L2")), (1536, Some("L2 and L3"))] {
        let set = kib << 10;
        let is_between = model::level_of(set, &host) == Err(NoModel::BetweenLevels);
        assert_eq!(is_between.then(|| model::levels_around(set, &host)).as_deref(), levels);
    }
    assert_eq!(model::levels_around(24 << 20, &host), "L3 and memory");
}

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

fn random(page: BufferPage, set_bytes: usize) -> ChaseCase {
    ChaseCase { pattern: Pattern::Random, page, set_bytes }
}

/// 1 MiB of L2.
#[test]
fn sets_in_what_guests_share_have_a_larger_noise_limit() {
    let limit = |set_bytes| {
        let case = ProbeCase { params: random(BufferPage::Huge, set_bytes).params(), cost_ns: 0.0 };
        Latency.noise_limit(&case, &zen4())
    };
    assert_eq!([32 << 10, 1 << 20, 1_280 << 10].map(limit), [0.05, 0.05, 0.1]);
}

#[test]
fn smoke_size_measures_patterns_with_both_page_sizes() {
    let measured = smoke::run(&Latency);
    assert_eq!(measured.len(), 12);
    let has_base_pages =
        |case: &ProbeCase| case.params.text("page") == Some(BufferPage::Base.name().as_str());
    for (case, sample) in measured.iter().filter(|(case, _)| has_base_pages(case)) {
        let sample = sample.as_ref().unwrap_or_else(|fault| panic!("{}: {fault}", case.params));
        assert!(sample.checks.iter().any(|check| check.name == "pages"), "{}", case.params);
    }
}

/// Measures one curve with base pages on a host with this much memory.
fn curve(sets: &[usize], available: u64) -> Vec<Result<fathom_record::Sample>> {
    let mut host = zen4();
    host.memory.available_bytes = Some(available);
    let chases: Vec<(ChaseCase, usize)> = sets
        .iter()
        .enumerate()
        .map(|(index, set)| (random(BufferPage::Base, *set), index))
        .collect();
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
    let Err(SamplerFault::Unavailable(text, _)) = &samples[2] else { panic!("{:?}", samples[2]) };
    assert!(text.contains("needs 1088 KiB"), "the working set and its order: {text}");
    assert!(matches!(curve(&[4 * KIB], 0)[..], [Err(SamplerFault::Unavailable(..))]));
}

#[test]
fn pages_reclaimed_while_measuring_fail_the_check() {
    smoke::pinned(|cpu| {
        let mut sampler = smoke::sampler(1, cpu);
        let mut buffer = Buffer::with_bytes(MIB, BufferPage::Base).unwrap();
        let half = buffer.start().wrapping_add(MIB / 2).cast();
        // SAFETY: pages of the buffer outside the working set.
        unsafe { libc::madvise(half, MIB / 2, libc::MADV_DONTNEED) };
        let case = random(BufferPage::Base, 64 * KIB);
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
    for (cache, largest) in [(33, 128), (36, 256), (260, 1024)] {
        host.cpu.caches[2].size_bytes = cache << 20;
        assert_eq!(cases::largest(&host), largest * MIB, "{cache} MiB");
    }
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
    assert!(all.iter().all(|case| ChaseCase::from_params(&case.params()) == Some(*case)));
    let unique: BTreeSet<Params> = all.iter().map(ChaseCase::params).collect();
    assert_eq!(unique.len(), all.len());
    for octave in 10..=27 {
        for stride in [32, 64, 128, 256, 512, 1024] {
            for page in BufferPage::ALL {
                let pattern = Pattern::Stride(stride);
                assert!(all.contains(&ChaseCase { pattern, page, set_bytes: 1 << octave }));
            }
        }
    }
}

#[test]
fn steps_are_fine_where_plateaus_are_detected() {
    let mut host = zen4();
    let count = |host: &Host, page, effort| {
        let is_random = |case: &&ChaseCase| case.page == page && case.pattern == Pattern::Random;
        chase_cases(host, effort).iter().filter(is_random).count()
    };
    host.memory.thp = Some("madvise".to_owned());
    assert_eq!(
        count(&host, BufferPage::Base, Effort::Quick),
        13,
        "powers of two to 8 MiB, and 128"
    );
    assert!(count(&host, BufferPage::Huge, Effort::Quick) > 30);
    assert!(count(&host, BufferPage::Base, Effort::Standard) > 30);
    host.memory.thp = Some("never".to_owned());
    assert!(count(&host, BufferPage::Base, Effort::Quick) > 30);
    let sets: BTreeSet<usize> =
        chase_cases(&host, Effort::Quick).iter().map(|case| case.set_bytes).collect();
    let memory: Vec<usize> = sets.iter().copied().filter(|set| *set >= 64 * MIB).collect();
    assert_eq!(memory, [64 * MIB, 96 * MIB, 128 * MIB], "enough for a plateau");
    assert_eq!(sets.first(), Some(&(4 * KIB)), "three points and more for the plateau of L1");
    for set in [24 * KIB, 40 * KIB, 768 * KIB, 1280 * KIB, 5 * MIB / 2, 3 * MIB, 12 * MIB] {
        assert!(sets.contains(&set), "{set}");
    }
    // Each large set is linked in every process: a quick run has what a plateau needs.
    host.cpu.caches[2].size_bytes = 260 << 20;
    host.memory.thp = Some("madvise".to_owned());
    let large = |page| -> Vec<usize> {
        let sets = chase_cases(&host, Effort::Quick).into_iter();
        let of_page = sets.filter(|case| case.page == page).map(|case| case.set_bytes / MIB);
        of_page.filter(|mib| *mib > 64).collect()
    };
    assert_eq!(large(BufferPage::Base), [1024]);
    assert_eq!(large(BufferPage::Huge), [96, 128, 256, 390, 512, 780, 1024]);
    host.cpu.caches.clear();
    let sets: BTreeSet<usize> =
        chase_cases(&host, Effort::Quick).iter().map(|case| case.set_bytes / KIB).collect();
    assert_eq!(sets.range(..=16).copied().collect::<Vec<_>>(), [1, 2, 3, 4, 6, 8, 12, 16]);
    assert_eq!(sets.range(64 << 10..).map(|kib| kib >> 10).collect::<Vec<_>>(), [64, 96, 128, 256]);
}
