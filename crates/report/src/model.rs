//! Where the inputs of a prediction come from, and why there is none, in words.

use fathom_record::quantity::quantity;
use fathom_record::{NoModel, Origin, Unit};

/// Where an input comes from.
pub(crate) fn origin(origin: &Origin) -> String {
    match origin {
        Origin::ThisRun { metric } => format!("this run: {metric}"),
        Origin::EarlierRun { metric } => format!("an earlier run: {metric}"),
        Origin::Host { fact, read_at } if read_at.is_empty() => format!("host: {fact}"),
        Origin::Host { fact, read_at } => format!("host: {fact}, from {read_at}"),
        Origin::Table { row } => format!("data/uarch.toml: {row}"),
        Origin::Published { source } => source.clone(),
        Origin::ControlGroup { limit } => format!("control group: {limit}"),
        Origin::Case => "the case".to_owned(),
        Origin::Calculated { from } => from.clone(),
        Origin::Counted { at } if at.is_empty() => "this command".to_owned(),
        Origin::Counted { at } => format!("just before, from {at}"),
    }
}

const DEVICE: &str = "no source says how fast the device is: the control group sets no limit, and \
                      no figure is published";
const WALKS: &str = "nested paging: each step of a walk is a walk through the tables of the host, \
                     whose page sizes a guest cannot read";
const ONE_CORE: &str = "the two are threads of one core: the line stays in its first level, and \
                        what two threads lose to each other there is not published";

/// Why there is no prediction.
pub fn no_model(none: &NoModel) -> String {
    use NoModel as N;
    let fixed = match none {
        N::MissingInput { metric } => return format!("{metric} has no result in this run"),
        N::NoKeptResult { metric } => {
            let run = metric.split('{').next().unwrap_or(metric);
            return format!("no result of {metric} is kept on this host: `fathom run {run}`");
        }
        N::NotPublished { figure, cpu } => {
            return format!("no published value of {figure} for {cpu}");
        }
        N::ClockSourceNotPublished { source } => {
            return format!("no published cost of reading the clock source {source}");
        }
        N::UnknownArchitecture { architecture } => {
            return format!("no row for the architecture `{architecture}`");
        }
        N::UnusableTable { reason } => return reason.clone(),
        N::UnknownFact { facts } => return format!("unknown here: {}", facts.join(", ")),
        N::NoSuchCache { level } => return format!("the machine lists no cache of level {level}"),
        N::NoSuchCase { case } => return format!("{case} is no such case"),
        N::NoTime { formula, value } => {
            return format!("{formula} gives {value:.3}, which is no time");
        }
        N::NoSlope => "the two small cases do not grow, so there is no line",
        N::OtherClock => "the clock is not the time stamp counter here",
        N::BetweenLevels => "between two levels: some loads hit the one, some the other",
        N::Prefetched => {
            "a prefetcher may foresee this pattern: how much of a load remains is not published"
        }
        N::ThreadsOfOneCore => ONE_CORE,
        N::NestedPaging => WALKS,
        N::NoCommonSet => "no set was taken by small and by huge pages",
        N::SetTooSmall { largest_bytes, needed_bytes } => {
            let [largest, needed] =
                [largest_bytes, needed_bytes].map(|bytes| quantity(*bytes as f64, Unit::Bytes));
            return format!(
                "the largest set by both kinds of page is {largest}, and translation buffers may \
                 hold it: {needed} are needed; free memory"
            );
        }
        N::WriteCombining => "how fast a core drains its write-combining buffers is not published",
        N::TwoCopies => "no published model of two copies through memory at a time",
        N::SchedulersChoice => "who waits for whom, and how often, is the scheduler's choice",
        N::SpeedOfDevice => DEVICE,
        N::ServiceTime => "alone it is the device's service time, which no public figure gives",
        N::MixedResidency => "part of the file is in memory, or how much of it is unknown",
    };
    fixed.to_owned()
}
