//! A visit in smoke size, the ladder, and the models by level.

use std::collections::BTreeSet;

use fathom_record::host::{Cache, MemoryModule};
use fathom_record::{Effort, Params, Record};

use super::super::chain::Pattern;
use super::*;
use crate::buffer::Page;
use crate::smoke;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// A Zen 4 with 32 KiB, 1 MiB and 32 MiB.
fn zen4() -> Host {
    let mut host = Host::default();
    host.cpu.architecture = "x86_64".to_owned();
    host.cpu.vendor = Some("AuthenticAMD".to_owned());
    (host.cpu.family, host.cpu.model_number) = (Some(0x19), Some(0x11));
    host.cpu.caches = [(1, "data", 32 * KIB), (1, "instruction", 32 * KIB)]
        .into_iter()
        .chain([(2, "unified", MIB), (3, "unified", 32 * MIB)])
        .map(|(level, kind, size)| Cache {
            level,
            kind: kind.to_owned(),
            size_bytes: size as u64,
            line_bytes: Some(64),
            ..Cache::default()
        })
        .collect();
    host.memory.available_bytes = Some(16 << 30);
    host
}

fn ladder(host: &Host, effort: Effort) -> Vec<Step> {
    ladder::steps(host, &Sizes { effort, smoke: false })
}

#[test]
fn smoke_size_takes_every_pattern_by_both_pages() {
    let taken = smoke::take(&Latency);
    assert_eq!(taken.len(), 12);
    let by_small = |case: &Case| case.params.text("page") == Some(Page::Base.name().as_str());
    for (case, sample) in taken.iter().filter(|(case, _)| by_small(case)) {
        let sample = sample.as_ref().unwrap_or_else(|fault| panic!("{}: {fault}", case.params));
        assert!(sample.values.iter().all(|ns| *ns > 0.0), "{}", case.params);
        let pages = sample.checks.iter().find(|check| check.name == "pages").unwrap();
        assert!(pages.detail.contains("taken with the chain's order"), "{}", pages.detail);
    }
}

/// Takes steps of one curve by small pages on a host with so much memory.
fn curve(sets: &[usize], available: u64) -> Vec<Result<fathom_record::Sample, Fault>> {
    let mut host = zen4();
    host.memory.available_bytes = Some(available);
    let step = |set_bytes| Step { pattern: Pattern::Random, page: Page::Base, set_bytes };
    let steps: Vec<(Step, usize)> =
        sets.iter().enumerate().map(|(index, set)| (step(*set), index)).collect();
    smoke::pinned(|cpu| {
        let mut sampler = smoke::sampler(steps.len(), cpu);
        take_curve(&steps, &host, &mut sampler);
        sampler.finish().samples
    })
}

#[test]
fn a_set_without_room_is_refused_and_the_smaller_ones_are_taken() {
    let samples = curve(&[4 * KIB, 64 * KIB, MIB], 512 << 10);
    assert!(samples[0].is_ok() && samples[1].is_ok(), "{samples:?}");
    let Err(Fault::Unavailable(text, _)) = &samples[2] else { panic!("{:?}", samples[2]) };
    assert!(text.contains("needs 1088 KiB"), "the set and its order: {text}");
    assert!(
        curve(&[4 * KIB], 0).iter().all(|sample| matches!(sample, Err(Fault::Unavailable(..))))
    );
}

#[test]
fn pages_that_went_away_while_it_was_measured_fail_the_check() {
    let step = Step { pattern: Pattern::Random, page: Page::Base, set_bytes: 64 * KIB };
    let passed = |lose: bool| {
        smoke::pinned(|cpu| {
            let mut sampler = smoke::sampler(1, cpu);
            let mut buffer = Buffer::of(MIB, Page::Base).unwrap();
            if lose {
                let half = buffer.start().wrapping_add(MIB / 2).cast();
                // SAFETY: pages of the buffer that the set does not reach.
                unsafe { libc::madvise(half, MIB / 2, libc::MADV_DONTNEED) };
            }
            take_step(&step, 0, &zen4(), &mut buffer, &mut sampler).unwrap();
            let sample = sampler.finish().samples.remove(0).unwrap();
            sample.checks.iter().all(|check| check.passed)
        })
    };
    assert!(passed(false));
    assert!(!passed(true), "half of the buffer is not resident");
}

#[test]
fn the_ladder_reaches_four_times_the_last_cache_or_what_there_is_room_for() {
    let mut host = zen4();
    let largest =
        |host: &Host, effort| ladder(host, effort).iter().map(|step| step.set_bytes).max().unwrap();
    for effort in [Effort::Quick, Effort::Standard, Effort::Thorough] {
        assert_eq!(largest(&host, effort), 128 * MIB);
    }
    host.cpu.caches[3].size_bytes = 36 << 20;
    assert_eq!(largest(&host, Effort::Quick), 256 * MIB, "whole octaves");
    // A quarter of 512 MiB is 128 MiB, and the order of 128 MiB would not fit beside them.
    host.memory.available_bytes = Some(512 << 20);
    assert_eq!(largest(&host, Effort::Quick), 64 * MIB);
    host.cgroup.memory_limit_bytes = Some(16 << 20);
    assert_eq!(largest(&host, Effort::Quick), 2 * MIB);
}

