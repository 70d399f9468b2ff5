//! memory.latency.{l1,l2,l3,dram} and memory.cache.{l1,l2,l3}.size: the plateaus of the latency
//! curve and the edges between them.

use super::chain::Pattern;
use super::curve::{self, CurvePoint, Plateau};
use super::latency::BEYOND_L2_NOISE_LIMIT;
use super::latency::cases::{self, ChaseCase};
use super::latency::model::{self, Level};
use crate::prelude::*;

const fn latency(about: &'static About, level: Level) -> LevelMetric {
    LevelMetric { about, level, quantity: LevelQuantity::Latency }
}

const fn size(about: &'static About, level: u32) -> LevelMetric {
    LevelMetric { about, level: Level::Cache(level), quantity: LevelQuantity::Size }
}

pub static LATENCY_L1: LevelMetric = latency(
    &About { id: "memory.latency.l1", title: "L1 load latency", ..PLATEAU },
    Level::Cache(1),
);
pub static LATENCY_L2: LevelMetric = latency(
    &About { id: "memory.latency.l2", title: "L2 load latency", ..PLATEAU },
    Level::Cache(2),
);
pub static LATENCY_L3: LevelMetric = latency(
    &About { id: "memory.latency.l3", title: "L3 load latency", ..BEYOND_L2 },
    Level::Cache(3),
);
pub static LATENCY_DRAM: LevelMetric = latency(
    &About { id: "memory.latency.dram", title: "memory load latency", ..BEYOND_L2 },
    Level::Memory,
);
pub static SIZE_L1: LevelMetric =
    size(&About { id: "memory.cache.l1.size", title: "L1 data cache size", ..EDGE }, 1);
pub static SIZE_L2: LevelMetric =
    size(&About { id: "memory.cache.l2.size", title: "L2 cache size", ..EDGE }, 2);
pub static SIZE_L3: LevelMetric =
    size(&About { id: "memory.cache.l3.size", title: "L3 size available to a chase", ..EDGE }, 3);

/// The latency of a level, or the size of its cache.
pub struct LevelMetric {
    about: &'static About,
    level: Level,
    quantity: LevelQuantity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LevelQuantity {
    Latency,
    Size,
}

const PLATEAU: About = About {
    timed: "median of the points of one plateau of memory.latency with random order, detected in \
            the curve of each process; median and interval over processes. dram: points from twice \
            the last-level cache on, as the plateau of memory can start while some loads still hit \
            that cache",
    not_timed: "the level of a plateau follows from its position, not from its latency",
    model: "l1, l2, l3: load-to-use cycles ÷ cpu.frequency, ± 2, 2 and 30 %. dram: the lower \
            bound of memory.latency beyond the last level; a weak one where SMBIOS reports no \
            DDR4. No value for dram: the latency of the path to the memory controller is not \
            published",
    source: "data/uarch.toml: l1_cycles, l2_cycles, l3_cycles",
    pitfalls: &[
        "a working set chosen by the cache sizes of a data sheet may miss the level: plateaus are \
         detected in the curve, as the flat parts that together cover most of it",
        "a plateau is flat, at least an octave long, and has at least three points: a level that \
         no process has is unavailable. Where only some have one, their median is noisy and \
         the record gives their number",
        "4K pages add TLB misses: the curve with huge pages is used, with 4K pages only where huge \
         pages are unavailable; the notes name the curve",
        "where the kernel reports no caches, as in many guests on ARM, the edges of the curve that \
         is the median over processes stand for their sizes: a level is the number of its plateau, \
         and the plateau of the largest working sets is memory",
    ],
    needs: &["cpu.frequency", "memory.latency"],
    published: "l1 3.7 ns, l2 5.55 ns, l3 18.5 ns, dram 37 ns (2016, i5-5257U)",
    ..About::BASE
};

const BEYOND_L2: About = About { noise_limit: BEYOND_L2_NOISE_LIMIT, ..PLATEAU };

const EDGE: About = About {
    unit: Unit::Bytes,
    better: Better::Neither,
    timed: "working set at which half of the loads miss: the latency is the mean of two adjacent \
            plateaus. A location: from the largest measured set before it to the smallest after \
            it, over the processes. The median in JSON is interpolated between the two",
    not_timed: "associativity and replacement policy, which shape the ramp between plateaus",
    model: "the size reported by the kernel, ± a step between working sets (25 %); of a cache that \
            a guest shares with others a bound: at most that size, no value: the hypervisor \
            states it, and the clock has not verified it",
    source: "/sys/devices/system/cpu/cpu*/cache",
    pitfalls: &[
        "a cyclic walk misses half of its loads at the size of an LRU cache, and at 1.4 times the \
         size with random replacement",
        "in a shared cache the edge is the part that a chase keeps resident: it touches each line \
         too rarely to prevent its eviction by others, which a guest does not see. A fast stream \
         can use more",
        "in a physically indexed cache 4K pages, and huge pages that the host backs with 4K pages, \
         cause conflict misses before the cache is full: a wider ramp around the size",
        "a level has an edge only if it and the next level have a plateau",
    ],
    published: "l1 32 KiB, l2 256 KiB, l3 3 MiB (2016, i5-5257U)",
    ..PLATEAU
};

/// The size of a cache that other guests share.
const SHARE: &str =
    "the share of the cache that a chase keeps resident; a fast stream can use more";
/// Working sets around a cache are a quarter of its size apart.
const STEP: f64 = 0.25;

metric!(LevelMetric.about);

impl Derived for LevelMetric {
    fn inputs(&self) -> &'static [&'static str] {
        &["memory.latency"]
    }

