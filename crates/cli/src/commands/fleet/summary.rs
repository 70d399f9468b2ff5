//! Who came, who delivered, who was lost and why, and how together they started.

use std::collections::BTreeMap;

use fathom_analysis::fleet::Judgement;
use fathom_analysis::fleet::names::fold;
use fathom_record::shell_word;
use fathom_report::{Layout, paragraph};
use serde::Serialize;

use super::folding::folded;
use super::gather::Gathered;
use crate::commands::counted;

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct FleetSummary {
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    members: Members,
    /// Of members that started together.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Start>,
    /// Of members that measured to each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pairs: Option<FleetPairs>,
}

/// Pairs of members, each way counted.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct FleetPairs {
    pub(super) rounds: usize,
    /// So many in which each two meet.
    pub(super) all_rounds: usize,
    /// Whether the rounds were drawn at random.
    pub(super) is_sample: bool,
    pub(super) planned: usize,
    /// Noisy ones that were measured again, and that were noisy again.
    pub(super) repeated: usize,
    pub(super) still_noisy: usize,
    pub(super) not_measured: Vec<MissingPair>,
}

/// Why the pairs of a lost member are missing.
pub(super) const LOST: &str = "a member was lost";

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct MissingPair {
    from: String,
    to: String,
    reason: String,
}

impl FleetPairs {
    pub(super) fn miss(&mut self, [from, to]: [&str; 2], reason: String) {
        let [from, to] = [from, to].map(str::to_owned);
        self.not_measured.push(MissingPair { from, to, reason });
    }

    /// `30 of 30 pairs measured, each way counted, in 5 rounds`.
    fn words(&self) -> String {
        let Self { rounds, all_rounds, is_sample, planned, repeated, .. } = self;
        let not_measured = &self.not_measured;
        let measured = planned - not_measured.len();
        let of = match (is_sample, rounds < all_rounds) {
            (_, false) => String::new(),
            (true, true) => format!(" of {all_rounds}, drawn at random"),
            (false, true) => format!(" of {all_rounds}"),
        };
        let rounds = counted(*rounds, "round");
        let mut text = format!("{measured} of {planned} pairs measured, each way counted");
        text += &format!(", in {rounds}{of}");
        if *repeated > 0 {
            text += &format!("; {repeated} noisy ones repeated, {} still noisy", self.still_noisy);
        }
        if !not_measured.is_empty() {
            text += &format!("; not measured: {}", self.missing());
        }
        text
    }

    /// `a to node[2,5] (connection refused), b to c (a member was lost)`.
    fn missing(&self) -> String {
        let mut by_from: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for MissingPair { from, to: host, reason } in &self.not_measured {
            by_from.entry((reason, from)).or_default().push(host);
        }
        let mut by_to: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
        for ((reason, host), to) in by_from {
            by_to.entry((reason, fold(to))).or_default().push(host);
        }
        let parts = by_to
            .into_iter()
            .map(|((reason, to), from)| format!("{} to {to} ({reason})", fold(from)));
        parts.collect::<Vec<String>>().join(", ")
    }
}

#[derive(Debug, PartialEq, Serialize)]
struct Members {
    expected: usize,
    joined: usize,
    delivered: usize,
    lost: Vec<FleetMissing>,
    /// Hosts whose members did not come.
    absent: Vec<FleetMissing>,
}

#[derive(Debug, PartialEq, Serialize)]
struct FleetMissing {
    host: String,
    reason: String,
}

/// How late members started: absolute values, in nanoseconds.
#[derive(Debug, PartialEq, Serialize)]
struct Start {
    members: usize,
    median_skew_ns: f64,
    highest_skew_ns: f64,
    /// Of the clock that is known worst.
    error_ns: f64,
}

/// A summary and a judgement as one object.
#[derive(Serialize)]
pub(super) struct Judged<'j> {
    #[serde(flatten)]
    summary: &'j FleetSummary,
    #[serde(flatten)]
    judgement: &'j Judgement,
}

