//! memory.latency.{l1,l2,l3,dram} and memory.cache.{l1,l2,l3}.size: the plateaus of the curve of
//! memory.latency, and the sizes at which they are left.

use fathom_analysis::statistics;
use fathom_record::{
    Better, Cause, Host, NoModel, Origin, Params, Prediction, Reason, Record, Remedy, Unit,
};

use super::chain::Pattern;
use super::curve::{self, Plateau, Point};
use super::latency::ladder;
use super::latency::ladder::Step;
use super::latency::model::{self, Level};
use crate::buffer::{Page, in_words};
use fathom_metric::{About, Derived, Estimate, Known, MissingInput};

/// memory.latency.l1.
pub static LATENCY_L1: OfLevel = OfLevel {
    about: &About { id: "memory.latency.l1", title: "load, first level", ..PLATEAU },
    level: Level::Cache(1),
    asks: Asks::Latency,
};
/// memory.latency.l2.
pub static LATENCY_L2: OfLevel = OfLevel {
    about: &About { id: "memory.latency.l2", title: "load, second level", ..PLATEAU },
    level: Level::Cache(2),
    asks: Asks::Latency,
};
/// memory.latency.l3.
pub static LATENCY_L3: OfLevel = OfLevel {
    about: &About { id: "memory.latency.l3", title: "load, third level", ..PLATEAU },
    level: Level::Cache(3),
    asks: Asks::Latency,
};
/// memory.latency.dram.
pub static LATENCY_DRAM: OfLevel = OfLevel {
    about: &About { id: "memory.latency.dram", title: "load, memory", ..PLATEAU },
    level: Level::Memory,
    asks: Asks::Latency,
};
/// memory.cache.l1.size.
pub static SIZE_L1: OfLevel = OfLevel {
    about: &About { id: "memory.cache.l1.size", title: "size of the first cache", ..EDGE },
    level: Level::Cache(1),
    asks: Asks::Size,
};
/// memory.cache.l2.size.
pub static SIZE_L2: OfLevel = OfLevel {
    about: &About { id: "memory.cache.l2.size", title: "size of the second cache", ..EDGE },
    level: Level::Cache(2),
    asks: Asks::Size,
};
/// memory.cache.l3.size.
pub static SIZE_L3: OfLevel = OfLevel {
    about: &About { id: "memory.cache.l3.size", title: "third cache that a chase holds", ..EDGE },
    level: Level::Cache(3),
    asks: Asks::Size,
};

/// The plateau of one level, or its edge.
pub struct OfLevel {
    about: &'static About,
    level: Level,
    asks: Asks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Latency,
    Size,
}

const PLATEAU: About = About {
    timed: "nothing: it is the median of the points of one plateau of memory.latency by random \
            order, found in each process's own curve, with the median and interval over \
            processes; dram: \
            of those of at least twice the last cache's size by the kernel, since memory's plateau \
            may begin while some loads still hit that cache",
    not_timed: "which level a plateau belongs to is counted, and not read from its height",
    model: "l1, l2, l3: the level's load-to-use cycles from the table ÷ cpu.frequency, ± 10, 20 \
            and 30 %. dram: as memory.latency beyond the last level, an order, and \
            where SMBIOS names no DDR4 a mere lower bound",
    source: "data/uarch.toml: l1_cycles, l2_cycles, l3_cycles",
    pitfalls: &[
        "reading a level's latency at a set size of the data sheet believes that the cache has \
         that size here: positions are found in the curve, as those flat parts, one more than \
         there are caches, that together span the most of it",
        "a level whose part of the curve is not flat, or shorter than an octave, or has fewer than \
         three points, has no plateau: it is unavailable, and no number is made of it; where \
            only some \
         processes have none, the median of the others is noisy, and says of how many it is",
        "small pages add the price of translation: the curve by huge pages is taken, and that by \
         small ones only where huge ones cannot be had; the notes say which",
    ],
    needs: &["cpu.frequency", "memory.latency"],
    published: "l1 3.7 ns, l2 5.55 ns, l3 18.5 ns, dram 37 ns (2016, i5-5257U)",
    ..About::BASE
};

