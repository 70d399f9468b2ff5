//! Two clusters of process medians (rule 19), such as by memory layout, page colour or core type,
//! which a process keeps from its start to its end.
//!
//! Not a test for modes: ten medians only allow the detection of one wide gap.

use super::moments::standard_deviation;
use super::quantile::{median_of_sorted, sorted_finite};
use fathom_record::summary::Mode;

const PROCESSES_MIN: usize = 8;
/// A cluster has at least one process in five: two of twenty are outliers.
const PROCESSES_PER_MEMBER: usize = 5;

/// The smallest gap between clusters, in standard deviations within them. Simulated:
/// one sample in a hundred of log-normal medians (σ = 1, the worst shape tried) reaches 8.9 with 8
/// processes, 8.1 with 10, 4.6 with 12 and 3.0 with 20; of normal ones 5.0, 3.9, 3.0 and 1.8.
fn gap_min(processes: usize) -> f64 {
    if processes < 12 { 9.0 } else { 5.0 }
}

/// The two clusters of process medians, ascending: the median and the share of each. Empty if there
/// is one cluster, and below 8 processes.
///
/// Conservative: of normal, log-normal and t₃ medians of 8 or more processes, less than 2 % are
/// split. With ten processes, clusters 12 deviations apart are mostly missed, 20 apart mostly
/// found. Two exact values are not clusters, because a coarse clock gives them, too.
#[must_use]
pub fn clusters(process_medians: &[f64]) -> Vec<Mode> {
    let sorted = sorted_finite(process_medians);
    let n = sorted.len();
    if n < PROCESSES_MIN {
        return Vec::new();
    }
    let members_min = n.div_ceil(PROCESSES_PER_MEMBER).max(2);
    let gap = |split: usize| sorted[split] - sorted[split - 1];
    let widest = (members_min..=n - members_min).max_by(|&a, &b| gap(a).total_cmp(&gap(b)));
    let Some(split) = widest else {
        return Vec::new();
    };
    let (low, high) = sorted.split_at(split);
    if gap(split) <= gap_min(n) * deviation_within(low, high).max(resolution(&sorted)) {
        return Vec::new();
    }
    [low, high]
        .iter()
        .filter_map(|part| {
            Some(Mode { at: median_of_sorted(part)?, share: part.len() as f64 / n as f64 })
        })
        .collect()
}

/// The standard deviation of the members about their own cluster's mean.
fn deviation_within(low: &[f64], high: &[f64]) -> f64 {
    let squares =
        |part: &[f64]| standard_deviation(part).unwrap_or(0.0).powi(2) * (part.len() as f64 - 1.0);
    ((squares(low) + squares(high)) / (low.len() + high.len() - 2) as f64).sqrt()
}

/// The smallest distance between different values: the resolution of a coarse clock.
pub(super) fn resolution(sorted: &[f64]) -> f64 {
    let steps = sorted.windows(2).map(|w| w[1] - w[0]).filter(|&step| step > 0.0);
    steps.fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_need_eight_processes() {
        let medians = [9.9, 10.0, 10.1, 10.0, 19.9, 20.0, 20.1, 20.0];
        let expected = [Mode { at: 10.0, share: 0.5 }, Mode { at: 20.0, share: 0.5 }];
        assert_eq!(clusters(&medians), expected);
        assert!(clusters(&medians[1..]).is_empty());
    }

    #[test]
    fn gap_is_in_deviations_within_the_clusters() {
        let are_two = |cluster: &[f64], apart: f64| {
            let other = cluster.iter().map(|median| median + apart);
            !clusters(&cluster.iter().copied().chain(other).collect::<Vec<f64>>()).is_empty()
        };
        // Deviations of √(4.04 / 6) and √(4.04 / 10): gaps of 9 and 5 of these are 7.39 and 3.18.
        let (four, six) = ([9.0, 9.9, 10.1, 11.0], [9.0, 9.9, 10.0, 10.0, 10.1, 11.0]);
        assert_eq!((are_two(&four, 9.3), are_two(&four, 9.45)), (false, true));
        assert_eq!((are_two(&six, 5.1), are_two(&six, 5.3)), (false, true));
        // A resolution of 1: gaps of 9 and more.
        let coarse =
            |gap: f64| clusters(&[0.0, 0.0, 0.0, 1.0, 1.0 + gap, 1.0 + gap, 1.0 + gap, 2.0 + gap]);
        assert_eq!((coarse(9.0).len(), coarse(9.5).len()), (0, 2));
        let small = |members: usize| {
            let mut medians: Vec<f64> = (0..12).map(|at| 10.0 + 0.01 * f64::from(at)).collect();
            medians[12 - members..].iter_mut().for_each(|median| *median += 50.0);
            clusters(&medians).len()
        };
        assert_eq!((small(2), small(3)), (0, 2), "a fifth of twelve is three");
    }

    #[test]
    fn clock_steps_and_an_outlier_are_no_clusters() {
        // Clock steps are not clusters.
        assert!(clusters(&[25.0, 25.0, 50.0, 50.0, 25.0, 50.0, 25.0, 25.0, 50.0, 25.0]).is_empty());
        assert!(clusters(&[25.0; 10]).is_empty());
        // One outlier is no cluster.
        let medians = [10.0, 10.1, 9.9, 10.0, 10.2, 9.8, 10.1, 9.9, 10.0, 90.0];
        assert!(clusters(&medians).is_empty());
    }
}