#[test]
fn each_effort_has_its_patterns_and_every_case_is_known_by_its_parameters() {
    let host = zen4();
    let patterns = |effort| -> BTreeSet<String> {
        ladder(&host, effort).iter().map(|step| step.pattern.name()).collect()
    };
    assert_eq!(patterns(Effort::Quick).len(), 1);
    assert_eq!(patterns(Effort::Standard).len(), 3);
    assert_eq!(patterns(Effort::Thorough).len(), 8);
    let all = ladder(&host, Effort::Thorough);
    for step in &all {
        assert_eq!(Step::of(&step.params()), Some(*step));
    }
    let cases: BTreeSet<Params> = all.iter().map(Step::params).collect();
    assert_eq!(cases.len(), all.len(), "no case twice");
    for octave in 10..=27 {
        for stride in [32, 64, 128, 256, 512, 1024] {
            for page in Page::ALL {
                let pattern = Pattern::Stride(stride);
                assert!(all.contains(&Step { pattern, page, set_bytes: 1 << octave }));
            }
        }
    }
}

fn known() -> Vec<Record> {
    vec![smoke::record("cpu.frequency", &Params::none(), 4e9, 1e6)]
}

fn predicted(set_bytes: usize, pattern: Pattern, page: Page) -> Result<Prediction, NoModel> {
    let step = Step { pattern, page, set_bytes };
    Latency.predict(&Case::usual(step.params()), &zen4(), &Known::new(&known()))
}

#[test]
fn a_set_clearly_in_a_level_is_predicted_by_its_cycles() {
    let value = |set| predicted(set, Pattern::Random, Page::Huge).unwrap().value;
    assert_eq!(value(KIB), Some(1.0));
    assert_eq!(value(16 * KIB), Some(1.0));
    assert_eq!(value(64 * KIB), Some(3.5));
    assert_eq!(value(512 * KIB), Some(3.5));
    assert_eq!(value(2 * MIB), Some(12.5));
    assert_eq!(value(16 * MIB), Some(12.5));
    for between in [32 * KIB, 48 * KIB, MIB, 3 * MIB / 2, 32 * MIB, 48 * MIB] {
        let none = predicted(between, Pattern::Random, Page::Huge);
        assert_eq!(none, Err(NoModel::BetweenLevels), "{between}");
    }
}

#[test]
fn memory_and_small_pages_beyond_the_first_level_have_an_order_only() {
    let memory = predicted(64 * MIB, Pattern::Random, Page::Huge).unwrap();
    assert_eq!((memory.low, memory.high, memory.value), (Some(12.5), None, None));
    let small = predicted(64 * KIB, Pattern::Random, Page::Base).unwrap();
    assert_eq!((small.low, small.value), (Some(3.5), None));
    assert_eq!(predicted(4 * KIB, Pattern::Random, Page::Base).unwrap().value, Some(1.0));
}

#[test]
fn what_a_prefetcher_foresees_has_no_model_beyond_the_first_level() {
    for pattern in [Pattern::RandomPage, Pattern::Stride(64)] {
        assert_eq!(predicted(4 * KIB, pattern, Page::Huge).unwrap().value, Some(1.0));
        assert_eq!(predicted(64 * MIB, pattern, Page::Huge), Err(NoModel::Prefetched));
    }
}

#[test]
fn a_module_that_is_told_adds_its_row_and_its_column() {
    let mut host = zen4();
    let step = Step { pattern: Pattern::Random, page: Page::Huge, set_bytes: 128 * MIB };
    let claim = |host: &Host| {
        let known = known();
        let case = Case::usual(step.params());
        Latency.predict(&case, host, &Known::new(&known)).unwrap()
    };
    let low = |host: &Host| claim(host).low;
    let is_mere = |host: &Host| claim(host).formula.contains("a mere lower bound");
    assert!(is_mere(&host), "no module is told");
    let module = |kind: &str| MemoryModule {
        kind: Some(kind.to_owned()),
        transfers_per_s: Some(3.2e9),
        ..MemoryModule::default()
    };
    host.memory.modules = vec![module("DDR4")];
    assert_eq!(low(&host), Some(12.5 + 25.0));
    assert!(!is_mere(&host));
    host.memory.modules = vec![module("DDR5")];
    assert_eq!(low(&host), Some(12.5), "no source, no constant");
    assert!(is_mere(&host));
}

#[test]
fn without_facts_there_is_no_model() {
    let step = Step { pattern: Pattern::Random, page: Page::Huge, set_bytes: 4 * KIB };
    let case = Case::usual(step.params());
    let none = |host: &Host, records: &[Record]| {
        Latency.predict(&case, host, &Known::new(records)).unwrap_err()
    };
    let metric = "cpu.frequency".to_owned();
    assert_eq!(none(&zen4(), &[]), NoModel::MissingInput { metric });
    let mut host = zen4();
    host.cpu.caches.clear();
    assert_eq!(none(&host, &known()), NoModel::unknown_fact(&["cpu.caches"]));
}

#[test]
fn steps_are_fine_where_plateaus_will_be_found() {
    let mut host = zen4();
    let count = |host: &Host, page, effort| {
        ladder(host, effort)
            .iter()
            .filter(|step| step.page == page && step.pattern == Pattern::Random)
            .count()
    };
    host.memory.thp = Some("madvise".to_owned());
    assert_eq!(count(&host, Page::Base, Effort::Quick), 18, "octaves");
    assert!(count(&host, Page::Huge, Effort::Quick) > 30);
    assert!(count(&host, Page::Base, Effort::Standard) > 30);
    host.memory.thp = Some("never".to_owned());
    assert!(count(&host, Page::Base, Effort::Quick) > 30);
    let sets: BTreeSet<usize> =
        ladder(&host, Effort::Quick).iter().map(|step| step.set_bytes).collect();
    let memory: Vec<usize> = sets.iter().copied().filter(|set| *set >= 64 * MIB).collect();
    assert_eq!(memory, [64 * MIB, 96 * MIB, 128 * MIB], "enough to tell memory by");
    for set in [24 * KIB, 40 * KIB, 768 * KIB, 1280 * KIB, 5 * MIB / 2, 3 * MIB, 12 * MIB] {
        assert!(sets.contains(&set), "{set}");
    }
}
