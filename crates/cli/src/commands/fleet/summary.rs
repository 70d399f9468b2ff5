//! Who came, who delivered, who was lost and why, and how together they started.

use std::collections::BTreeMap;

use fathom_analysis::fleet::Judgement;
use fathom_analysis::fleet::names::fold;
use fathom_report::{Layout, paragraph};
use serde::Serialize;

use super::gather::Gathered;
use crate::commands::counted;

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    members: Members,
    /// Of members that started together.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Start>,
    /// Of members that measured to each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pairs: Option<Pairs>,
}

/// Pairs of members, each way counted.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Pairs {
    pub(super) rounds: usize,
    /// So many in which each two meet.
    pub(super) all_rounds: usize,
    /// Whether the rounds were drawn at random.
    pub(super) is_sample: bool,
    pub(super) planned: usize,
    pub(super) not_measured: Vec<MissingPair>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct MissingPair {
    from: String,
    to: String,
    reason: String,
}

impl Pairs {
    pub(super) fn miss(&mut self, [from, to]: [&str; 2], reason: String) {
        let [from, to] = [from, to].map(str::to_owned);
        self.not_measured.push(MissingPair { from, to, reason });
    }

    /// `30 of 30 pairs measured, each way counted, in 5 rounds`.
    fn words(&self) -> String {
        let Self { rounds, all_rounds, is_sample, planned, not_measured } = self;
        let measured = planned - not_measured.len();
        let of = match (is_sample, rounds < all_rounds) {
            (_, false) => String::new(),
            (true, true) => format!(" of {all_rounds}, drawn at random"),
            (false, true) => format!(" of {all_rounds}"),
        };
        let rounds = counted(*rounds, "round");
        let mut text = format!("{measured} of {planned} pairs measured, each way counted");
        text += &format!(", in {rounds}{of}");
        if !not_measured.is_empty() {
            text += &format!("; not measured: {}", self.missing());
        }
        text
    }

    /// `a to node[2,5] (connection refused), b to c (a member was lost)`.
    fn missing(&self) -> String {
        let mut to: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for MissingPair { from, to: host, reason } in &self.not_measured {
            to.entry((reason, from)).or_default().push(host);
        }
        let mut from: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
        for ((reason, host), to) in to {
            from.entry((reason, fold(to))).or_default().push(host);
        }
        let parts = from.into_iter().map(|((reason, to), from)| {
            format!("{} to {to} ({reason})", fold(from))
        });
        parts.collect::<Vec<String>>().join(", ")
    }
}

#[derive(Debug, PartialEq, Serialize)]
struct Members {
    joined: usize,
    delivered: usize,
    lost: Vec<Missing>,
    /// Hosts whose members did not come.
    absent: Vec<Missing>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Missing {
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
    summary: &'j Summary,
    #[serde(flatten)]
    judgement: &'j Judgement,
}

impl Summary {
    pub(super) fn of(gathered: &Gathered, label: Option<&str>) -> Self {
        let members = &gathered.outcome.members;
        let lost =
            |host: &str, reason: &str| Missing { host: host.to_owned(), reason: reason.to_owned() };
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
            .collect::<Vec<Missing>>();
        let absent = gathered.absent.iter().map(|(node, reason)| lost(node, reason)).collect();
        let members = Members {
            joined: members.len(),
            delivered: members.len() - all_lost.len(),
            lost: all_lost,
            absent,
        };
        Self { label: label.map(str::to_owned), members, start, pairs: None }
    }

    pub(super) fn and_pairs(self, pairs: Pairs) -> Self {
        Self { pairs: Some(pairs), ..self }
    }

    /// Whether members that stayed could not measure to each other, or one was lost.
    pub(super) fn is_any_pair_missing(&self) -> bool {
        self.pairs.as_ref().is_some_and(|pairs| !pairs.not_measured.is_empty())
    }

    pub(super) fn with<'j>(&'j self, judgement: &'j Judgement) -> Judged<'j> {
        Judged { summary: self, judgement }
    }

    /// `12 members joined, 11 delivered, 1 lost: node7 (no sign of life for 30 s)`.
    pub(super) fn words(&self) -> String {
        let Members { joined, delivered, lost, absent } = &self.members;
        let mut text = format!("{} joined", counted(*joined, "member"));
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

    /// How to judge these runs again.
    pub(super) fn foot(&self, layout: &Layout) -> String {
        let Some(label) = &self.label else { return String::new() };
        let is_word = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let label = if is_word { label.clone() } else { format!("'{label}'") };
        let words = format!("fathom fleet judge {label} judges these runs again");
        format!("\n{}", paragraph(&words, layout.width, "", "  "))
    }
}

/// `node[3,17-19] (connection closed), web1 (no sign of life for 30 s)`.
fn by_reason(missing: &[Missing]) -> String {
    let mut hosts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in missing {
        hosts.entry(&one.reason).or_default().push(&one.host);
    }
    let parts = hosts.into_iter().map(|(reason, hosts)| format!("{} ({reason})", fold(hosts)));
    parts.collect::<Vec<String>>().join(", ")
}
