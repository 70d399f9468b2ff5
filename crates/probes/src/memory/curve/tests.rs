//! Simulated curves with known levels and edges.

use super::*;

/// Latency of each level, and size of each cache.
struct CurveMachine {
    levels: &'static [f64],
    sizes: &'static [f64],
    /// Width of each ramp, in octaves of the working set.
    ramp: f64,
}

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * 1024.0;

const THREE: CurveMachine = CurveMachine {
    levels: &[1.08, 3.8, 15.0, 155.0],
    sizes: &[32.0 * KIB, MIB, 32.0 * MIB],
    ramp: 0.5,
};

impl CurveMachine {
    /// The share of misses grows linearly over the ramp, which starts at the size of the cache.
    fn ns(&self, set: f64) -> f64 {
        let mut ns = self.levels[0];
        for (at, size) in self.sizes.iter().enumerate() {
            let missed = ((set / size).log2() / self.ramp).clamp(0.0, 1.0);
            ns += missed * (self.levels[at + 1] - self.levels[at]);
        }
        ns
    }

    /// Half octaves from 1 KiB to 128 MiB with pseudo-random noise.
    fn curve(&self, noise: f64) -> Vec<CurvePoint> {
        let off = |at: usize| {
            (f64::from((at as u32).wrapping_mul(2_654_435_761) >> 16) / 65536.0 - 0.5) * 2.0
        };
        let sets = (0..=34).map(|at| (at, (KIB * (at as f64 / 2.0).exp2()).round()));
        sets.map(|(at, set)| (set, self.ns(set) * (1.0 + noise * off(at)))).collect()
    }
}

/// Levels, and the edges between them.
fn levels_and_edges(curve: &[CurvePoint], at_most: usize) -> (Vec<f64>, Vec<f64>) {
    let plateaus = plateaus(curve, at_most);
    let edges = plateaus.windows(2).map(|two| edge(curve, &two[0], &two[1]).unwrap().0).collect();
    (plateaus.iter().map(|plateau| plateau.level).collect(), edges)
}

fn assert_near(actual: &[f64], expected: &[f64], factor: f64) {
    assert_eq!(actual.len(), expected.len(), "{actual:?} {expected:?}");
    for (actual, expected) in actual.iter().zip(expected) {
        let ratio = (actual / expected).max(expected / actual);
        assert!(ratio < factor, "{actual} is not {expected}");
    }
}

#[test]
fn noise_does_not_move_levels_and_edges() {
    for noise in [0.0, 0.01, 0.04] {
        let (levels, edges) = levels_and_edges(&THREE.curve(noise), 4);
        assert_near(&levels, THREE.levels, 1.05);
        // The middle of the ramp, which is half an octave wide.
        let middle: Vec<f64> = THREE.sizes.iter().map(|size| size * 0.25_f64.exp2()).collect();
        assert_near(&edges, &middle, 1.06);
    }
}

#[test]
fn machine_with_two_caches_has_three_plateaus() {
    let two =
        CurveMachine { levels: &[1.3, 4.0, 90.0], sizes: &[64.0 * KIB, 2.0 * MIB], ramp: 0.3 };
    let (levels, edges) = levels_and_edges(&two.curve(0.02), 3);
    assert_near(&levels, two.levels, 1.04);
    assert_near(&edges, two.sizes, 1.25);
}

#[test]
fn missing_levels_give_no_plateaus() {
    let one = CurveMachine { levels: &[1.3, 90.0], sizes: &[64.0 * KIB], ramp: 0.3 };
    let (levels, _) = levels_and_edges(&one.curve(0.02), 4);
    assert_near(&levels, one.levels, 1.04);
    let flat = CurveMachine { levels: &[1.3], sizes: &[], ramp: 1.0 };
    assert_near(&levels_and_edges(&flat.curve(0.02), 4).0, &[1.3], 1.04);
}

