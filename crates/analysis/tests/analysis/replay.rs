//! The states of the core in runs of two guests: beside a sibling that is always busy, and on a
//! quiet machine. Their loops are in `golden/loops.json`, made by `golden/extract_loops.py`.

use std::collections::BTreeMap;

use fathom_analysis::core_state::{CoreStateConditions, CoreStates, Loop};
use fathom_analysis::statistics::median;
use fathom_analysis::strata::Strata;
use fathom_record::{Sample, Stratum, Summary};

/// A visit: its median and its loops.
fn sample(visit: &[f64]) -> Sample {
    let parts = |first: usize| visit[first..].iter().step_by(2).copied().collect();
    Sample {
        values: vec![visit[0]],
        values_per_round: 1,
        reference_ns: parts(1),
        frequency_ns: parts(2),
        ..Sample::default()
    }
}

/// The samples of each case of a run.
fn runs() -> BTreeMap<String, Vec<Vec<Sample>>> {
    let text = include_str!("../golden/loops.json");
    let runs: BTreeMap<String, Vec<Vec<Vec<f64>>>> = serde_json::from_str(text).unwrap();
    let samples = |visits: &Vec<Vec<f64>>| visits.iter().map(|visit| sample(visit)).collect();
    runs.into_iter().map(|(name, cases)| (name, cases.iter().map(samples).collect())).collect()
}

fn states(cases: &[Vec<Sample>]) -> CoreStates {
    let loops_of = |sample: &Sample| -> Vec<Loop> {
        let parts = sample.reference_ns.iter().zip(&sample.frequency_ns);
        parts.map(|(a, b)| Loop { sibling_ns: *a, frequency_ns: *b }).collect()
    };
    let loops: Vec<Loop> = cases.iter().flatten().flat_map(loops_of).collect();
    let visits: Vec<CoreStateConditions> =
        cases.iter().flatten().map(CoreStateConditions::from_sample).collect();
    CoreStates::new(&loops, &visits, None).expect("loops")
}

#[test]
fn all_cases_have_the_state_of_their_run() {
    let runs = runs();
    assert_eq!(runs.len(), 5);
    for (name, cases) in &runs {
        let of_run = states(cases);
        let (reported, share, widest) = match name.starts_with("busy") {
            true => (Stratum::Shared, 0.9, 0.12),
            false => (Stratum::ToItself, 0.95, 0.05),
        };
        assert_eq!(of_run.reported, reported, "{name}: {of_run:?}");
        assert!(of_run.share() > share, "{name}: {of_run:?}");
        assert!((of_run.idle.contention() - 1.0).abs() < 0.02, "{name}: {of_run:?}");
        let summary = |samples: &Vec<Sample>| {
            Strata::new(samples, Ok(()), Some(&of_run)).summarise().expect("values")
        };
        let summaries: Vec<Summary> = cases.iter().map(summary).collect();
        assert!(summaries.iter().all(|it| it.in_state.is_some()), "{name}");
        let half_widths: Vec<f64> =
            summaries.iter().filter_map(Summary::relative_half_width).collect();
        assert_eq!(half_widths.len(), cases.len(), "{name}");
        let typical = median(&half_widths).expect("cases");
        assert!(typical < widest, "{name}: ± {typical}");
    }
}