    /// A noisy point of the curve does not make a plateau noisy: its own interval does.
    fn depends_on(&self, _: &Params, _: &Record, _: &Inputs<'_>) -> bool {
        false
    }

    fn reduce(&self, _: &Params, known: &Inputs<'_>) -> Result<DerivedEstimate, MissingInput> {
        let host = known.host().ok_or(MissingInput::Absent("the host is unknown"))?;
        let curves = Curves::from_inputs(known)?;
        let caches = LevelCaches::from_host(host, &curves);
        let index = caches.index(self.level)?;
        // The plateau of memory can start while some loads still hit the last-level cache.
        let last = caches.sizes.last().map_or(0.0, |(_, bytes)| *bytes);
        let least = if self.level == Level::Memory { 2.0 * last } else { 0.0 };
        curves.check_largest_set(least)?;
        let sizes: Vec<f64> = caches.sizes.iter().map(|(_, bytes)| *bytes).collect();
        let mut values = Vec::new();
        let (mut spans, mut edges) = (Vec::new(), Vec::new());
        let mut missing = String::new();
        for (curve, plateaus) in curves.per_process.iter().zip(&curves.plateaus(&sizes)) {
            match self.value(index, least, curve, plateaus) {
                Ok(found) => {
                    values.push(found.value);
                    spans.push(found.used);
                    edges.extend(found.sides);
                }
                Err(LevelError(why)) => missing = why,
            }
        }
        let processes = curves.per_process.len();
        if values.is_empty() {
            return Err(MissingInput::NoProcess { processes, why: missing });
        }
        let mut notes =
            vec![format!("from the curve with {} pages, random order", curves.page.name())];
        let median = |ends: Vec<f64>| statistics::median(&ends).unwrap_or_default() as u64;
        notes.push(format!(
            "{} from {} to {} (median over processes)",
            if least > 0.0 { "points of the plateau" } else { "plateau" },
            binary_size(median(spans.iter().map(|span| span.0).collect())),
            binary_size(median(spans.iter().map(|span| span.1).collect())),
        ));
        if !caches.are_reported {
            notes.push(FROM_CURVE.to_owned());
        }
        if let (LevelQuantity::Size, Level::Cache(number)) = (self.quantity, self.level)
            && model::shared_with_other_guests(host, number)
        {
            notes.push(format!("in a guest: {SHARE}"));
        }
        let doubts = doubts(values.len(), processes, &missing);
        Ok(DerivedEstimate {
            per_process: values,
            edges,
            notes,
            doubts,
            ..DerivedEstimate::default()
        })
    }

    fn predict(&self, _: &Params, host: &Host, known: &Inputs<'_>) -> Model {
        let (LevelQuantity::Size, Level::Cache(number)) = (self.quantity, self.level) else {
            return model::of_level(self.level, host, known);
        };
        let caches = cases::known_caches(host)?;
        let cache = caches.into_iter().find(|cache| cache.level == number);
        let cache = cache.ok_or(NoModel::NoSuchCache { level: number })?;
        let size = cache.size_bytes as f64;
        let below =
            "other processes use the cache, or conflict misses before it is full (4K pages)";
        let above =
            "random replacement, or an exclusive cache, whose size adds to the previous level";
        let sum = Prediction::sum(size, 0.0, STEP, "size reported by the kernel", EDGE.source);
        // What a hypervisor states of a shared cache is unverified: a guest has a part of it.
        let is_part = model::shared_with_other_guests(host, number);
        let prediction = if is_part {
            let formula = "≤ size that the hypervisor states, with its tolerance; unverified";
            Prediction {
                formula: formula.to_owned(),
                low: None,
                value: None,
                ..sum.without_parts()
            }
        } else {
            sum
        };
        Ok(prediction
            .with_quantity("size", size, Unit::Bytes, Origin::host(host, "cpu.caches"))
            .if_below(below)
            .if_above(above))
    }
}

