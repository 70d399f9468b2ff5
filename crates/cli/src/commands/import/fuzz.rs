//! Documents that were spoilt in thousands of ways: each is refused or kept whole, and what is kept
//! can be shown. The same ways each time, by a seed; `FATHOM_FUZZ` asks for more of them.
#![expect(clippy::print_stdout, reason = "a long test tells what it found")]

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fathom_analysis::compare::{Noise, compare};
use fathom_record::{Document, Record};
use fathom_report::compare::render;
use fathom_report::{Layout, export};
use fathom_store::Store;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde_json::Value;

use super::{Counted, documents, keep};

/// A whole run in which every field has a value.
const WHOLE: &str = include_str!("../../../../store/tests/golden/document.json");
/// Documents that `make test` spoils.
const TRIES: u32 = 3_000;
/// No document of some kilobytes takes this long.
const BOUND: Duration = Duration::from_secs(60);
/// What is put in the place of a value.
const VALUES: [&str; 14] = [
    "null",
    "true",
    "-1",
    "0",
    "1e999",
    "-1e-999",
    "1e308",
    "NaN",
    "Infinity",
    "\"\"",
    "[]",
    "{}",
    "18446744073709551616",
    "\"\\ud800\"",
];

struct Chance(Xoshiro256PlusPlus);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound.max(1) as u64) as usize
    }
}

/// The document, spoilt in one way.
fn spoilt(chance: &mut Chance) -> Vec<u8> {
    let text = WHOLE.as_bytes();
    let (at, other) = (chance.below(text.len()), chance.below(text.len()));
    let (from, to) = (at.min(other), at.max(other));
    match chance.below(10) {
        0 => flipped(text, chance),
        1 => text[..at].to_vec(),
        2 => [&text[..from], &text[to..]].concat(),
        3 => [&text[..to], &text[from..]].concat(),
        4 => [&text[..at], &random(chance), &text[at..]].concat(),
        5 => {
            let value = VALUES[chance.below(VALUES.len())];
            in_place_of_a_value(chance, value)
        }
        6 => {
            let (open, depth) = ([b'[', b'{'][chance.below(2)], chance.below(200_000));
            let deep = vec![open; depth];
            in_place_of_a_value(chance, &String::from_utf8_lossy(&deep))
        }
        7 => {
            let digits = "9".repeat(chance.below(5_000) + 1);
            in_place_of_a_value(chance, &digits)
        }
        8 => named_twice(chance),
        _ => sealed_again(chance),
    }
}

fn flipped(text: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut text = text.to_vec();
    for _ in 0..=chance.below(8) {
        let at = chance.below(text.len());
        text[at] ^= 1 << chance.below(8);
    }
    text
}

fn random(chance: &mut Chance) -> Vec<u8> {
    (0..chance.below(64)).map(|_| chance.0.next_u64() as u8).collect()
}

/// Where values begin and end: after `: ` up to the end of the line, as the document is written.
fn values() -> Vec<(usize, usize)> {
    let begins = WHOLE.match_indices("\": ").map(|(at, found)| at + found.len());
    let end = |begin: usize| {
        let line = WHOLE[begin..].find('\n').unwrap_or_default();
        begin + WHOLE[begin..begin + line].trim_end_matches(',').len()
    };
    begins.map(|begin| (begin, end(begin))).collect()
}

fn in_place_of_a_value(chance: &mut Chance, value: &str) -> Vec<u8> {
    let places = values();
    let (begin, end) = places[chance.below(places.len())];
    [&WHOLE[..begin], value, &WHOLE[end..]].concat().into_bytes()
}

/// A line that stands there a second time, with its key.
fn named_twice(chance: &mut Chance) -> Vec<u8> {
    let lines: Vec<&str> = WHOLE.lines().collect();
    let at = chance.below(lines.len());
    let again = format!("{},", lines[at].trim_end_matches(','));
    let (before, after) = lines.split_at(at);
    [before, &[again.as_str()], after].concat().join("\n").into_bytes()
}

/// A value changed within its type, and checksums that fit: what nothing but a reader can refuse.
fn sealed_again(chance: &mut Chance) -> Vec<u8> {
    let mut value: Value = serde_json::from_str(WHOLE).expect("JSON");
    for _ in 0..=chance.below(4) {
        change(&mut value, chance);
    }
    let Ok(mut document) = serde_json::from_value::<Document>(value.clone()) else {
        return value.to_string().into_bytes();
    };
    document.run.id = format!("{:016x}", chance.0.next_u64());
    document.records = document.records.into_iter().map(Record::sealed).collect();
    serde_json::to_vec(&document).expect("a document is plain data")
}

