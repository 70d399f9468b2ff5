//! Documents mutated at random by a fixed seed: each is refused or stored whole, and every view
//! renders it. `FATHOM_FUZZ` sets the number of documents.
#![expect(clippy::print_stdout, reason = "a long test prints its counts")]

use fathom_analysis::compare::{Noise, compare};
use fathom_analysis::fleet;
use fathom_analysis::side_by_side::side_by_side;
use fathom_record::fixture::WHOLE_DOCUMENT as WHOLE;
use fathom_record::{Document, Record};
use fathom_report::compare::render;
use fathom_report::health::{self, Health};
use fathom_report::{Layout, export};
use fathom_store::Store;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde_json::Value;

use super::{documents, store_run};
use crate::commands::group;

const MUTATIONS: u32 = 300;
/// JSON values that replace others, separated by spaces.
const VALUES: &str = "null true -1 0 1e999 -1e-999 1e308 NaN Infinity \"\" [] {} \
    18446744073709551616 \"\\ud800\"";

struct Random(Xoshiro256PlusPlus);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound.max(1) as u64) as usize
    }
}

/// The document with one mutation.
fn mutated(random: &mut Random) -> Vec<u8> {
    let text = WHOLE.as_bytes();
    let (at, other) = (random.below(text.len()), random.below(text.len()));
    let (from, to) = (at.min(other), at.max(other));
    match random.below(10) {
        0 => with_flipped_bits(text, random),
        1 => text[..at].to_vec(),
        2 => [&text[..from], &text[to..]].concat(),
        3 => [&text[..to], &text[from..]].concat(),
        4 => [&text[..at], &random_bytes(random), &text[at..]].concat(),
        5 => {
            let values: Vec<&str> = VALUES.split(' ').collect();
            let value = values[random.below(values.len())];
            with_replaced_value(random, value)
        }
        6 => {
            let deep = ["[", "{"][random.below(2)].repeat(random.below(200_000));
            with_replaced_value(random, &deep)
        }
        7 => {
            let digits = "9".repeat(random.below(5_000) + 1);
            with_replaced_value(random, &digits)
        }
        8 => with_duplicate_line(random),
        _ => with_changed_values(random),
    }
}

fn with_flipped_bits(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut text = text.to_vec();
    for _ in 0..=random.below(8) {
        let at = random.below(text.len());
        text[at] ^= 1 << random.below(8);
    }
    text
}

fn random_bytes(random: &mut Random) -> Vec<u8> {
    (0..random.below(64)).map(|_| random.0.next_u64() as u8).collect()
}

/// The ranges of values: after `: ` up to the end of the line.
fn value_ranges() -> Vec<(usize, usize)> {
    let begins = WHOLE.match_indices("\": ").map(|(at, text)| at + text.len());
    let end = |begin: usize| {
        let line = WHOLE[begin..].find('\n').unwrap_or_default();
        begin + WHOLE[begin..begin + line].trim_end_matches(',').len()
    };
    begins.map(|begin| (begin, end(begin))).collect()
}

fn with_replaced_value(random: &mut Random, value: &str) -> Vec<u8> {
    let ranges = value_ranges();
    let (begin, end) = ranges[random.below(ranges.len())];
    [&WHOLE[..begin], value, &WHOLE[end..]].concat().into_bytes()
}

fn with_duplicate_line(random: &mut Random) -> Vec<u8> {
    let lines: Vec<&str> = WHOLE.lines().collect();
    let at = random.below(lines.len());
    let again = format!("{},", lines[at].trim_end_matches(','));
    let (before, after) = lines.split_at(at);
    [before, &[again.as_str()], after].concat().join("\n").into_bytes()
}

/// Values changed within their types, with valid checksums: only validation can refuse them.
fn with_changed_values(random: &mut Random) -> Vec<u8> {
    let mut value: Value = serde_json::from_str(WHOLE).expect("JSON");
    for _ in 0..=random.below(4) {
        change(&mut value, random);
    }
    let Ok(mut document) = serde_json::from_value::<Document>(value.clone()) else {
        return value.to_string().into_bytes();
    };
    document.run.id = format!("{:016x}", random.0.next_u64());
    document.records = document.records.into_iter().map(Record::sealed).collect();
    serde_json::to_vec(&document).expect("a document is plain data")
}