impl LevelMetric {
    /// The value in one process, from working sets of at least `least`.
    fn value(
        &self,
        index: usize,
        least: f64,
        curve: &[CurvePoint],
        plateaus: &[Option<Plateau>],
    ) -> Result<InProcess, LevelError> {
        let of = |at: usize| plateaus.get(at).copied().flatten();
        let plateau = of(index).ok_or_else(|| no_plateau(curve, plateaus))?;
        let to = curve[plateau.last].0;
        let points = curve[plateau.first..=plateau.last].iter().filter(|(set, _)| *set >= least);
        let (sets, latencies): (Vec<f64>, Vec<f64>) = points.copied().unzip();
        let missing = || LevelError(format!("the plateau ends at {}", binary_size(to as u64)));
        let from = *sets.first().ok_or_else(missing)?;
        let level = statistics::median(&latencies).ok_or_else(missing)?;
        let used = (from, to);
        if self.quantity == LevelQuantity::Latency {
            return Ok(InProcess { value: level, used, sides: None });
        }
        let no_next = || LevelError("the next level has no plateau".to_owned());
        let edge = curve::edge(curve, &plateau, &of(index + 1).ok_or_else(no_next)?);
        let no_rise = || LevelError("the curve does not rise between the plateaus".to_owned());
        let (value, sides) = edge.ok_or_else(no_rise)?;
        Ok(InProcess { value, used, sides: Some(sides) })
    }
}

/// A level in one process.
struct InProcess {
    value: f64,
    /// The range of the working sets used.
    used: (f64, f64),
    /// Of a size, the working sets on both sides.
    sides: Option<[f64; 2]>,
}

/// A value in some of the processes only is noisy.
fn doubts(with: usize, processes: usize, missing: &str) -> Vec<Reason> {
    if with == processes {
        return Vec::new();
    }
    let text = format!("only {with} of {processes} processes have this level; in others {missing}");
    vec![Reason::new(Cause::MissingInput, text).with_remedy(Remedy::QuieterHost)]
}

/// Why a process has no value.
struct LevelError(String);

fn no_plateau(curve: &[CurvePoint], plateaus: &[Option<Plateau>]) -> LevelError {
    let range = |plateau: &Plateau| {
        let size = |index: usize| binary_size(curve[index].0 as u64);
        format!("{} to {}", size(plateau.first), size(plateau.last))
    };
    let others: Vec<String> = plateaus.iter().flatten().map(range).collect();
    LevelError(match others.is_empty() {
        true => "the curve has no plateau".to_owned(),
        false => format!("the curve has no plateau for it, only from {}", others.join(", ")),
    })
}

/// Caches that a curve can show where the kernel reports none.
const CACHES_MAX: usize = 3;
const FROM_CURVE: &str = "the kernel reports no caches: levels are numbered by the plateaus of the \
                          median curve, and the last one is memory";

/// The caches between the plateaus of a curve.
struct LevelCaches {
    /// Level and size in bytes, the smallest first.
    sizes: Vec<(u32, f64)>,
    /// Whether the kernel reports them.
    are_reported: bool,
}

impl LevelCaches {
    fn from_host(host: &Host, curves: &Curves) -> Self {
        let of_host = |cache: &fathom_record::host::Cache| (cache.level, cache.size_bytes as f64);
        let sizes: Vec<(u32, f64)> = cases::caches(host).into_iter().map(of_host).collect();
        match sizes.is_empty() {
            false => Self { sizes, are_reported: true },
            true => Self { sizes: (1..).zip(curves.edges()).collect(), are_reported: false },
        }
    }

    /// The place of a level among the plateaus.
    fn index(&self, level: Level) -> Result<usize, MissingInput> {
        let Level::Cache(number) = level else { return Ok(self.sizes.len()) };
        let why = match self.are_reported {
            true => "this CPU reports no such cache",
            false => "the kernel reports no caches, and the curve has too few plateaus",
        };
        let index = self.sizes.iter().position(|(known, _)| *known == number);
        index.ok_or(MissingInput::Absent(why))
    }
}

fn no_latency() -> MissingInput {
    MissingInput::Case { metric: "memory.latency", params: Params::one("pattern", "random") }
}

/// The valid and noisy points with random order and these pages: working set and process medians.
fn points<'r>(known: &Inputs<'r>, page: BufferPage) -> impl Iterator<Item = (f64, &'r [f64])> {
    known.cases_of("memory.latency").filter_map(move |(params, summary)| {
        let case = ChaseCase::from_params(params)?;
        let matches = case.pattern == Pattern::Random && case.page == page;
        matches.then_some((case.set_bytes as f64, summary.process_medians.as_slice()))
    })
}

