//! Names of hosts as lists, as Slurm and ClusterShell write them: `node[3,17-19],login01`.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::shortened;

/// A list names at most this many hosts.
pub const HOSTS_MAX: usize = 100_000;
/// Longer numbers do not fit 64 bits.
const DIGITS_MAX: usize = 18;
/// A user, `@`, and the longest host name of DNS.
const NAME_BYTES_MAX: usize = 32 + 1 + 253;
/// Characters of a list in a message.
const SHOWN_MAX: usize = 120;

/// Numbers as they are written.
type NameNumbers = BTreeSet<(u64, String)>;

/// The last number in the first label of a name, with what is before and after it.
fn numbered(name: &str) -> Option<(&str, u64, &str, &str)> {
    let label = &name[..name.find('.').unwrap_or(name.len())];
    let end = label.rfind(|it: char| it.is_ascii_digit())? + 1;
    let before = label[..end].trim_end_matches(|it: char| it.is_ascii_digit());
    let digits = &label[before.len()..end];
    let number = digits.parse().ok().filter(|_| digits.len() <= DIGITS_MAX)?;
    Some((before, number, digits, &name[end..]))
}

/// The names as one list, each once: `node[3,17-19]`, `node[01-40]`. [`expand`] gives them back.
#[must_use]
pub fn fold<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut alike: BTreeMap<(&str, bool, &str), NameNumbers> = BTreeMap::new();
    for name in names {
        match numbered(name) {
            Some((before, number, digits, after)) => {
                let numbers = alike.entry((before, true, after)).or_default();
                numbers.insert((number, digits.to_owned()));
            }
            None => drop(alike.entry((name, false, "")).or_default()),
        }
    }
    let folded = alike.into_iter().map(|((before, _, after), numbers)| {
        let ranges = ranges(numbers);
        let is_plain = ranges.len() < 2 && !ranges.iter().any(|range| range.contains('-'));
        match ranges.join(",") {
            one if is_plain => format!("{before}{one}{after}"),
            several => format!("{before}[{several}]{after}"),
        }
    });
    folded.collect::<Vec<String>>().join(",")
}

/// `3`, `17-19`: a range goes on while the next number has the same number of digits, by zeros if
/// the first has them.
fn ranges(mut numbers: NameNumbers) -> Vec<String> {
    let mut ranges = Vec::new();
    while let Some((first, digits)) = numbers.pop_first() {
        let (mut last, mut end) = (first, digits.clone());
        loop {
            let next = (last + 1, format!("{:0width$}", last + 1, width = digits.len()));
            if !numbers.remove(&next) {
                break;
            }
            (last, end) = next;
        }
        ranges.push(if last == first { digits } else { format!("{digits}-{end}") });
    }
    ranges
}

/// The hosts of a list such as `a,b,node[01-40]`, in its order.
///
/// # Errors
/// What is wrong with which part of the list.
pub fn expand(list: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for part in outside_brackets(list) {
        let part = part.trim();
        if part.is_empty() {
            return Err(format!("hosts: an empty name in {:?}", shortened(list, SHOWN_MAX)));
        }
        let room = HOSTS_MAX - names.len();
        let wrong = |why| format!("hosts: {}: {why}", shortened(part, SHOWN_MAX));
        names.extend(expanded(part, room).map_err(wrong)?);
    }
    let mut seen = BTreeSet::new();
    match names.iter().find(|name| !seen.insert(name.as_str())) {
        Some(twice) => Err(format!("hosts: {twice} occurs twice; name each host once")),
        None => Ok(names),
    }
}

/// The parts between commas that are in no brackets.
fn outside_brackets(list: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    list.split(move |it: char| {
        is_inside = (is_inside || it == '[') && it != ']';
        it == ',' && !is_inside
    })
}

/// The names of a part, from its first brackets to its last.
fn expanded(part: &str, room: usize) -> Result<Vec<String>, String> {
    let (mut names, mut rest) = (vec![String::new()], part);
    while let Some((before, brackets)) = rest.split_once('[') {
        let (list, after) = brackets.split_once(']').ok_or("[ without ]")?;
        let ranges = list.split(',').map(range).collect::<Result<Vec<_>, String>>()?;
        let add = |sum: u64, (from, to, _): &NameRange| sum.saturating_add(to - from + 1);
        let count = ranges.iter().fold(0, add);
        if count.saturating_mul(names.len() as u64) > room as u64 {
            return Err(too_many());
        }
        let mut all = Vec::new();
        for name in &names {
            let lead = format!("{name}{}", plain(before)?);
            fits(&lead)?;
            for (from, to, width) in &ranges {
                all.extend((*from..=*to).map(|at| format!("{lead}{at:0width$}")));
            }
        }
        names = all;
        rest = after;
    }
    if names.len() > room {
        return Err(too_many());
    }
    let tail = plain(rest)?;
    names.iter_mut().for_each(|name| name.push_str(tail));
    names.iter().try_for_each(|name| fits(name)).map(|()| names)
}

/// First and last number, and the width of both.
type NameRange = (u64, u64, usize);

fn range(text: &str) -> Result<NameRange, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let ([from, to], width) = ([number(first)?, number(last)?], first.len());
    if from > to || format!("{to:0width$}") != last {
        return Err(format!("invalid range {text}: write a lower and an upper number, 08-12"));
    }
    Ok((from, to, width))
}

fn plain(text: &str) -> Result<&str, String> {
    if text.contains(']') { Err("] without [".to_owned()) } else { Ok(text) }
}

fn fits(name: &str) -> Result<(), String> {
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("a name of {} bytes; at most {NAME_BYTES_MAX}", name.len()));
    }
    Ok(())
}

fn too_many() -> String {
    format!("more than {HOSTS_MAX} hosts")
}

fn number(digits: &str) -> Result<u64, String> {
    let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
    match digits.parse() {
        Ok(number) if is_number && digits.len() <= DIGITS_MAX => Ok(number),
        _ => {
            let shown = shortened(digits, SHOWN_MAX);
            Err(format!("{shown:?} is not a number of at most {DIGITS_MAX} digits"))
        }
    }
}

/// Names in the order of their numbers: `node9` before `node10`.
pub(super) fn order(name: &str) -> (&str, u64, &str) {
    numbered(name).map_or((name, 0, ""), |(before, number, _, after)| (before, number, after))
}