/// Walks into the value at random and changes what it finds there.
fn change(value: &mut Value, chance: &mut Chance) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let at = chance.below(fields.len());
            let field = fields.values_mut().nth(at).expect("a field");
            change(field, chance);
        }
        Value::Array(items) if !items.is_empty() => match chance.below(4) {
            0 => items.clear(),
            1 => items.extend(items.clone()),
            _ => {
                let at = chance.below(items.len());
                change(&mut items[at], chance);
            }
        },
        Value::Number(_) => {
            const NUMBERS: [f64; 8] = [0.0, -0.0, -1.0, 1e308, -1e308, 5e-324, 1e15, 0.1];
            *value = match chance.below(3) {
                0 => Value::from(chance.0.next_u64() >> chance.below(64)),
                _ => Value::from(NUMBERS[chance.below(NUMBERS.len())]),
            };
        }
        Value::String(text) => {
            *text = ["", "x\u{0}\n\u{1b}[31m", "ü".repeat(300).as_str()][chance.below(3)].to_owned()
        }
        _ => *value = Value::from(1.5),
    }
}

/// What became of them.
#[derive(Debug, Default)]
struct Became {
    refused: u32,
    refused_by_the_store: u32,
    kept: u32,
}

fn all(tries: u32) -> Became {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Store::open(&folder.path().join("runs.db")).expect("a store");
    let mut chance = Chance(Xoshiro256PlusPlus::seed_from_u64(20_260_101));
    let whole: Document = serde_json::from_str(WHOLE).expect("a document");
    let mut became = Became::default();
    for _ in 0..tries {
        let Ok(documents) = documents::read(spoilt(&mut chance).as_slice(), "spoilt") else {
            became.refused += 1;
            continue;
        };
        for document in documents {
            let before = store.runs().expect("the runs").len();
            let mut counted = Counted::default();
            match keep(&mut store, &document, &mut counted) {
                Ok(()) => {
                    became.kept += 1;
                    let kept = store.document(&document.run.id, true).expect("it is whole");
                    let as_it_was = counted.new == 0 || kept.records == document.records;
                    assert!(as_it_was, "{document:?}");
                }
                Err(_) => {
                    became.refused_by_the_store += 1;
                    assert_eq!(store.runs().expect("the runs").len(), before, "half of one");
                }
            }
            shown(&document, &whole);
        }
    }
    became
}

/// Every view of it, of which none may panic.
fn shown(document: &Document, whole: &Document) {
    let layout = Layout::default();
    let _ = fathom_report::show(document, &layout);
    let _ = render(&compare(whole, document, &Noise::default(), 1), &layout);
    let documents = std::slice::from_ref(document);
    let _ = (export::jsonl(documents), export::csv(documents), export::openmetrics(documents));
}

#[test]
fn whatever_was_done_to_a_document_it_is_refused_or_kept_whole() {
    let tries = std::env::var("FATHOM_FUZZ").map_or(TRIES, |tries| tries.parse().expect("a count"));
    let (sender, receiver) = mpsc::channel();
    let worker = thread::spawn(move || {
        let became = all(tries);
        let _ = sender.send(());
        became
    });
    let ended = receiver.recv_timeout(BOUND * tries.div_ceil(TRIES));
    assert_ne!(ended, Err(mpsc::RecvTimeoutError::Timeout), "it hangs");
    let became = worker.join().expect("nothing panics");
    println!("{became:?}");
    assert!(became.refused > tries / 2 && became.kept > tries / 50, "{became:?}");
    if let Some(folder) = std::env::var_os("FATHOM_SOAK") {
        let Became { refused, refused_by_the_store, kept } = became;
        let section = format!(
            "## Documents that were spoilt\n\n{tries} documents, by seed: flipped bits, cut off, \
             parts missing or twice, other values, other types, numbers of thousands of digits, \
             nests of thousands. {refused} were refused when read, {refused_by_the_store} by the \
             store, {kept} kept whole and shown; no panic, no run kept in part.\n"
        );
        let path = std::path::Path::new(&folder).join("a-documents.md");
        std::fs::write(path, section).expect("a section");
    }
}