const EDGE: About = About {
    unit: Unit::Bytes,
    better: Better::Neither,
    timed: "nothing: it is the set size at which half of the loads miss, where the latency of each \
            process's curve is the mean of the level's plateau and the next one's, interpolated \
            between two points, with the median and interval over processes",
    not_timed: "how many ways the cache has, and what it replaces first, which shape the ramp",
    model: "the size that the kernel reads from the CPU, ± a quarter octave (19 %)",
    source: "/sys/devices/system/cpu/cpu*/cache",
    pitfalls: &[
        "in a cycle half of the loads miss right behind the size of a cache that replaces what was \
         used longest ago; one that replaces at random has that at 1.4 times its size",
        "a cache that others use too holds less, and in a guest one does not see them: the edge \
         is the share that a slow chase can hold against neighbours, which touches each line so \
         rarely that theirs replace it; a quick stream over a larger set may still find it there",
        "lines of small pages, and of huge pages that the host keeps in small ones, collide in a \
         cache that is indexed by physical addresses before it is full: the ramp is wider then, \
         with its middle at the size",
        "a level without a plateau, or whose next level has none, has no edge",
    ],
    published: "l1 32 KiB, l2 256 KiB, l3 3 MiB (2016, i5-5257U)",
    ..PLATEAU
};

/// What the edge of a cache is that others use unseen.
const HELD: &str = "the share of the cache that a chase can hold against neighbours, not all that \
                    a quick stream would find there";
/// A quarter octave.
const QUARTER_OCTAVE: f64 = 0.189;

impl Derived for OfLevel {
    fn about(&self) -> &'static About {
        self.about
    }

    fn inputs(&self) -> &'static [&'static str] {
        &["memory.latency"]
    }

    /// Only the points of the plateau could spoil it, and no point is as doubtful as another: a
    /// doubt of a ramp's point is none of the plateau, whose own interval tells what it is worth.
    fn rests_on(&self, _: &Params, _: &Record, _: &Known<'_>) -> bool {
        false
    }

    fn cases(&self) -> Vec<Params> {
        vec![Params::none()]
    }

    fn reduce(&self, _: &Params, known: &Known<'_>) -> Result<Estimate, MissingInput> {
        let host = known.host().ok_or(NO_CACHES)?;
        let levels = levels(host)?;
        let place = levels.iter().position(|level| *level == self.level);
        let place = place.ok_or(MissingInput::Absent("this CPU reports no such cache"))?;
        if self.level == Level::Memory {
            reaches_memory(host, known)?;
        }
        // The next level's plateau may begin while a part of the set still lies in the last cache.
        let least = if self.level == Level::Memory { 2.0 * last_bytes(host) as f64 } else { 0.0 };
        let curves = Curves::of(known)?;
        let found = curves.found(&levels, host);
        let mut values = Vec::new();
        let mut spans = Vec::new();
        let mut missing = String::new();
        for (curve, plateaus) in curves.per_process.iter().zip(&found) {
            match self.value(place, least, curve, plateaus) {
                Ok((value, span)) => {
                    values.push(value);
                    spans.push(span);
                }
                Err(why) => missing = why.to_string(),
            }
        }
        let processes = curves.per_process.len();
        if 2 * values.len() <= processes {
            let without = processes - values.len();
            return Err(MissingInput::TooFewProcesses { without, processes, why: missing });
        }
        let mut notes =
            vec![format!("from the curve by {} pages, random order", curves.page.name())];
        let middle = |ends: Vec<f64>| statistics::median(&ends).unwrap_or_default() as u64;
        notes.push(format!(
            "{} from {} to {} (median over processes)",
            if least > 0.0 { "the points of the plateau" } else { "the plateau goes" },
            in_words(middle(spans.iter().map(|span| span.0).collect())),
            in_words(middle(spans.iter().map(|span| span.1).collect())),
        ));
        if let (Asks::Size, Level::Cache(number)) = (self.asks, self.level)
            && model::shared_with_strangers(host, number)
        {
            notes.push(format!("in a guest this is {HELD}"));
        }
        let doubts = doubts(values.len(), processes, &missing);
        Ok(Estimate { per_process: values, notes, doubts, ..Estimate::default() })
    }

    fn predict(&self, _: &Params, host: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        let (Asks::Size, Level::Cache(number)) = (self.asks, self.level) else {
            return model::of_level(self.level, host, known);
        };
        let cache = ladder::caches(host).into_iter().find(|cache| cache.level == number);
        let cache = cache.ok_or(NoModel::NoSuchCache { level: number })?;
        let size = cache.size_bytes as f64;
        let below = if model::shared_with_strangers(host, number) {
            "this cache is shared with other guests of the host, or the host allots each a part: \
             this is the share that a chase can hold against neighbours, not all that a quick \
             stream would find there"
        } else {
            "others use the cache too, or the host keeps huge pages in small ones, whose lines \
             collide before the cache is full"
        };
        let above = "it replaces at random, or keeps apart what the level before holds, so that \
                     both add up";
        Ok(Prediction::sum(size, 0.0, QUARTER_OCTAVE, "size by the kernel", EDGE.source)
            .with_quantity("size", size, Unit::Bytes, Origin::host(host, "cpu.caches"))
            .if_below(below)
            .if_above(above))
    }
}

