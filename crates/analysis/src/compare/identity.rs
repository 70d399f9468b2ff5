//! What a case is of, where its id is made of a part of a name: commands of the user, and
//! benchmarks of other tools.

use std::collections::BTreeMap;

use fathom_record::command::{COMMAND, NAMED_BY};
use fathom_record::{MetricId, Params, Record};

use super::{ByCase, CompareKey, NotComparable};
use crate::differences::{Difference, DifferenceFact, between};
use crate::subject::differing;

/// The cases of A, under the id that B has for the same command or benchmark: one of the runs cut
/// its name, or had to tell it from another one.
pub(super) fn as_named_in<'a>(a: ByCase<'a>, b: &ByCase<'a>) -> ByCase<'a> {
    let mut whole: BTreeMap<_, Vec<CompareKey<'a>>> = BTreeMap::new();
    for (key, records) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
        let of_b = records.last().and_then(|one| whole_key(one.record));
        of_b.into_iter().for_each(|it| whole.entry(it).or_default().push(*key));
    }
    let mut renamed = ByCase::new();
    for (key, records) in a {
        let of_a = records.last().and_then(|one| whole_key(one.record));
        let same = of_a.filter(|_| !b.contains_key(&key)).and_then(|it| whole.get(&it));
        let key = match same.map(Vec::as_slice) {
            Some([only]) => *only,
            _ => key,
        };
        renamed.entry(key).or_default().extend(records);
    }
    renamed
}

/// The one command that only A has, and the one that only B has, are not compared.
pub(super) fn replaced(a: &ByCase<'_>, b: &ByCase<'_>) -> Option<NotComparable> {
    let only = |these: &ByCase<'_>, those: &ByCase<'_>| {
        let only = these.iter().filter(|(key, _)| !those.contains_key(*key));
        let mut commands = only.filter_map(|((metric, params, _), records)| {
            let command = records.last()?.record.text_of(COMMAND)?;
            Some(((*metric).clone(), (*params).clone(), command.to_owned()))
        });
        commands.next().filter(|_| commands.next().is_none())
    };
    let ((_, _, of_a), (metric, params, of_b)) = (only(a, b)?, only(b, a)?);
    let reason = format!("another command, `{of_a}` in A, `{of_b}` in B");
    Some(NotComparable { metric, params, reason })
}

/// The tool, the whole name and the parameters.
fn whole_key(record: &Record) -> Option<(&str, &str, &Params)> {
    let tool = record.measured_by.as_ref().map_or("", |by| &by.tool);
    Some((tool, record.whole_name()?, &record.params))
}

/// Why two records of one id are of different benchmarks of another tool, if they are.
pub(super) fn other_benchmark(a: &Record, b: &Record) -> Option<String> {
    let [of_a, of_b] = [a, b].map(|one| one.whole_name().unwrap_or_default());
    let is_of_tools = a.measured_by.is_some() && b.measured_by.is_some();
    let differ = is_of_tools && a.is_of_another(b);
    differ.then(|| format!("another benchmark, `{of_a}` in A, `{of_b}` in B"))
}

/// Adds what differs of the version and the settings of the tool that measured both, once for all
/// its benchmarks.
pub(super) fn add_settings(differences: &mut Vec<Difference>, a: &Record, b: &Record) {
    let settings = |one: &Record| -> Vec<DifferenceFact> {
        let by = one.measured_by.as_ref();
        let version =
            by.map(|it| [it.tool.as_str(), it.version.as_deref().unwrap_or("")].join(" "));
        let fact = |name| (name, Some(one.text_of(name).unwrap_or_default().to_owned()));
        vec![("measured by", version), fact("configuration"), fact("options")]
    };
    if a.measured_by.is_none() || b.measured_by.is_none() {
        return;
    }
    for one in between(settings(a), settings(b)) {
        if !differences.contains(&one) {
            differences.push(one);
        }
    }
}

/// What differs of the commands that two runs have under one name.
pub(super) fn other_commands(metric: &MetricId, a: &Record, b: &Record) -> Vec<Difference> {
    let made = |(what, a, b)| Difference { what: format!("{metric}, {what}"), a, b };
    differing(a, b).into_iter().map(made).collect()
}

/// Why two records of one name, which is made of the command of one, are of different cases: the
/// command and all that decides what a run does is a case.
pub(super) fn other_case(a: &Record, b: &Record) -> Option<String> {
    let is_made = [a, b].iter().any(|one| one.text_of(NAMED_BY).is_some());
    let (what, of_a, of_b) = differing(a, b).into_iter().find(|_| is_made)?;
    Some(format!(
        "{what}, `{of_a}` in A, `{of_b}` in B; a name that is given to both makes them one case"
    ))
}