/// The curves of all processes with one page size.
struct Curves {
    page: BufferPage,
    per_process: Vec<Vec<CurvePoint>>,
}

impl Curves {
    /// With huge pages, or base pages where huge pages do not cover all working sets.
    fn from_inputs(known: &Inputs<'_>) -> Result<Self, MissingInput> {
        let [base, huge] = [BufferPage::Base, BufferPage::Huge].map(|page| {
            let mut points: Vec<(f64, &[f64])> = points(known, page).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        });
        let reach = |points: &[(f64, &[f64])]| points.last().map_or(0.0, |point| point.0);
        let (page, points) = if !huge.is_empty() && reach(&huge) >= reach(&base) {
            (BufferPage::Huge, huge)
        } else {
            (BufferPage::Base, base)
        };
        let processes = points.iter().map(|(_, medians)| medians.len()).min().unwrap_or(0);
        if processes == 0 {
            return Err(no_latency());
        }
        let curve =
            |process: usize| points.iter().map(|(set, medians)| (*set, medians[process])).collect();
        Ok(Self { page, per_process: (0..processes).map(curve).collect() })
    }

    /// Memory latency needs working sets of at least twice the last-level cache.
    fn check_largest_set(&self, needed: f64) -> Result<(), MissingInput> {
        let largest = self.per_process.iter().flatten().map(|(set, _)| *set).fold(0.0, f64::max);
        let why = "the last-level cache holds much of a smaller working set";
        let (largest, needed) = (largest as u64, needed as u64);
        match largest >= needed {
            true => Ok(()),
            false => Err(MissingInput::SetTooSmall { largest, needed, why }),
        }
    }

    /// The plateau of each cache and of memory, per process.
    fn plateaus(&self, sizes: &[f64]) -> Vec<Vec<Option<Plateau>>> {
        let of_curve = |curve: &Vec<CurvePoint>| {
            assign(curve, &curve::plateaus(curve, sizes.len() + 1), sizes)
        };
        self.per_process.iter().map(of_curve).collect()
    }

    /// Where the plateaus of the median curve end, but that of memory, which has no end.
    fn edges(&self) -> Vec<f64> {
        let median = |at: usize| {
            let of_process: Vec<f64> = self.per_process.iter().map(|curve| curve[at].1).collect();
            (self.per_process[0][at].0, statistics::median(&of_process).unwrap_or_default())
        };
        let curve: Vec<CurvePoint> = (0..self.per_process[0].len()).map(median).collect();
        let plateaus = curve::plateaus(&curve, CACHES_MAX + 1);
        let edge = |pair: &[Plateau]| {
            let edge = curve::edge(&curve, &pair[0], &pair[1]);
            edge.map_or(curve[pair[1].first].0, |(set, _)| set)
        };
        let mut edges: Vec<f64> = plateaus.windows(2).map(edge).collect();
        let rises_after = plateaus.last().filter(|last| last.last + 1 < curve.len());
        edges.extend(rises_after.map(|last| curve[last.last].0));
        edges
    }
}

/// A working set this many times a cache rarely hits it: the next level's plateau has started, or
/// there is none.
const START_MAX: f64 = 4.0;

/// Assigns plateaus to levels: in order, where there are as many as levels and each starts soon
/// enough after the previous cache. Otherwise a plateau that extends beyond the last cache is
/// memory, and any other belongs to the level whose size range contains its middle, if it starts
/// soon enough: memory starts early where others use most of a shared cache, and an outlier can end
/// it early. Plateaus without a level are dropped.
fn assign(curve: &[CurvePoint], plateaus: &[Plateau], sizes: &[f64]) -> Vec<Option<Plateau>> {
    let levels = sizes.len() + 1;
    let starts_in = |level: usize, plateau: &Plateau| {
        level == 0 || curve[plateau.first].0 <= START_MAX * sizes[level - 1]
    };
    let in_order = plateaus.iter().enumerate().all(|(level, plateau)| starts_in(level, plateau));
    if plateaus.len() == levels && in_order {
        return plateaus.iter().copied().map(Some).collect();
    }
    let mut by_level = vec![None; levels];
    for plateau in plateaus {
        let (from, to) = (curve[plateau.first].0, curve[plateau.last].0);
        let is_memory = sizes.last().is_none_or(|last| to > *last);
        let middle = (from * to).sqrt();
        let within = sizes.iter().position(|size| middle <= *size).unwrap_or(sizes.len());
        let level = if is_memory { sizes.len() } else { within };
        if starts_in(level, plateau) {
            by_level[level].get_or_insert(*plateau);
        }
    }
    by_level
}

#[cfg(test)]
mod tests;
