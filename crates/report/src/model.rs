//! Sources of a prediction's inputs, and reasons for a missing prediction, as text.

use fathom_record::quantity::quantity;
use fathom_record::{NoModel, Origin, Unit};

/// The source of an input.
pub(crate) fn origin(origin: &Origin) -> String {
    match origin {
        Origin::ThisRun { metric } => format!("this run: {metric}"),
        Origin::EarlierRun { metric } => format!("an earlier run: {metric}"),
        Origin::Host { fact, read_at } if read_at.is_empty() => format!("host: {fact}"),
        Origin::Host { fact, read_at } => format!("host: {fact}, from {read_at}"),
        Origin::Table { row } => format!("data/uarch.toml: {row}"),
        Origin::Published { source } => source.clone(),
        Origin::ControlGroup { limit } => format!("cgroup: {limit}"),
        Origin::Case => "parameter".to_owned(),
        Origin::Calculated { from } => from.clone(),
        Origin::Counted { at } if at.is_empty() => "measured by this command".to_owned(),
        Origin::Counted { at } => format!("measured by this command from {at}"),
    }
}

const DEVICE: &str = "the speed of the device is unknown: no cgroup limit and no published value";
const WALKS: &str = "nested paging: a page walk also walks the host's page tables, and a guest \
                     cannot read their page sizes";
const ONE_CORE: &str = "SMT threads of one core (in a guest as the hypervisor states, unverified) \
                        share the L1 cache, and their contention there is not published";

/// The option of a run that measures this case of a metric to another host; empty for this host.
pub fn remote_option(case: &str) -> String {
    let to = case.split(['{', ',', '}']).find_map(|part| part.trim().strip_prefix("to="));
    to.filter(|to| *to != "loopback").map_or(String::new(), |to| format!(" --remote {to}"))
}

/// What stands in the place of a prediction.
pub fn no_model_word(none: &NoModel) -> &'static str {
    if matches!(none, NoModel::NoisyInput { .. }) { "input noisy" } else { "no model" }
}

/// That there is no prediction, and why.
pub fn no_model_line(none: &NoModel) -> String {
    match none {
        NoModel::NoisyInput { .. } => format!("no expectation, {}", no_model(none)),
        _ => format!("no model: {}", no_model(none)),
    }
}

/// Why there is no prediction.
pub fn no_model(none: &NoModel) -> String {
    use NoModel as N;
    let fixed = match none {
        N::MissingInput { metric } => return format!("{metric} has no usable result in this run"),
        N::NoKeptResult { metric } => {
            let run = metric.split('{').next().unwrap_or(metric);
            let remote = remote_option(metric);
            return format!(
                "no stored result of {metric} on this host: `fathom run {run}{remote}`"
            );
        }
        N::NoisyInput { metric } => return format!("input noisy: {metric}"),
        N::NotPublished { figure, cpu } => {
            return format!("no published value of {figure} for {cpu}");
        }
        N::ClockSourceNotPublished { source } => {
            return format!("no published cost of reading the clock source {source}");
        }
        N::UnknownArchitecture { architecture } => {
            return format!("no data for the architecture `{architecture}`");
        }
        N::UnusableTable { reason } => return reason.clone(),
        N::UnknownFact { facts } => return format!("unknown: {}", facts.join(", ")),
        N::NoSuchCache { level } => return format!("no L{level} cache reported"),
        N::NoSuchCase { case } => return format!("no case {case}"),
        N::NoTime { formula, value } => {
            return format!("{formula} = {value:.3} ns, which is not a time");
        }
        N::NoSlope => "no slope: the larger of two small cases takes no longer",
        N::OtherClock => "the clock is not the time stamp counter",
        N::BetweenLevels => "working set between two cache levels: partial hits in each",
        N::Prefetched => "partly prefetched: the remaining load latency is not published",
        N::ThreadsOfOneCore => ONE_CORE,
        N::NestedPaging => WALKS,
        N::NoCommonSet => "no working set was measured with both small and huge pages",
        N::SetTooSmall { largest_bytes, needed_bytes } => {
            let [largest, needed] =
                [largest_bytes, needed_bytes].map(|bytes| quantity(*bytes as f64, Unit::Bytes));
            return format!(
                "the TLB may cover the largest working set with both page sizes ({largest}, \
                 needed {needed}); free memory"
            );
        }
        N::WriteCombining => "the drain rate of write-combining buffers is not published",
        N::TwoCopies => "no published model of two concurrent copies through memory",
        N::SchedulersChoice => "depends on scheduling decisions",
        N::SpeedOfDevice => DEVICE,
        N::ServiceTime => {
            "a single request takes the device's service time, which is not published"
        }
        N::WorkOfServer => "the work behind it is not known before the measurement",
        N::CostOfPath => "what the path adds is not known before the measurement",
        N::MixedResidency => "the file is partly cached, or its residency is unknown",
    };
    fixed.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_case_names_its_host() {
        let none = |metric: &str| no_model(&NoModel::NoKeptResult { metric: metric.to_owned() });
        let remote = none("network.tcp.rtt{bytes=1,to=db2}");
        assert!(remote.ends_with("`fathom run network.tcp.rtt --remote db2`"), "{remote}");
        assert!(none("network.tcp.rtt{to=loopback}").ends_with("`fathom run network.tcp.rtt`"));
    }
}
