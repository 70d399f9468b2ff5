//! Results beside each other: how many times as long one takes as another, with the interval of
//! that ratio, and what was predicted of it.

use std::collections::BTreeSet;

use fathom_analysis::evidence::ratio_agreement;
use fathom_analysis::statistics::ratio_of_medians;
use fathom_record::quantity::{range, rounded};
use fathom_record::{Agreement, Record, Unit};

use crate::shown::mark_of_any;

/// A metric, and parameters that its case has if it has them at all.
struct ComparedCase(&'static str, &'static [(&'static str, &'static str)]);

struct PaperComparison {
    words: [&'static str; 2],
    of: ComparedCase,
    to: ComparedCase,
    /// Parameters that both cases share.
    shared: &'static [&'static str],
}

const fn compare(
    words: [&'static str; 2],
    of: ComparedCase,
    to: ComparedCase,
    shared: &'static [&'static str],
) -> PaperComparison {
    PaperComparison { words, of, to, shared }
}

use ComparedCase as Case;

const RANDOM: &[(&str, &str)] = &[("order", "random"), ("state", "direct"), ("server", "warm")];
const SEQUENTIAL: &[(&str, &str)] =
    &[("order", "sequential"), ("state", "direct"), ("server", "warm")];
const ROUND_TRIP: &[(&str, &str)] = &[("bytes", "56"), ("cpus", "2"), ("mode", "block")];

/// In the order of the chapters.
#[rustfmt::skip]
static ALL: [PaperComparison; 11] = [
    compare(["A system call", "a function call"],
        Case("os.syscall", &[("call", "getppid")]), Case("cpu.call", &[("args", "0")]), &[]),
    compare(["The first system call of a process", "the same call again"],
        Case("os.syscall.fresh", &[]), Case("os.syscall", &[("call", "getppid")]), &[]),
    compare(["Forking a process", "creating a thread"],
        Case("os.process.fork", &[("part", "fork"), ("rss_bytes", "1048576")]),
        Case("os.thread.create", &[]), &[]),
    compare(["A switch of processes", "a switch of threads"],
        Case("os.switch.process", &[("set_bytes", "0")]),
        Case("os.switch.thread", &[("set_bytes", "0")]), &[]),
    compare(["A load from memory", "a load from the L1 cache"],
        Case("memory.latency.dram", &[]), Case("memory.latency.l1", &[]), &[]),
    compare(["A connect", "a round trip"],
        Case("network.tcp.connect", &[]),
        Case("network.tcp.rtt", &[("bytes", "1"), ("cpus", "2"), ("mode", "block")]), &["to"]),
    compare(["A close", "a connect"],
        Case("network.tcp.close_fin", &[]), Case("network.tcp.connect", &[]), &["to"]),
    compare(["A random block of this device", "a sequential block"],
        Case("file.read.latency", RANDOM), Case("file.read.latency", SEQUENTIAL), &["file_bytes"]),
    compare(["A block of a remote file", "a round trip"],
        Case("file.read.remote", SEQUENTIAL), Case("network.tcp.rtt", ROUND_TRIP), &["to"]),
    compare(["A random block of a remote file", "a sequential block of it"],
        Case("file.read.remote", RANDOM), Case("file.read.remote", SEQUENTIAL),
        &["file_bytes", "over", "to"]),
    compare(["A major page fault", "a minor one"],
        Case("memory.fault", &[("kind", "major")]), Case("memory.fault", &[("kind", "file_page")]),
        &[]),
];
/// A fixed seed of the bootstrap: the same records give the same interval.
const SEED: u64 = 1;

impl ComparedCase {
    fn is(&self, record: &Record) -> bool {
        let Self(metric, params) = self;
        let has = |(name, value): &(&str, &str)| {
            let own = record.params.0.get(*name).map(ToString::to_string);
            own.is_none_or(|own| own == *value)
        };
        record.metric.as_str() == *metric && record.verdict.shows_number() && params.iter().all(has)
    }
}

/// A sentence for each comparison of these results with others of the document.
pub(super) fn comparisons(these: &[&Record], all: &[Record]) -> Vec<String> {
    let mut found = Vec::new();
    for one in &ALL {
        let mut ends = BTreeSet::new();
        for of in these.iter().filter(|it| one.of.is(it)) {
            let shares = |other: &&Record| {
                one.shared.iter().all(|name| other.params.0.get(*name) == of.params.0.get(*name))
            };
            let to = all.iter().filter(|it| one.to.is(it)).find(shares);
            // Of cases that differ in a size the first.
            let is_new = ends.insert(of.params.text("to").map(str::to_owned));
            found.extend(to.filter(|_| is_new).and_then(|to| sentence(one, of, to)));
        }
    }
    found
}

/// `A system call takes 113 (110 to 116) times as long as a function call, as predicted (> 10).`
fn sentence(one: &PaperComparison, of: &Record, to: &Record) -> Option<String> {
    let [a, b] = [of, to].map(|it| it.shown_summary());
    let (a, b) = (a?, b?);
    let by = ratio_of_medians(&b.process_medians, &a.process_medians, SEED);
    let interval = by.as_ref().map(|by| [by.low, by.high]);
    let ratio = by.map_or(a.median / b.median, |by| by.ratio);
    let [name, other] = one.words;
    let place = of.params.text("to").map_or(String::new(), |to| match to {
        "loopback" => " on loopback".to_owned(),
        to => format!(" to {to}"),
    });
    let mark = mark_of_any(&[of, to]);
    let number = |value: f64| rounded(value, 3);
    let ends = interval
        .map_or(String::new(), |[low, high]| format!(" ({} to {})", number(low), number(high)));
    let predicted = predicted(of, to, interval);
    let takes = format!("{name}{place} takes {mark}{}{ends} times as long as", number(ratio));
    Some(format!("{takes} {other}, {predicted}."))
}

/// What the prediction of the one says of its ratio to the other, if it rests on that.
fn predicted(of: &Record, to: &Record, interval: Option<[f64; 2]>) -> String {
    let Some((ratio, agreement)) = ratio_agreement(of, to, interval) else {
        return "for which nothing was predicted".to_owned();
    };
    let range = range(ratio.low, ratio.high, Unit::Ratio);
    match agreement {
        agreement if agreement.holds() => format!("as predicted ({range})"),
        Agreement::Inconclusive => format!("inconclusive beside the predicted {range}"),
        _ => format!("not as predicted ({range})"),
    }
}
