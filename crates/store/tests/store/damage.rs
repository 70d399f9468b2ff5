//! Damage is detected and named.

use fathom_record::Effort;
use fathom_store::{Store, StoreError};
use rusqlite::Connection;

use crate::example;

const RUN: &str = "0000019514ab3c5d";

/// Changes the store with SQL, and reads it with samples, without samples, and as an outline.
fn read_after(sql: &str) -> [Result<(), StoreError>; 3] {
    let (_folder, path, store) = example::store_with(RUN, 3);
    drop(store);
    for sql in sql.split(';') {
        let changed = Connection::open(&path).unwrap().execute(sql, []).unwrap();
        assert!(changed > 0, "no row was changed: {sql}");
    }
    let store = Store::open_existing(&path).unwrap();
    let outline = match store.newest_of("bench-3", Effort::Quick, None, 9).unwrap() {
        (outlines, damaged) if damaged.is_empty() => {
            assert_eq!(outlines.len(), 1);
            Ok(())
        }
        // A damaged run is left out.
        (outlines, mut damaged) => {
            assert!(outlines.is_empty());
            Err(damaged.remove(0))
        }
    };
    let whole = |with_samples| store.document(RUN, with_samples).map(drop);
    [whole(true), whole(false), outline]
}

fn is_damaged(result: &Result<(), StoreError>, part: &str) {
    let error = result.as_ref().unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    let message = error.to_string();
    let expected = format!("read run {RUN}: {part} is damaged: ");
    assert!(message.starts_with(&expected), "{message}");
}

/// The damage is found in the whole record, and not in its headline, which has its own checksum.
fn is_damaged_body(damage: &str, record: u64) {
    let name = format!("file.read.throughput{{block={},mode=cold}}", record - 1);
    let damage = format!("UPDATE record SET body = {damage} WHERE number = {record}");
    let [with, without, outline] = read_after(&damage);
    is_damaged(&with, &name);
    is_damaged(&without, &name);
    outline.unwrap();
}

#[test]
fn changed_digit_in_a_record_is_detected() {
    is_damaged_body("replace(body, '\"n\":600', '\"n\":601')", 2);
}

#[test]
fn record_that_is_not_json_is_detected() {
    for damage in ["'{' || body", "''", "CAST(x'ff' || body AS TEXT)", "substr(body, 1, 90)"] {
        is_damaged_body(damage, 1);
    }
}

#[test]
fn damaged_headline_is_detected_in_an_outline() {
    for damage in [
        "unit = 'furlong'",
        "better = 'higher'",
        "state = 'noisy'",
        "value = value + 1e-12",
        "low = high",
        "high = NULL",
        "bound = 1",
        "cut_short = 1",
        "crc = crc + 1",
        "crc = -1",
    ] {
        let [with, without, outline] =
            read_after(&format!("UPDATE headline SET {damage} WHERE record = 1"));
        is_damaged(&outline, "file.read.throughput{block=0,mode=cold}");
        with.unwrap();
        without.unwrap();
    }
}

#[test]
fn headline_or_record_of_another_run_is_detected() {
    // Headline of another run is detected.
    let [.., outline] = read_after("UPDATE run SET id = '0000019514ab3c5e'");
    let message = outline.unwrap_err().to_string();
    assert!(message.starts_with("read run 0000019514ab3c5e: file.read"), "{message}");
    // Record under another name is detected.
    for result in &read_after("UPDATE record SET metric = 'os.syscall' WHERE number = 3") {
        is_damaged(result, "os.syscall{block=2,mode=cold}");
    }
}

#[test]
fn missing_headline_is_detected_in_an_outline() {
    let [with, without, outline] = read_after("DELETE FROM headline WHERE record = 2");
    is_damaged(&outline, "file.read.throughput{block=1,mode=cold}");
    with.unwrap();
    without.unwrap();
}

#[test]
fn changed_bit_is_detected_where_samples_are_read() {
    let [with, without, outline] = read_after(
        "UPDATE samples SET body = CAST(replace(CAST(body AS TEXT), '\"cpu\":1', '\"cpu\":3')
            AS BLOB) WHERE record = 2",
    );
    is_damaged(&with, "the samples of file.read.throughput{block=1,mode=cold}");
    without.unwrap();
    outline.unwrap();
}

#[test]
fn changed_fact_of_a_run_is_detected() {
    // Each change leaves valid JSON of the right shape.
    for (column, from, to) in
        [("tool", "0.1.0", "0.1.1"), ("body", "tsc", "hpet"), ("host", "6.12.9", "6.12.8")]
    {
        let sql = format!(
            "UPDATE run SET {column} = replace({column}, '{from}', '{to}')
             WHERE {column} LIKE '%{from}%'"
        );
        for result in &read_after(&sql) {
            is_damaged(result, "the row of the run");
        }
    }
}

#[test]
fn text_that_is_not_utf8_damages_its_run_only() {
    for column in ["id", "started", "host_name", "kernel", "body", "host", "boot_id"] {
        let (_folder, path, store) = example::store_with(RUN, 3);
        drop(store);
        drop(example::store_at(&path, "0000019514ab3c5e", 3));
        let sql = format!("UPDATE run SET {column} = CAST(x'22ff22' AS TEXT) WHERE id = '{RUN}'");
        assert_eq!(Connection::open(&path).unwrap().execute(&sql, []).unwrap(), 1);
        let store = Store::open_existing(&path).unwrap();
        assert_eq!(store.runs().unwrap().len(), 2, "{column}");
        let (runs, damaged) = store.history("file.read.throughput").unwrap();
        assert_eq!(runs.len() + damaged.len(), 2, "{column}");
        assert!(runs.iter().any(|run| run.run.id == "0000019514ab3c5e"), "{column}");
        let lines = damaged.iter().map(|error| error.to_string().lines().count());
        assert!(lines.max().unwrap_or(1) == 1, "{column}");
    }
}

#[test]
fn torn_database_is_reported_as_corrupt() {
    let (_folder, path, store) = example::store_with(RUN, 20);
    drop(store);
    let mut bytes = std::fs::read(&path).unwrap();
    for byte in &mut bytes[4096..] {
        *byte = 0xa5;
    }
    std::fs::write(&path, bytes).unwrap();
    let read = Store::open_existing(&path).and_then(|store| store.document(RUN, true));
    let error = read.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}
