//! Changes one byte of a saved result, which must then be rejected; an intact one must not.

use std::process::{Command, Output};

use anyhow::{Context as _, Result};
use fathom_lab::seeded::Seeded;

use super::guard::NoGuard;
use super::halves;
use super::program::{Launch, ProgramBench};
use super::table::{SabotageOutcome, SabotageRow};

pub(super) const NAMES: [&str; 2] = ["damaged document", "damaged store"];

/// Damages the file of this name in half of the runs.
pub(super) fn rows(
    bench: &ProgramBench,
    name: &str,
    runs: u32,
    random: &mut Seeded,
) -> Result<Vec<SabotageRow>> {
    // A store with one run only, which `show` prints.
    for file in ["fathom.db", "fathom.db-wal", "fathom.db-shm"] {
        let _ = std::fs::remove_file(bench.folder.path().join(file));
    }
    bench.run("cpu.frequency", &Launch::default(), &mut NoGuard)?;
    // Without raw samples, which the checksum does not cover.
    let mut show = Command::new(&bench.program);
    let shown = show.args(["show", "--json", "--store"]).arg(bench.folder.path().join("fathom.db"));
    std::fs::write(bench.folder.path().join("plain.json"), shown.output()?.stdout)?;
    let one = if name == NAMES[0] { document } else { store };
    halves(random, runs).into_iter().map(|sabotaged| one(bench, sabotaged, random)).collect()
}

fn document(bench: &ProgramBench, sabotaged: bool, random: &mut Seeded) -> Result<SabotageRow> {
    let folder = bench.folder.path();
    let (good, bad) = (folder.join("plain.json"), folder.join("damaged.json"));
    let (bytes, dose) = flipped(&std::fs::read(&good)?, sabotaged, random)?;
    std::fs::write(&bad, bytes)?;
    let output = Command::new(&bench.program).arg("compare").args([&bad, &good]).output()?;
    let messages = ["checksum", "fathom export"];
    Ok(row(NAMES[0], dose, sabotaged, &output, &messages))
}

fn store(bench: &ProgramBench, sabotaged: bool, random: &mut Seeded) -> Result<SabotageRow> {
    let folder = bench.folder.path();
    let damaged = folder.join("damaged.db");
    let mut bytes = std::fs::read(folder.join("fathom.db"))?;
    let mut dose = String::new();
    if sabotaged {
        // A digit of the median in the record's JSON.
        let start = find(&bytes, b"\"median\":").context("no record in the store")? + 9;
        let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let at = start + random.below(digits as u64) as usize;
        bytes[at] = if bytes[at] == b'9' { b'1' } else { bytes[at] + 1 };
        dose = format!("byte {at}");
    }
    std::fs::write(&damaged, bytes)?;
    let mut show = Command::new(&bench.program);
    let output = show.args(["show", "--json", "--store"]).arg(&damaged).output()?;
    Ok(row(NAMES[1], dose, sabotaged, &output, &["damaged"]))
}

fn row(
    name: &str,
    dose: String,
    sabotaged: bool,
    output: &Output,
    messages: &[&str],
) -> SabotageRow {
    let errors = String::from_utf8_lossy(&output.stderr);
    let message = messages.iter().find(|part| errors.contains(**part));
    let is_read = output.status.success();
    let outcome = match sabotaged {
        true if !is_read && message.is_some() => SabotageOutcome::Right,
        true => SabotageOutcome::Wrong,
        false if is_read => SabotageOutcome::Right,
        false => SabotageOutcome::FalseAlarm,
    };
    SabotageRow {
        sabotage: name.to_owned(),
        sabotaged,
        dose,
        verdict: if is_read { "read" } else { "rejected" }.to_owned(),
        cause: message.map_or("-", |part| part).to_owned(),
        outcome,
        ..SabotageRow::default()
    }
}

/// The document with one bit of one record value flipped, such that its content differs.
fn flipped(document: &[u8], sabotaged: bool, random: &mut Seeded) -> Result<(Vec<u8>, String)> {
    let content: serde_json::Value = serde_json::from_slice(document)?;
    let places = values(document, find(document, b"\"records\"").context("no records")?);
    for _ in 0..if sabotaged { 1000 } else { 0 } {
        let at = places[random.below(places.len() as u64) as usize];
        let bit = random.below(6);
        let mut bytes = document.to_vec();
        bytes[at] ^= 1 << bit;
        if serde_json::from_slice::<serde_json::Value>(&bytes).ok().as_ref() != Some(&content) {
            return Ok((bytes, format!("byte {at}, bit {bit}")));
        }
    }
    Ok((document.to_vec(), String::new()))
}

/// Positions of the bytes of string and number values, not of names, from a position on.
fn values(document: &[u8], from: usize) -> Vec<usize> {
    let mut places = Vec::new();
    let mut at = from;
    while at < document.len() {
        let start = at;
        match document[at] {
            b'"' => {
                at += 1;
                while at < document.len() && document[at] != b'"' {
                    at += if document[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
                if document.get(at) != Some(&b':') {
                    places.extend(start + 1..at - 1);
                }
            }
            b'0'..=b'9' => {
                while document.get(at).is_some_and(u8::is_ascii_digit) {
                    at += 1;
                }
                places.extend(start..at);
            }
            _ => at += 1,
        }
    }
    places
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_values() {
        let text = br#"{"records":[{"a":"x\"y","b":12.5}]}"#;
        let shown: Vec<u8> = values(text, 0).into_iter().map(|at| text[at]).collect();
        assert_eq!(shown, br#"x\"y125"#);
    }
}
