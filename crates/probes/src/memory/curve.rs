//! Plateaus in a curve of latency over working set, and the edges between them.
//!
//! Uses the curve and the number of caches, not their sizes. Works on logarithms, because latencies
//! and sizes span several orders of magnitude.

/// Deviation from the plateau's latency, in octaves (about 17 %), beyond which a point counts
/// against it. The L3 plateau slopes, as the share of L2 hits decreases and that of misses grows.
const FLAT: f64 = 0.23;
/// The shortest plateau, in octaves of the working set.
const SPAN_MIN: f64 = 1.0;
const POINTS_MIN: usize = 3;
/// Minimum score of a plateau, relative to its length.
const SCORE_MIN: f64 = 0.5;
/// The smallest rise to the next plateau, in octaves of latency: 1.4 times.
const RISE_MIN: f64 = 0.485;

/// Working set in bytes, latency in nanoseconds.
pub(crate) type CurvePoint = (f64, f64);

/// A flat part of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plateau {
    /// Index of the first point.
    pub(crate) first: usize,
    /// Index of the last point.
    pub(crate) last: usize,
    /// Median latency.
    pub(crate) level: f64,
    /// Octaves that it spans, less the deviations of its points.
    score: f64,
}

/// The sequence of at most `at_most` plateaus with the highest total score in a curve sorted by
/// working set.
///
/// A plateau's score is its length in octaves; points off its level reduce the score. Each plateau
/// must be flat, long enough and clearly above the one before. The rest of the curve is ramp.
pub(crate) fn plateaus(curve: &[CurvePoint], at_most: usize) -> Vec<Plateau> {
    let logs: Vec<CurvePoint> = curve.iter().map(|(set, ns)| (set.log2(), ns.log2())).collect();
    let candidates: Vec<Plateau> = (0..logs.len())
        .flat_map(|first| (first..logs.len()).map(move |last| (first, last)))
        .filter_map(|(first, last)| candidate(&logs, first, last))
        .collect();
    // Dynamic programming: per number of plateaus, the best sequence that ends with each candidate.
    let mut best: Option<(f64, Vec<usize>)> = None;
    let mut sequences: Vec<Option<(f64, Vec<usize>)>> = vec![Some((0.0, Vec::new()))];
    for _ in 0..at_most {
        let extended = |at: usize| extend(at, &candidates, &sequences);
        sequences = (0..candidates.len()).map(extended).collect();
        for sequence in sequences.iter().flatten() {
            if best.as_ref().is_none_or(|(score, _)| sequence.0 > *score + 1e-9) {
                best = Some(sequence.clone());
            }
        }
    }
    let chosen = best.map_or(Vec::new(), |(_, chosen)| chosen);
    let level = |at: &usize| Plateau { level: candidates[*at].level.exp2(), ..candidates[*at] };
    chosen.iter().map(level).collect()
}

/// The best sequence that this candidate can extend, with the candidate.
fn extend(
    at: usize,
    candidates: &[Plateau],
    sequences: &[Option<(f64, Vec<usize>)>],
) -> Option<(f64, Vec<usize>)> {
    let follows = |sequence: &&(f64, Vec<usize>)| {
        sequence.1.last().is_none_or(|before| {
            let before = &candidates[*before];
            before.last < candidates[at].first && before.level + RISE_MIN <= candidates[at].level
        })
    };
    let before = sequences.iter().flatten().filter(follows).max_by(|a, b| a.0.total_cmp(&b.0))?;
    let chosen = before.1.iter().copied().chain([at]).collect();
    Some((before.0 + candidates[at].score, chosen))
}

/// The points `first..=last` of a logarithmic curve, if they form a plateau.
fn candidate(logs: &[CurvePoint], first: usize, last: usize) -> Option<Plateau> {
    let points = &logs[first..=last];
    let span = points.last()?.0 - points.first()?.0;
    if points.len() < POINTS_MIN || span < SPAN_MIN - 1e-6 {
        return None;
    }
    let levels: Vec<f64> = points.iter().map(|point| point.1).collect();
    let level = fathom_analysis::statistics::median(&levels)?;
    let share = |at: usize| {
        let from = points[at.saturating_sub(1)].0;
        let to = points[(at + 1).min(points.len() - 1)].0;
        (to - from) / 2.0
    };
    let off = |at: usize| ((levels[at] - level).abs() / FLAT).min(3.0);
    let score: f64 = (0..points.len()).map(|at| share(at) * (1.0 - off(at))).sum();
    // The first and the last point must be on its level.
    let ends = off(0).max(off(points.len() - 1)) <= 1.0;
    (ends && score >= SCORE_MIN * span).then_some(Plateau { first, last, level, score })
}

/// The working set at which half of the loads miss: the latency is the mean of the two levels.
///
/// In a cyclic walk an LRU cache goes from all hits to all misses at its size. Conflict misses,
/// which depend on the physical addresses of pages, widen the ramp around the size. With random
/// replacement half of the loads miss at 1.4 times the size.
/// Returned with the measured sets on both sides: between them the curve is not known.
pub(crate) fn edge(
    curve: &[CurvePoint],
    plateau: &Plateau,
    next: &Plateau,
) -> Option<(f64, [f64; 2])> {
    let half_way = f64::midpoint(plateau.level, next.level);
    let ramp = &curve[plateau.last..=next.first];
    ramp.windows(2).find_map(|pair| {
        let [(from, low), (to, high)] = [pair[0], pair[1]];
        let share = (half_way - low) / (high - low);
        let at = from * (to / from).powf(share.clamp(0.0, 1.0));
        (high >= half_way).then_some((at, [from, to]))
    })
}

#[cfg(test)]
mod tests;
