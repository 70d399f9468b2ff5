//! Files that people have, and what is right for each: `=== NAME`, the file, `--- `, its cases with
//! reasons and notes. Those of iperf3, criterion and JMH are of the tools themselves; those of k6
//! and oha are written from their documentation; the others are invented.

use std::collections::BTreeSet;

use fathom_import::{DocumentAbout, DocumentSource, Format, decoded, document};
use fathom_record::{Protocol, Tool};
use jiff::Timestamp;

const CASES: &str = include_str!("data/cases.txt");

fn file(name: &str) -> &'static str {
    let of = |section: &'static str| section.strip_prefix(name)?.strip_prefix('\n');
    let whole = CASES.split("=== ").find_map(of).expect(name);
    whole.split("--- ").next().unwrap_or_default()
}

/// What becomes of a file whose format is recognised.
fn read(text: &str) -> String {
    let Some(format) = Format::recognised(text) else { return "not recognised\n".to_owned() };
    let parsed = match format.parse(text) {
        Ok(parsed) => parsed,
        Err(error) => return format!("{}: {error}\n", format.name()),
    };
    let (label, host, written) = (None, None, Timestamp::UNIX_EPOCH);
    let about = DocumentAbout { format, tool: Tool::fixture(), label, host, written };
    let source = DocumentSource { name: "file".to_owned(), parsed };
    let run = document(&[source], &about).expect("one run");
    let mut lines = String::new();
    for record in &run.records {
        let value = record.number(Protocol::Median);
        let value = value.map_or_else(|| "-".to_owned(), |value| format!("{value}"));
        let samples = record.samples.iter().flatten();
        let counts: Vec<usize> = samples.map(|sample| sample.values.len()).collect();
        let (name, state, unit) =
            (record.name(), record.verdict.state.word(), record.unit.symbol());
        lines += &format!("{name} {state} {counts:?} {value} {unit}\n");
        let reasons = record.verdict.reasons.iter();
        lines.extend(reasons.map(|reason| format!("  {}\n", reason.text)));
    }
    let date = run.records[0].measured_by.as_ref().and_then(|by| by.date.clone());
    lines.extend(date.map(|date| format!("date: {date}\n")));
    lines + &run.run.notes.iter().map(|note| format!("note: {note}\n")).collect::<String>()
}

#[test]
fn each_file_has_its_cases_reasons_and_notes() {
    let mut count = 0;
    for section in CASES.split("=== ").skip(1) {
        let (name, rest) = section.split_once('\n').expect("a name");
        let (text, expected) = rest.split_once("--- \n").expect("what is right");
        assert_eq!(read(text), expected, "{name}");
        count += 1;
    }
    assert!(count >= 16, "{count} files");
}

#[test]
fn order_of_fields_encoding_and_other_output_change_nothing() {
    let (fio, google) = (file("fio-3.1.json"), file("google-benchmark-1.4.json"));
    // A map of serde_json is in the order of its keys.
    let sorted = |text: &str| {
        let value: serde_json::Value = serde_json::from_str(text).expect("JSON");
        serde_json::to_string_pretty(&value).expect("JSON")
    };
    let utf8 = |bytes: Vec<u8>| String::from_utf8(decoded(bytes, 1 << 20).0).expect("UTF-8");
    let utf16: Vec<u8> =
        format!("\u{feff}{google}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (text, plain, note) in [
        (sorted(fio), fio, ""),
        (sorted(google), google, ""),
        (utf8(format!("\u{feff}{google}").into_bytes()), google, ""),
        (utf8(utf16), google, ""),
        (format!("fio-3.36\nStarting 1 process\n{fio}\nrnd: (groupid=0)\n"), fio, ""),
        (fio.replace("\"iops\"", "\"bw_dev\": -nan, \"iops\""), fio, ""),
        (
            format!("fio: terminating on signal 2\n{fio}"),
            fio,
            "note: file: the run was interrupted: fio: terminating on signal 2\n",
        ),
        (
            format!("Running ./b\n***WARNING*** CPU scaling is enabled.\n{google}"),
            google,
            "note: file: printed before the results: ***WARNING*** CPU scaling is enabled.\n",
        ),
    ] {
        let lines = |text: String| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(lines(read(&text)), lines(read(plain) + note));
    }
    let client = fio.replace("\"jobs\"", "\"client_stats\"");
    let client =
        client.replace("\"jobname\": \"rnd\"", "\"hostname\": \"a\", \"jobname\": \"rnd\"");
    assert_eq!(
        read(&client),
        read(fio).replace("op=read", "client=a,op=read").replace("{op", "{client=a,op")
    );
}

/// The whole name is what `compare` pairs imported records by.
#[test]
fn quantities_of_one_benchmark_have_names_of_their_own() {
    let text = "pkg: example.org/shop/cart\nBenchmarkAdd-4 9 100 ns/op 7 B/op 2 allocs/op\n";
    let parsed = Format::Go.parse(text).expect("a benchmark");
    let (label, host, written) = (None, None, Timestamp::UNIX_EPOCH);
    let about = DocumentAbout { format: Format::Go, tool: Tool::fixture(), label, host, written };
    let source = DocumentSource { name: "file".to_owned(), parsed };
    let run = document(&[source], &about).expect("one run");
    let names: BTreeSet<_> = run.records.iter().map(|it| it.whole_name()).collect();
    assert_eq!((run.records.len(), names.len()), (3, 3), "{names:?}");
}