impl FleetSummary {
    pub(super) fn from_gathered(gathered: &Gathered, label: Option<&str>) -> Self {
        let members = &gathered.outcome.members;
        let lost = |host: &str, reason: &str| FleetMissing {
            host: host.to_owned(),
            reason: reason.to_owned(),
        };
        let mut skews: Vec<f64> = Vec::new();
        let mut error_ns: f64 = 0.0;
        for skew in members.iter().filter_map(|it| it.skew) {
            skews.push(skew.ns.abs());
            error_ns = error_ns.max(skew.error_ns);
        }
        skews.sort_by(f64::total_cmp);
        let start = skews.last().map(|highest| Start {
            members: skews.len(),
            median_skew_ns: skews[skews.len() / 2],
            highest_skew_ns: *highest,
            error_ns,
        });
        let all_lost = members
            .iter()
            .filter_map(|it| Some(lost(&it.member.name, it.lost.as_deref()?)))
            .collect::<Vec<FleetMissing>>();
        let absent = gathered.absent.iter().map(|(node, reason)| lost(node, reason)).collect();
        let members = Members {
            expected: gathered.expected,
            joined: members.len(),
            delivered: members.len() - all_lost.len(),
            lost: all_lost,
            absent,
        };
        Self { label: label.map(str::to_owned), members, start, pairs: None }
    }

    pub(super) fn and_pairs(self, pairs: FleetPairs) -> Self {
        Self { pairs: Some(pairs), ..self }
    }

    /// Whether members that stayed could not measure to each other.
    pub(super) fn is_any_pair_missing(&self) -> bool {
        let is_other = |pair: &MissingPair| pair.reason != LOST;
        self.pairs.as_ref().is_some_and(|pairs| pairs.not_measured.iter().any(is_other))
    }

    /// How many hosts that were to be judged are not: they did not join, or were lost.
    pub(super) fn missing(&self) -> usize {
        self.members.expected.saturating_sub(self.members.delivered)
    }

    pub(super) fn with<'j>(&'j self, judgement: &'j Judgement) -> Judged<'j> {
        Judged { summary: self, judgement }
    }

    /// `12 members joined, 11 delivered, 1 lost: node7 (no sign of life for 30 s)`.
    pub(super) fn words(&self) -> String {
        let Members { expected, joined, delivered, lost, absent } = &self.members;
        let of = if joined < expected { format!("{joined} of ") } else { String::new() };
        let mut text = format!("{of}{} joined", counted(*joined.max(expected), "member"));
        // Facts come with joining.
        if self.label.is_some() || *delivered < *joined {
            text += &format!(", {delivered} delivered");
        }
        if !lost.is_empty() {
            text += &format!(", {} lost: {}", lost.len(), by_reason(lost));
        }
        if !absent.is_empty() {
            text += &format!(", {} did not join: {}", absent.len(), by_reason(absent));
        }
        text
    }

    /// The same with the pairs.
    pub(super) fn whole_words(&self) -> String {
        let pairs = self.pairs.as_ref().map_or(String::new(), |it| format!("; {}", it.words()));
        self.words() + &pairs
    }

    pub(super) fn screen(&self, layout: &Layout) -> String {
        let mut text = paragraph(&self.words(), layout.width, "", "  ");
        if let Some(start) = &self.start {
            let Start { members, median_skew_ns, highest_skew_ns, error_ns } = start;
            let [median, highest, error] =
                [median_skew_ns, highest_skew_ns, error_ns].map(|ns| ns / 1e6);
            let words = format!(
                "{members} started together: {median:.3} ms from the announced time in the \
                 median, {highest:.3} ms at most (± {error:.3} ms)"
            );
            text += &paragraph(&words, layout.width, "", "  ");
        }
        if let Some(pairs) = &self.pairs {
            text += &paragraph(&pairs.words(), layout.width, "", "  ");
        }
        text + "\n"
    }

    /// Which status missing hosts give, and how to judge these runs again.
    pub(super) fn foot(&self, allow_missing: usize, layout: &Layout) -> String {
        let missing = match self.missing() {
            few if few <= allow_missing => String::new(),
            missing => {
                let words = format!(
                    "{} missing and not judged: exit status 3, unless --allow-missing {missing}",
                    counted(missing, "host")
                );
                format!("\n{}", paragraph(&words, layout.width, "", "  "))
            }
        };
        let Some(label) = &self.label else { return missing };
        let words = format!("fathom fleet judge {} judges these runs again", shell_word(label));
        format!("{missing}\n{}", paragraph(&words, layout.width, "", "  "))
    }
}