#[test]
fn plateau_of_a_shared_cache_ends_with_its_share() {
    let share = CurveMachine { sizes: &[32.0 * KIB, MIB, 5.0 * MIB], ramp: 0.8, ..THREE };
    let (levels, edges) = levels_and_edges(&share.curve(0.02), 4);
    assert_near(&levels, share.levels, 1.1);
    assert_near(&edges[2..], &[5.0 * MIB * 1.25], 1.25);
}

/// A curve that was measured: of the L3 that it shares, a guest keeps 4 MiB, on a slope.
#[test]
fn sloping_plateau_of_a_shared_cache_is_found() {
    let curve = [
        (1.0, 1.08),
        (2.0, 1.08),
        (4.0, 1.08),
        (8.0, 1.08),
        (16.0, 1.08),
        (24.0, 1.08),
        (32.0, 1.22),
        (40.0, 3.8),
        (48.0, 3.81),
        (64.0, 3.8),
        (128.0, 3.8),
        (256.0, 3.8),
        (512.0, 4.75),
        (768.0, 5.39),
        (1024.0, 7.84),
        (1280.0, 10.52),
        (1536.0, 12.19),
        (1792.0, 12.71),
        (2048.0, 13.22),
        (2560.0, 15.33),
        (3072.0, 16.5),
        (3584.0, 15.46),
        (4096.0, 15.82),
        (6144.0, 29.9),
        (8192.0, 145.06),
        (12288.0, 133.64),
        (16384.0, 148.56),
        (24576.0, 146.52),
        (32768.0, 146.86),
        (40960.0, 153.42),
        (49152.0, 149.3),
        (65536.0, 152.14),
        (98304.0, 154.41),
        (131072.0, 154.2),
    ];
    let curve: Vec<CurvePoint> = curve.iter().map(|(set, ns)| (set * KIB, *ns)).collect();
    assert_near(&levels_and_edges(&curve, 4).0, &[1.08, 3.8, 15.4, 149.0], 1.02);
}

#[test]
fn steady_slope_has_no_plateau() {
    let slope = |sets: std::ops::RangeInclusive<i32>| -> Vec<CurvePoint> {
        sets.map(|at| (f64::from(at) / 2.0).exp2()).map(|set| (set * KIB, set.sqrt())).collect()
    };
    assert!(plateaus(&slope(0..=34), 4).is_empty());
    // L3 has no plateau where misses start right after L2.
    let none = CurveMachine { sizes: &[32.0 * KIB, MIB, 1.2 * MIB], ramp: 1.5, ..THREE };
    let (levels, _) = levels_and_edges(&none.curve(0.02), 4);
    assert_near(&levels, &[1.08, 3.8, 155.0], 1.05);
}

#[test]
fn short_or_sparse_parts_are_no_plateau() {
    assert!(plateaus(&[], 4).is_empty());
    assert!(plateaus(&[(KIB, 1.0), (4.0 * KIB, 1.0)], 4).is_empty(), "two points");
    let short = [(KIB, 1.0), (1.2 * KIB, 1.0), (1.5 * KIB, 1.0)];
    assert!(plateaus(&short, 4).is_empty(), "half an octave");
    let enough = [(KIB, 1.0), (1.5 * KIB, 1.0), (2.0 * KIB, 1.0)];
    assert_eq!(plateaus(&enough, 4).len(), 1);
}

#[test]
fn single_outlier_does_not_split_a_plateau() {
    let mut curve = THREE.curve(0.01);
    curve[4].1 *= 2.0;
    let (levels, _) = levels_and_edges(&curve, 4);
    assert_near(&levels, THREE.levels, 1.05);
}

#[test]
fn small_step_within_a_level_is_not_a_level() {
    // Misses of the first-level TLB cost a few cycles.
    let step = CurveMachine { levels: &[1.08, 3.8, 4.7, 155.0], ..THREE };
    let (levels, _) = levels_and_edges(&step.curve(0.01), 4);
    assert_eq!(levels.len(), 3, "{levels:?}");
}
