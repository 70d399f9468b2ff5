//! The output of procedures.

use fathom_record::{Fact, NoModel, Params, Record, State, Unit, Verdict};
use fathom_report::by_hand::{findings, group};

use crate::assert_titled;
use crate::fixture::{self};

fn read(block: i64, threads: i64, rate: f64) -> Record {
    let params = Params::one("block", block).and("state", "warm").and("threads", threads);
    let params = params.and("way", "read").and("file_bytes", 1 << 20);
    let unit = Unit::BytesPerSecond;
    let mut record = fixture::measured("file.read.throughput", params, unit, rate, 0.01);
    record.facts = vec![
        Fact::text("file", "/data/a: 1 MiB on ext4"),
        Fact::quantity("time", 1e9, Unit::Nanoseconds),
        Fact::quantity("bytes", 1_048_576.0, Unit::Bytes),
        Fact::text("XOR-32", "0badcafe"),
    ];
    record
}

#[test]
fn removed_fact_removes_its_line() {
    let record = read(4096, 1, 1e9);
    let whole = group(std::slice::from_ref(&record), &[], 100);
    for fact in &record.facts {
        assert!(whole.contains(&fact.name), "{}: {whole}", fact.name);
    }
    for at in 0..record.facts.len() {
        let mut less = record.clone();
        let gone = less.facts.remove(at);
        let text = group(&[less], &[], 100);
        assert!(!text.lines().any(|line| line.starts_with(&gone.name)), "{}: {text}", gone.name);
    }
    for changed in [
        Record { summary: None, ..record.clone() },
        Record { verdict: Verdict { state: State::Noisy, ..Verdict::default() }, ..record.clone() },
        Record { no_model: Some(NoModel::SpeedOfDevice), ..record.clone() },
    ] {
        assert_ne!(group(&[changed], &[], 100), whole);
    }
}

#[test]
fn invalid_record_shows_no_rate() {
    let mut record = read(4096, 1, 1e9);
    record.facts.push(Fact::quantity("calls", 1234.0, Unit::PerSecond));
    record.facts.push(Fact::quantity("deviation", 5678.0, Unit::Nanoseconds));
    record.verdict.state = State::Invalid;
    let alone = group(std::slice::from_ref(&record), &[], 100);
    assert!(!alone.contains("iB/s") && !alone.contains("1234"), "{alone}");
    assert!(!alone.contains("5.678"), "a time gives the rate: {alone}");
    let table = group(&[record, read(8192, 1, 2e9)], &[], 100);
    assert!(!table.contains("954") && table.contains("1907"), "{table}");
    assert!(!table.contains("5.678"), "{table}");
}

fn three() -> [Record; 3] {
    [read(4096, 1, 1e9), read(65_536, 1, 2e9), read(1 << 20, 1, 1.9e9)]
}

/// Of the third there is no rate of dd, and the second is invalid.
fn beside_dd() -> [Record; 3] {
    let mut records = three();
    for record in &mut records[..2] {
        record.facts.push(Fact::quantity("dd", 2e9, Unit::BytesPerSecond));
    }
    records[1].verdict.state = State::Invalid;
    records
}

fn dip(state: State) -> [Record; 3] {
    let mut records = three();
    records[1] = read(65_536, 1, 0.2e9);
    records[1].verdict.state = state;
    records
}

#[test]
fn reads_have_their_columns_and_remarks() {
    let gib = f64::from(1 << 30);
    let outside = read(4096, 1, gib / 8.0).predicted(2.0 * gib, 0.0, 0.1);
    let text = [
        ("a prediction", group(&[outside.clone(), read(8192, 1, gib)], &[], 80)),
        ("a prediction alone", group(&[outside], &[], 80)),
        ("beside dd", group(&beside_dd(), &[], 80)),
        ("after the first was printed", group(&three(), &three()[..1], 80)),
        ("a dip", group(&dip(State::Valid), &[], 80)),
        ("a noisy dip", group(&dip(State::Noisy), &[], 80)),
    ];
    assert_titled("reads.txt", &text);
}

#[test]
fn wide_table_continues_below_with_its_first_columns() {
    let mut records = three();
    for (at, record) in records.iter_mut().enumerate() {
        let facts = ["first", "second", "third", "fourth", "fifth"]
            .map(|name| Fact::text(&format!("the {name} fact"), format!("of row {at}: {name}")));
        record.facts.extend(facts);
    }
    let rows = |width| {
        let text = group(&records, &[], width);
        fixture::assert_fits(&text, width);
        assert!(text.contains("of row 2: fifth"), "{text}");
        text.lines().filter(|line| line.trim_start().starts_with("64 KiB")).count()
    };
    assert!(rows(140) == 1 && rows(80) == 2);
}

#[test]
fn findings_name_best_block_and_paying_threads() {
    let rates = [(4096, 1e9), (65_536, 1.96e9), (1 << 20, 2e9)];
    let mut records: Vec<Record> = rates.map(|(block, rate)| read(block, 1, rate)).into();
    let host = fathom_record::Host::default();
    let text = findings(&records, &host, 200);
    assert!(text.contains("95 % of it from 64 KiB"), "{text}");
    assert!(!text.contains("threads pay"), "{text}");
    records.extend(rates.map(|(block, rate)| read(block, 2, 1.5 * rate)));
    let text = findings(&records, &host, 200);
    assert!(text.contains("2 threads pay off from 4 KiB"), "{text}");
    assert_eq!(findings(&records[..1], &host, 200), "", "one read is not a curve");
}

#[test]
fn caching_matters_from_a_block_size() {
    let text = |ratios: &[(i64, f64)]| {
        let record = |(block, ratio): &(i64, f64)| {
            let params = Params::one("block", *block).and("file_bytes", 1 << 30);
            fixture::measured("file.cache.speedup", params, Unit::Ratio, *ratio, 0.01)
        };
        let records: Vec<Record> = ratios.iter().map(record).collect();
        findings(&records, &fathom_record::Host::default(), 200)
    };
    assert!(text(&[(4096, 1.2), (65536, 1.5), (1 << 20, 4.0)]).contains("matters from 64 KiB"));
    assert!(text(&[(4096, 1.2), (65536, 1.49)]).contains("does not matter up to 64 KiB"));
    assert!(text(&[(4096, 2.0), (65536, 1.2)]).contains("no clear block size"));
    assert_eq!(text(&[]), "");
}