/// `node[3,17-19] (connection closed), web1 (no sign of life for 30 s)`.
fn by_reason(missing: &[FleetMissing]) -> String {
    let pairs = missing.iter().map(|one| (&one.host[..], &one.reason[..]));
    let parts = folded(pairs).into_iter().map(|(hosts, reason)| format!("{hosts} ({reason})"));
    parts.collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use fathom_analysis::fleet::FleetRuns;
    use fathom_fleet::{Ended, Joined, PlanOutcome, Skew};
    use fathom_record::Host;

    use super::*;

    fn ended(name: &str, lost: Option<&str>, skew_ns: Option<f64>) -> Ended {
        let host = Host { name: name.to_owned(), ..Host::default() };
        let member = Joined { name: name.to_owned(), node: None, rank: None, host };
        let skew = skew_ns.map(|ns| Skew { ns, error_ns: 20_000.0 });
        Ended { member, skew, lost: lost.map(str::to_owned) }
    }

    fn gathered(members: Vec<Ended>, absent: &[(&str, &str)]) -> Gathered {
        let absent = absent.iter().map(|(node, why)| ((*node).to_owned(), (*why).to_owned()));
        let outcome = PlanOutcome { members, failures: Vec::new(), is_stopped: false };
        let absent: Vec<(String, String)> = absent.collect();
        let expected = outcome.members.len() + absent.len();
        Gathered {
            outcome,
            judged: FleetRuns::default(),
            shares: Vec::new(),
            expected,
            absent,
            has_failed: false,
        }
    }

    #[test]
    fn lost_and_absent_hosts_are_folded_by_reason() {
        let silent = Some("no sign of life for 30 s");
        let whole = |at| ended(&format!("n{at}"), None, None);
        let mut members: Vec<Ended> = (1..=9).map(whole).collect();
        assert_eq!(
            FleetSummary::from_gathered(&gathered(Vec::new(), &[]), Some("x")).words(),
            "0 members joined, 0 delivered"
        );
        members.extend([ended("n12", silent, None), ended("n10", silent, None)]);
        members.push(ended("n11", Some("connection closed"), None));
        let absent = [("n13", "ssh: n13: refused"), ("n14", "ssh: n14: refused")];
        let summary = FleetSummary::from_gathered(&gathered(members, &absent), Some("x"));
        let words = "12 of 14 members joined, 9 delivered, 3 lost: n11 (connection closed), \
                     n[10,12] (no sign of life for 30 s), 2 did not join: n[13-14] (ssh: HOST: \
                     refused)";
        assert_eq!(summary.words(), words);
        // Facts are not delivered.
        let facts = gathered(vec![ended("a", None, None)], &[]);
        assert_eq!(FleetSummary::from_gathered(&facts, None).words(), "1 member joined");
    }

    #[test]
    fn start_has_median_and_highest_skew() {
        let skews = [-400_000.0, 100_000.0, 30_000.0];
        let members = skews.iter().map(|ns| ended("a", None, Some(*ns))).collect();
        let summary = FleetSummary::from_gathered(&gathered(members, &[]), Some("x y"));
        let layout = Layout { width: 200, ..Layout::default() };
        let screen = "3 members joined, 3 delivered\n3 started together: 0.100 ms from the \
                      announced time in the median, 0.400 ms at most (± 0.020 ms)\n\n";
        assert_eq!(summary.screen(&layout), screen);
        assert_eq!(
            summary.foot(0, &layout),
            "\nfathom fleet judge 'x y' judges these runs again\n"
        );
    }

    #[test]
    fn pairs_without_numbers_are_folded_by_reason() {
        let mut pairs = FleetPairs {
            rounds: 5,
            all_rounds: 5,
            is_sample: false,
            planned: 30,
            repeated: 0,
            still_noisy: 0,
            not_measured: Vec::new(),
        };
        assert_eq!(pairs.words(), "30 of 30 pairs measured, each way counted, in 5 rounds");
        for (from, to) in [("n1", "n4"), ("n2", "n4"), ("n3", "n4"), ("n4", "n1"), ("n4", "n2")] {
            pairs.miss([from, to], LOST.to_owned());
        }
        pairs.miss(["n2", "n3"], "connection refused".to_owned());
        let words = "24 of 30 pairs measured, each way counted, in 5 rounds; not measured: n[1-3] \
                     to n4 (a member was lost), n4 to n[1-2] (a member was lost), n2 to n3 \
                     (connection refused)";
        assert_eq!(pairs.words(), words);
        let sampled = FleetPairs {
            rounds: 63,
            all_rounds: 99,
            is_sample: true,
            planned: 6300,
            repeated: 9,
            still_noisy: 2,
            not_measured: Vec::new(),
        };
        assert!(
            sampled.words().ends_with("99, drawn at random; 9 noisy ones repeated, 2 still noisy")
        );
        let summary =
            FleetSummary::from_gathered(&gathered(Vec::new(), &[]), Some("x")).and_pairs(pairs);
        assert!(summary.is_any_pair_missing());
    }
}
