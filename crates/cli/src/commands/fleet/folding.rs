//! Hosts that have a reason in common.

use std::collections::BTreeMap;

use fathom_analysis::fleet::names::fold;

/// Hosts with the same reason, but for their own name in it.
pub(super) fn folded<'m>(
    missing: impl IntoIterator<Item = (&'m str, &'m str)>,
) -> Vec<(String, String)> {
    let mut all: BTreeMap<String, Vec<(&str, &str)>> = BTreeMap::new();
    for (host, reason) in missing {
        all.entry(without_name(reason, host)).or_default().push((host, reason));
    }
    let of_reason = |(reason, of): (String, Vec<(&str, &str)>)| {
        let reason = if of.len() == 1 { of[0].1.to_owned() } else { reason };
        (fold(of.iter().map(|(host, _)| *host)), reason)
    };
    all.into_iter().map(of_reason).collect()
}

/// A reason in which the name of its host is replaced, as in `Could not resolve hostname a`.
fn without_name(reason: &str, host: &str) -> String {
    let name = host.rsplit('@').next().unwrap_or(host);
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let words = reason.split_inclusive(|letter| !is_part(letter)).map(|word| {
        let own = word.trim_end_matches(|letter| !is_part(letter));
        if own == name { word.replacen(name, "HOST", 1) } else { word.to_owned() }
    });
    words.collect()
}
