//! The answer of a comparison: what moved together, what differs beside that, and how many cases
//! are counted as what.

use fathom_analysis::compare::{Compared, Comparison, ComparisonWord, Factor, NoiseBy, Share};
use fathom_analysis::statistics::median;
use fathom_record::quantity::percent;

use super::{change_words, short_params};
use crate::case::{counted, named};
use crate::wrap::{clean, glued, wrapped};

/// Lines of the answer.
const LINES: usize = 2;
/// Times the largest class.
const FAR: f64 = 5.0;

/// The cases that differ beside their class, as they are net of it, first those that differ most at
/// the end of their interval that is nearer to no change.
pub(super) fn differing(comparison: &Comparison) -> Vec<Compared> {
    let differs = |row: &&Compared| row.share == Share::Differs;
    let mut rows: Vec<Compared> =
        comparison.rows.iter().filter(differs).map(Compared::as_net).collect();
    let least = |row: &Compared| {
        let [low, high] = row.interval.unwrap_or([1.0, 1.0]).map(|end| end.ln().abs());
        // Equal but for rounding errors is equal.
        (1e6 * low.min(high)).round()
    };
    rows.sort_by(|a, b| least(b).total_cmp(&least(a)));
    rows
}

/// The answer with as many names as fit into [`LINES`].
pub(super) fn verdict(comparison: &Comparison, width: usize) -> String {
    if comparison.rows.is_empty() {
        return wrapped("Nothing in these runs is comparable.", width, "", "  ");
    }
    let moved: Vec<&Factor> = comparison.factors.iter().filter(|it| it.moved).collect();
    let differing = differing(comparison);
    let counts = counts(comparison, moved.is_empty() && !differing.is_empty());
    let with = |classes: usize, cases: usize| {
        let answer = answer(comparison, &moved, &differing, [classes, cases]);
        wrapped(&format!("{answer}{counts}"), width, "", "  ")
    };
    // A case that changed far more than any class is what happened.
    let size = |times: Option<f64>| times.map_or(0.0, |it| it.ln().abs());
    let of_class = moved.iter().map(|it| size(Some(it.slower))).fold(0.0, f64::max);
    let is_first = differing.iter().any(|row| size(row.ratio) > FAR * of_class);
    let last = if is_first { [(1, 1), (1, 0)] } else { [(2, 0), (1, 0)] };
    let sizes = [(9, 3), (9, 2), (5, 2), (4, 1), (3, 1), (2, 1)].iter().chain(&last);
    let fits = |text: &String| text.lines().count() <= LINES;
    sizes.map(|(classes, cases)| with(*classes, *cases)).find(fits).unwrap_or_else(|| with(1, 0))
}

fn answer(
    comparison: &Comparison,
    moved: &[&Factor],
    differing: &[Compared],
    [classes, cases]: [usize; 2],
) -> String {
    let is_certain = |row: &&Compared| row.word < ComparisonWord::LooksSlower;
    let certain = differing.iter().filter(is_certain).count();
    let mut parts = Vec::new();
    for (title, is_slower) in [("slower", true), ("faster", false)] {
        let of: Vec<&&Factor> = moved.iter().filter(|it| (it.slower > 1.0) == is_slower).collect();
        let mut names = together(&of);
        let all = names.len();
        names.truncate(classes);
        if all > 0 {
            parts.push(format!("{title} by {}", listed(names, all)));
        }
    }
    let name = |row: &Compared| {
        let params = short_params(row, &comparison.rows);
        let word = glued(&change_words(row.word, row.ratio, ""));
        format!("{} {word}", clean(&named(&row.metric, &params)))
    };
    let names: Vec<String> = differing.iter().take(cases).map(name).collect();
    let names = match (names.is_empty(), moved.is_empty()) {
        (true, true) => String::new(),
        (_, true) => format!(": {}", listed(names, differing.len())),
        (..) => listed(names, differing.len()),
    };
    match (moved.is_empty(), differing.len()) {
        (true, 0) => return nothing(comparison) + ".",
        (true, count) if certain == 0 => {
            let look = if count == 1 { "looks" } else { "look" };
            let look = format!("{} {look} changed", counted(count, "case"));
            return format!("{}, but {look}{names}.", nothing(comparison));
        }
        (true, count) => {
            let of = counted(comparison.rows.len(), "case");
            return format!("{count} of {of} changed{names}.");
        }
        (false, 0) => {}
        (false, _) => parts.push(format!("besides: {names}")),
    }
    format!("B is {}.", parts.join("; "))
}