impl OfLevel {
    /// The level's value in one process, with the sets from which to which it was taken, of which
    /// none is smaller than `least`; or what is missing there.
    fn value(
        &self,
        place: usize,
        least: f64,
        curve: &[Point],
        plateaus: &[Option<Plateau>],
    ) -> Result<(f64, (f64, f64)), NoLevel> {
        let of = |at: usize| plateaus.get(at).copied().flatten();
        let plateau = of(place).ok_or_else(|| NoLevel::missing(curve, plateaus))?;
        let to = curve[plateau.last].0;
        let clear = curve[plateau.first..=plateau.last].iter().filter(|(set, _)| *set >= least);
        let (sets, latencies): (Vec<f64>, Vec<f64>) = clear.copied().unzip();
        let missing = || NoLevel::Ends(to as u64);
        let from = *sets.first().ok_or_else(missing)?;
        let level = statistics::median(&latencies).ok_or_else(missing)?;
        match self.asks {
            Asks::Latency => Ok((level, (from, to))),
            Asks::Size => {
                let next = of(place + 1).ok_or(NoLevel::NoNext)?;
                let edge = curve::edge(curve, &plateau, &next);
                Ok((edge.ok_or(NoLevel::NoRise)?, (from, to)))
            }
        }
    }
}

/// The median of the processes that show a level says nothing of the others.
fn doubts(show: usize, processes: usize, missing: &str) -> Vec<Reason> {
    let text =
        format!("only {show} of {processes} processes show such a level: in others {missing}");
    let reason = Reason::new(Cause::MissingInput, text).with_remedy(Remedy::QuieterHost);
    if show < processes { vec![reason] } else { Vec::new() }
}

/// Why one process does not show a level.
#[derive(Debug, thiserror::Error)]
enum NoLevel {
    #[error("the curve has no flat part")]
    NoPlateau,
    /// With those of other levels.
    #[error("the curve has no flat part for it, only from {0}")]
    OtherPlateaus(String),
    #[error("the plateau ends at {}", in_words(*.0))]
    Ends(u64),
    #[error("the next level has no plateau")]
    NoNext,
    #[error("the curve does not rise between the plateaus")]
    NoRise,
}

impl NoLevel {
    /// That its plateau is missing, and which ones there are.
    fn missing(curve: &[Point], plateaus: &[Option<Plateau>]) -> Self {
        let ends = |plateau: &Plateau| {
            let [from, to] = [plateau.first, plateau.last].map(|at| in_words(curve[at].0 as u64));
            format!("{from} to {to}")
        };
        let there: Vec<String> = plateaus.iter().flatten().map(ends).collect();
        if there.is_empty() { Self::NoPlateau } else { Self::OtherPlateaus(there.join(", ")) }
    }
}

const NO_CACHES: MissingInput = MissingInput::Absent("the caches of this CPU are unknown");

/// The levels of a host: its caches, and memory.
fn levels(host: &Host) -> Result<Vec<Level>, MissingInput> {
    let caches = ladder::caches(host);
    if caches.is_empty() {
        return Err(NO_CACHES);
    }
    let levels = caches.iter().map(|cache| Level::Cache(cache.level));
    Ok(levels.chain([Level::Memory]).collect())
}

fn last_bytes(host: &Host) -> u64 {
    host.last_level_cache().map_or(0, |cache| cache.size_bytes)
}