/// Changes a random descendant of the value.
fn change(value: &mut Value, random: &mut Random) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let at = random.below(fields.len());
            let field = fields.values_mut().nth(at).expect("a field");
            change(field, random);
        }
        Value::Array(items) if !items.is_empty() => match random.below(4) {
            0 => items.clear(),
            1 => items.extend(items.clone()),
            _ => {
                let at = random.below(items.len());
                change(&mut items[at], random);
            }
        },
        Value::Number(_) => {
            const NUMBERS: [f64; 8] = [0.0, -0.0, -1.0, 1e308, -1e308, 5e-324, 1e15, 0.1];
            *value = match random.below(3) {
                0 => Value::from(random.0.next_u64() >> random.below(64)),
                _ => Value::from(NUMBERS[random.below(NUMBERS.len())]),
            };
        }
        Value::String(text) => {
            *text = ["", "x\u{0}\n\u{1b}[31m", "ü".repeat(300).as_str()][random.below(3)].to_owned()
        }
        _ => *value = Value::from(1.5),
    }
}

#[derive(Debug, Default)]
struct FuzzCounts {
    refused_by_parser: u32,
    refused_by_store: u32,
    stored: u32,
}

fn fuzz(mutations: u32) -> FuzzCounts {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Store::open(&folder.path().join("runs.db")).expect("a store");
    let mut random = Random(Xoshiro256PlusPlus::seed_from_u64(20_260_101));
    let whole: Document = serde_json::from_str(WHOLE).expect("a document");
    let mut counts = FuzzCounts::default();
    for _ in 0..mutations {
        let Ok(documents) = documents::read(mutated(&mut random).as_slice(), "mutated") else {
            counts.refused_by_parser += 1;
            continue;
        };
        for document in documents {
            let before = store.runs().expect("the runs").len();
            match store_run(&mut store, document.clone()) {
                Ok(is_new) => {
                    counts.stored += 1;
                    let stored = store.document(&document.run.id, true).expect("a whole run");
                    assert!(!is_new || stored.records == document.records, "{document:?}");
                }
                Err(_) => {
                    counts.refused_by_store += 1;
                    assert_eq!(store.runs().expect("the runs").len(), before, "partly stored");
                }
            }
            render_all(&document, &whole);
        }
    }
    counts
}

/// Renders every view of a document, to see that none panics.
fn render_all(document: &Document, whole: &Document) {
    let layout = Layout::default();
    let _ = fathom_report::show(document, &layout);
    let group = [whole, document, whole, document, whole, document, whole];
    let group = group.into_iter().collect();
    let limits = group::noise_limits();
    let _ = fleet::judge(&group, &limits);
    let against = fleet::judge_host(document, &group, &limits);
    let line = health::line(&[Health::of_host(&against, document)], document, true).1;
    assert_eq!(line.matches('\n').count(), 1, "{line}");
    let _ = render(&compare(whole, document, &Noise::default(), 1), &layout);
    let two = [whole, document];
    let _ = fathom_report::side_by_side::render(&side_by_side(&two), &two, &layout);
    let documents = std::slice::from_ref(document);
    let _ = (
        export::jsonl(documents),
        export::csv(documents),
        export::openmetrics(documents, export::Additions::default()),
    );
}

#[test]
fn mutated_document_is_refused_or_stored_whole() {
    let mutations = std::env::var("FATHOM_FUZZ");
    let mutations = mutations.map_or(MUTATIONS, |text| text.parse().expect("a count"));
    let counts = fuzz(mutations);
    println!("{counts:?}");
    assert!(
        counts.refused_by_parser > mutations / 2 && counts.stored > mutations / 50,
        "{counts:?}"
    );
    if let Some(folder) = std::env::var_os("FATHOM_SOAK") {
        let FuzzCounts { refused_by_parser, refused_by_store, stored } = counts;
        let section = format!(
            "## Mutated documents\n\n{mutations} documents, by seed: flipped bits, truncation, \
             missing and duplicate parts, other values and types, numbers of thousands of \
             digits, deep nesting. {refused_by_parser} were refused by the parser, \
             {refused_by_store} by the store, {stored} stored whole and rendered; no panic, no run \
             stored in part.\n"
        );
        let path = std::path::Path::new(&folder).join("a-documents.md");
        std::fs::write(path, section).expect("a section");
    }
}
