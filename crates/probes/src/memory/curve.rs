//! Plateaus of a curve of latency over the size of the set, and where each is left.
//!
//! Positions are found in the curve alone: nothing is told of the sizes of caches but how many
//! there are. All is done on logarithms, since latencies and sizes span several powers of ten.

/// How far a point may lie from its plateau's level before it counts against it, in octaves of
/// latency: some 15 %. The third level rises as the second's share of the hits fades.
const FLAT: f64 = 0.2;
/// The shortest plateau, in octaves of the set's size.
const SPAN_MIN: f64 = 1.0;
/// The fewest points of a plateau.
const POINTS_MIN: usize = 3;
/// The share of its length that a plateau must be worth.
const WORTH_MIN: f64 = 0.5;
/// The smallest step from a plateau to the next, in octaves of latency: 1.4 times.
const RISE_MIN: f64 = 0.485;

/// One point: the set in bytes, the latency in nanoseconds.
pub(crate) type Point = (f64, f64);

/// A flat part of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plateau {
    /// Index of its first point.
    pub(crate) first: usize,
    /// Index of its last point.
    pub(crate) last: usize,
    /// The median of its points' latencies.
    pub(crate) level: f64,
    /// Octaves that it spans, less what its points deviate.
    worth: f64,
}

/// At most so many plateaus, each higher than the one before, that together explain the most of a
/// curve, whose points are in the order of their sizes.
///
/// Of all sets of flat parts the one is taken that spans the most octaves, where a point on the
/// level counts in full and one that lies off counts nothing, or against. What lies between them is
/// ramp. Each plateau must be flat, long and clearly above the one before, or it is none.
pub(crate) fn plateaus(curve: &[Point], at_most: usize) -> Vec<Plateau> {
    let logs: Vec<Point> = curve.iter().map(|(set, ns)| (set.log2(), ns.log2())).collect();
    let candidates: Vec<Plateau> = (0..logs.len())
        .flat_map(|first| (first..logs.len()).map(move |last| (first, last)))
        .filter_map(|(first, last)| candidate(&logs, first, last))
        .collect();
    // For each number of plateaus, the best row of them that ends with each candidate.
    let mut best: Option<(f64, Vec<usize>)> = None;
    let mut rows: Vec<Option<(f64, Vec<usize>)>> = vec![Some((0.0, Vec::new()))];
    for _ in 0..at_most {
        let grown = |at: usize| longest_with(at, &candidates, &rows);
        rows = (0..candidates.len()).map(grown).collect();
        for row in rows.iter().flatten() {
            if best.as_ref().is_none_or(|(worth, _)| row.0 > *worth + 1e-9) {
                best = Some(row.clone());
            }
        }
    }
    let chosen = best.map_or(Vec::new(), |(_, chosen)| chosen);
    let level = |at: &usize| Plateau { level: candidates[*at].level.exp2(), ..candidates[*at] };
    chosen.iter().map(level).collect()
}

/// The best of the rows of plateaus that this candidate may follow, with it.
fn longest_with(
    at: usize,
    candidates: &[Plateau],
    rows: &[Option<(f64, Vec<usize>)>],
) -> Option<(f64, Vec<usize>)> {
    let follows = |row: &&(f64, Vec<usize>)| {
        row.1.last().is_none_or(|before| {
            let before = &candidates[*before];
            before.last < candidates[at].first && before.level + RISE_MIN <= candidates[at].level
        })
    };
    let before = rows.iter().flatten().filter(follows).max_by(|a, b| a.0.total_cmp(&b.0))?;
    let chosen = before.1.iter().copied().chain([at]).collect();
    Some((before.0 + candidates[at].worth, chosen))
}

/// The part of a curve in logarithms from one point to another, if it is a plateau.
fn candidate(logs: &[Point], first: usize, last: usize) -> Option<Plateau> {
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
    let worth: f64 = (0..points.len()).map(|at| share(at) * (1.0 - off(at))).sum();
    // A plateau begins and ends on its level.
    let ends = off(0).max(off(points.len() - 1)) <= 1.0;
    (ends && worth >= WORTH_MIN * span).then_some(Plateau { first, last, level, worth })
}

/// The set at which half of the loads miss: the latency is the mean of the two levels'.
///
/// A cache that replaces what was used longest ago goes from none to all right behind its size;
/// where lines collide, since pages lie at random, some miss before it and some hit beyond, and
/// half of them at its size. Only one that replaces at random has it later, at 1.4 times its size.
pub(crate) fn edge(curve: &[Point], plateau: &Plateau, next: &Plateau) -> Option<f64> {
    let half_way = f64::midpoint(plateau.level, next.level);
    let ramp = &curve[plateau.last..=next.first];
    ramp.windows(2).find_map(|pair| {
        let [(from, low), (to, high)] = [pair[0], pair[1]];
        let share = (half_way - low) / (high - low);
        (high >= half_way).then(|| from * (to / from).powf(share.clamp(0.0, 1.0)))
    })
}

#[cfg(test)]
mod tests;
