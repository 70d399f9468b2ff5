//! Curves of made-up machines, whose levels and edges are known.

use super::*;

/// What a machine is made of: latency of each level, and the size of each cache.
struct Machine {
    levels: &'static [f64],
    sizes: &'static [f64],
    /// Octaves of the set's size that a ramp takes, the same for each.
    ramp: f64,
}

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * 1024.0;

const THREE: Machine =
    Machine { levels: &[1.08, 3.8, 15.0, 155.0], sizes: &[32.0 * KIB, MIB, 32.0 * MIB], ramp: 0.5 };

impl Machine {
    /// The latency of a set: that of its level, and on the way to the next a share of misses that
    /// grows over the ramp, which begins at the cache's size.
    fn ns(&self, set: f64) -> f64 {
        let mut ns = self.levels[0];
        for (at, size) in self.sizes.iter().enumerate() {
            let missed = ((set / size).log2() / self.ramp).clamp(0.0, 1.0);
            ns += missed * (self.levels[at + 1] - self.levels[at]);
        }
        ns
    }

    /// Half octaves from 1 KiB to 128 MiB, each off by a share that looks random.
    fn curve(&self, noise: f64) -> Vec<Point> {
        let off = |at: usize| {
            (f64::from((at as u32).wrapping_mul(2_654_435_761) >> 16) / 65536.0 - 0.5) * 2.0
        };
        let sets = (0..=34).map(|at| (at, (KIB * (at as f64 / 2.0).exp2()).round()));
        sets.map(|(at, set)| (set, self.ns(set) * (1.0 + noise * off(at)))).collect()
    }
}

/// Levels, and edges between neighbours.
fn found(curve: &[Point], at_most: usize) -> (Vec<f64>, Vec<f64>) {
    let plateaus = plateaus(curve, at_most);
    let edges = plateaus.windows(2).map(|two| edge(curve, &two[0], &two[1]).unwrap()).collect();
    (plateaus.iter().map(|plateau| plateau.level).collect(), edges)
}

fn assert_near(found: &[f64], expected: &[f64], factor: f64) {
    assert_eq!(found.len(), expected.len(), "{found:?} {expected:?}");
    for (found, expected) in found.iter().zip(expected) {
        let off = (found / expected).max(expected / found);
        assert!(off < factor, "{found} is not {expected}");
    }
}

#[test]
fn levels_and_edges_are_found_where_they_are() {
    for noise in [0.0, 0.01, 0.04] {
        let (levels, edges) = found(&THREE.curve(noise), 4);
        assert_near(&levels, THREE.levels, 1.05);
        // Misses grow over half an octave behind the size: half of them are there in its middle.
        let behind: Vec<f64> = THREE.sizes.iter().map(|size| size * 0.25_f64.exp2()).collect();
        assert_near(&edges, &behind, 1.06);
    }
}

#[test]
fn a_machine_with_two_caches_has_three_plateaus() {
    let two = Machine { levels: &[1.3, 4.0, 90.0], sizes: &[64.0 * KIB, 2.0 * MIB], ramp: 0.3 };
    let (levels, edges) = found(&two.curve(0.02), 3);
    assert_near(&levels, two.levels, 1.04);
    assert_near(&edges, two.sizes, 1.25);
}

#[test]
fn no_more_plateaus_are_found_than_there_are() {
    let one = Machine { levels: &[1.3, 90.0], sizes: &[64.0 * KIB], ramp: 0.3 };
    let (levels, _) = found(&one.curve(0.02), 4);
    assert_near(&levels, one.levels, 1.04);
    let flat = Machine { levels: &[1.3], sizes: &[], ramp: 1.0 };
    assert_near(&found(&flat.curve(0.02), 4).0, &[1.3], 1.04);
}

#[test]
fn a_slice_of_a_shared_cache_ends_its_plateau_where_the_slice_does() {
    let slice = Machine { sizes: &[32.0 * KIB, MIB, 5.0 * MIB], ramp: 0.8, ..THREE };
    let (levels, edges) = found(&slice.curve(0.02), 4);
    assert_near(&levels, slice.levels, 1.1);
    assert_near(&edges[2..], &[5.0 * MIB * 1.25], 1.25);
}

#[test]
fn where_the_curve_never_rests_there_is_no_plateau() {
    let slope = |sets: std::ops::RangeInclusive<i32>| -> Vec<Point> {
        sets.map(|at| (f64::from(at) / 2.0).exp2()).map(|set| (set * KIB, set.sqrt())).collect()
    };
    assert!(plateaus(&slope(0..=34), 4).is_empty());
    // The third level has none where memory begins right behind the second.
    let none = Machine { sizes: &[32.0 * KIB, MIB, 1.2 * MIB], ramp: 1.5, ..THREE };
    let (levels, _) = found(&none.curve(0.02), 4);
    assert_near(&levels, &[1.08, 3.8, 155.0], 1.05);
}

#[test]
fn few_points_and_short_parts_are_no_plateau() {
    assert!(plateaus(&[], 4).is_empty());
    assert!(plateaus(&[(KIB, 1.0), (4.0 * KIB, 1.0)], 4).is_empty(), "two points");
    let short = [(KIB, 1.0), (1.2 * KIB, 1.0), (1.5 * KIB, 1.0)];
    assert!(plateaus(&short, 4).is_empty(), "half an octave");
    let enough = [(KIB, 1.0), (1.5 * KIB, 1.0), (2.0 * KIB, 1.0)];
    assert_eq!(plateaus(&enough, 4).len(), 1);
}

#[test]
fn one_spoilt_point_neither_splits_a_plateau_nor_moves_it() {
    let mut curve = THREE.curve(0.01);
    curve[4].1 *= 2.0;
    let (levels, _) = found(&curve, 4);
    assert_near(&levels, THREE.levels, 1.05);
}

#[test]
fn a_small_step_within_a_level_is_no_level() {
    // What the first translation buffer no longer holds costs a few cycles more.
    let step = Machine { levels: &[1.08, 3.8, 4.7, 155.0], ..THREE };
    let (levels, _) = found(&step.curve(0.01), 4);
    assert_eq!(levels.len(), 3, "{levels:?}");
}