/// `32 % (two CPUs, farther apart)` of each class; those that moved with the core are one part:
/// `2.1 % (with the core: 4 classes)`.
fn together(moved: &[&&Factor]) -> Vec<String> {
    let part = |slower: f64, of: &str| glued(&format!("{} ({of})", percent((slower - 1.0).abs())));
    let (with_core, own): (Vec<&&Factor>, Vec<&&Factor>) =
        moved.iter().partition(|it| it.with_core);
    let apart = |it: &Factor| match it.distances {
        Some([a, b]) if b > a => format!("{}, farther apart", it.class),
        Some(_) => format!("{}, nearer", it.class),
        None => it.class.to_owned(),
    };
    let mut parts: Vec<String> = own.iter().map(|it| part(it.slower, &apart(it))).collect();
    // The classes moved by about as much: each by its own sensitivity to the core.
    let core: Vec<f64> = with_core.iter().map(|it| it.slower).collect();
    let classes = counted(core.len(), "class");
    parts.extend(median(&core).map(|core| part(core, &format!("with the core: {classes}"))));
    parts
}

/// The names, and how many more there are.
fn listed(mut names: Vec<String>, all: usize) -> String {
    match (names.len(), all - names.len()) {
        (_, 0) => {}
        (0, _) => names.push(counted(all, "case")),
        (_, more) => names.push(format!("{more} more")),
    }
    names.join(", ")
}

fn nothing(comparison: &Comparison) -> String {
    let is_low = comparison.a.noisy.is_some() || comparison.b.noisy.is_some();
    match is_low {
        true => "Nothing is shown to have changed: a run is of low quality, measure it again",
        false if comparison.rows.iter().any(|row| row.noise_by == Some(NoiseBy::Kept)) => {
            let kept = comparison.noise_runs;
            return format!(
                "Nothing is shown to have changed by more than {kept} kept runs of this host differ"
            );
        }
        false => "Nothing is shown to have changed",
    }
    .to_owned()
}

/// ` 243 cases: 3 differ, 59 moved with their class, 150 unchanged, 31 inconclusive.`, or without
/// those that `changed`, which are counted before.
fn counts(comparison: &Comparison, changed: bool) -> String {
    let of = |share: Share| comparison.rows.iter().filter(|row| row.share == share).count();
    let parts = [
        (if changed { 0 } else { of(Share::Differs) }, "differ"),
        (of(Share::WithClass), "moved with their class"),
        (of(Share::OnEdge), "on the edge of a cache"),
        (of(Share::CpusFarther), "with CPUs farther apart"),
        (of(Share::CpusNearer), "with CPUs nearer"),
        (of(Share::Unchanged), "unchanged"),
        (of(Share::Inconclusive), "inconclusive"),
        (of(Share::SaysNothing), "too noisy"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let word = |(count, what): &(usize, &str)| match (count, *what) {
        (1, "differ") => glued("1 differs"),
        (1, "moved with their class") => glued("1 moved with its class"),
        _ => glued(&format!("{count} {what}")),
    };
    let parts: Vec<String> = parts.map(word).collect();
    match (parts.is_empty(), changed) {
        (true, _) => String::new(),
        (false, true) => format!(" The others: {}.", parts.join(", ")),
        (false, false) => {
            format!(" {}: {}.", counted(comparison.rows.len(), "case"), parts.join(", "))
        }
    }
}