/// Whether the ladder went far enough for memory to be seen.
fn reaches_memory(host: &Host, known: &Known<'_>) -> Result<(), MissingInput> {
    let needed = 2 * last_bytes(host);
    let largest = points(known, Page::Huge).chain(points(known, Page::Base));
    let largest = largest.map(|(set, _)| set).fold(0.0, f64::max) as u64;
    if largest >= needed {
        return Ok(());
    }
    let why = "the last cache holds much of a smaller one";
    Err(MissingInput::SetTooSmall { largest, needed, why })
}

/// The points by random order and these pages that may be believed, with their process medians.
fn points<'r>(known: &Known<'r>, page: Page) -> impl Iterator<Item = (f64, &'r [f64])> {
    known.cases_of("memory.latency").filter_map(move |(params, summary)| {
        let step = Step::of(params)?;
        let wanted = step.pattern == Pattern::Random && step.page == page;
        wanted.then_some((step.set_bytes as f64, summary.process_medians.as_slice()))
    })
}

/// The curves of all processes by one kind of page.
struct Curves {
    page: Page,
    per_process: Vec<Vec<Point>>,
}

impl Curves {
    /// By huge pages; by small ones where not all sets could be had by huge ones.
    fn of(known: &Known<'_>) -> Result<Self, MissingInput> {
        let [base, huge] = [Page::Base, Page::Huge].map(|page| {
            let mut points: Vec<(f64, &[f64])> = points(known, page).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        });
        let reach = |points: &[(f64, &[f64])]| points.last().map_or(0.0, |point| point.0);
        let (page, points) = if !huge.is_empty() && reach(&huge) >= reach(&base) {
            (Page::Huge, huge)
        } else {
            (Page::Base, base)
        };
        let processes = points.iter().map(|(_, medians)| medians.len()).min().unwrap_or(0);
        if processes == 0 {
            let params = Params::one("pattern", "random");
            return Err(MissingInput::Case { metric: "memory.latency", params });
        }
        let curve =
            |process: usize| points.iter().map(|(set, medians)| (*set, medians[process])).collect();
        Ok(Self { page, per_process: (0..processes).map(curve).collect() })
    }

    /// Of each process, the plateau of each level.
    fn found(&self, levels: &[Level], host: &Host) -> Vec<Vec<Option<Plateau>>> {
        let sizes: Vec<f64> =
            ladder::caches(host).iter().map(|cache| cache.size_bytes as f64).collect();
        let of_curve =
            |curve: &Vec<Point>| labelled(curve, &curve::plateaus(curve, levels.len()), &sizes);
        self.per_process.iter().map(of_curve).collect()
    }
}

/// A set so many times the size of a cache hardly hits it: the next level's plateau has begun, or
/// there is none.
const BEGUN: f64 = 4.0;

/// Plateaus by level: counted where there are as many as levels and each begins soon enough behind
/// the cache before. Else one that goes on beyond the last cache is memory's, and each other
/// belongs to the level in whose range by the kernel its middle lies, if it begins soon enough:
/// where others took most of a shared cache, memory's begins early, and a spoilt point may end it
/// early. What has no level of its own by that is dropped.
fn labelled(curve: &[Point], plateaus: &[Plateau], sizes: &[f64]) -> Vec<Option<Plateau>> {
    let levels = sizes.len() + 1;
    let begins = |level: usize, plateau: &Plateau| {
        level == 0 || curve[plateau.first].0 <= BEGUN * sizes[level - 1]
    };
    let counted = plateaus.iter().enumerate().all(|(level, plateau)| begins(level, plateau));
    if plateaus.len() == levels && counted {
        return plateaus.iter().copied().map(Some).collect();
    }
    let mut by_level = vec![None; levels];
    for plateau in plateaus {
        let (from, to) = (curve[plateau.first].0, curve[plateau.last].0);
        let is_memory = sizes.last().is_none_or(|last| to > *last);
        let middle = (from * to).sqrt();
        let within = sizes.iter().position(|size| middle <= *size).unwrap_or(sizes.len());
        let level = if is_memory { sizes.len() } else { within };
        if begins(level, plateau) {
            by_level[level].get_or_insert(*plateau);
        }
    }
    by_level
}

#[cfg(test)]
mod tests;
