//! `fathom file fast` as a person uses it: files, folders and patterns, and the same sums as
//! `file read` gives.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_fileio::{Generator, Sum};
use fathom_record::{Document, State};

use crate::{Place, is_refused, text};

fn write(path: &Path, seed: u64, length: usize) -> Sum {
    let mut bytes = vec![0; length];
    Generator::new(seed).fill(0, &mut bytes);
    fs::write(path, &bytes).expect("a file");
    Sum::of(&bytes)
}

fn name(path: &Path) -> &str {
    path.to_str().expect("a name in UTF-8")
}

#[test]
fn a_file_has_the_sums_that_reading_it_gives_by_every_path() {
    let place = Place::new();
    let path = place.path().join("data");
    let sum = write(&path, 3, 5_000_003);
    let ways: [&[&str]; 5] = [
        &[],
        &["--path", "pread"],
        &["--path", "mmap", "--threads", "3"],
        &["--path", "direct"],
        &["--path", "pread", "--block", "1000", "--repeat", "3"],
    ];
    for more in ways {
        let output = place.run(&[&["file", "fast", name(&path), "--json"], more].concat());
        if more.contains(&"direct") && output.status.code() == Some(2) {
            crate::group::skipped(text(&output.stderr).trim());
            continue;
        }
        let document: Document = serde_json::from_slice(&output.stdout).expect("a document");
        let record = &document.records[0];
        assert_eq!(record.metric.as_str(), "file.fast");
        assert_eq!(record.checks["XOR-32"], format!("{:08x}", sum.xor), "{more:?}");
        assert_eq!(record.checks["position sum"], format!("{:016x}", sum.position), "{more:?}");
        assert!(record.facts.iter().any(|fact| fact.name == "by"), "{:?}", record.facts);
    }
}

#[test]
fn a_folder_gives_a_line_for_each_file_and_leaves_out_what_is_none() {
    let place = Place::new();
    let folder = place.path().join("many");
    fs::create_dir_all(folder.join("deep")).expect("a folder");
    let mut sums = Vec::new();
    for number in 0..40_u64 {
        let deep = if number % 2 == 0 { "" } else { "deep/" };
        let path = folder.join(format!("{deep}{number:02}"));
        sums.push((name(&path).to_owned(), write(&path, number, 1000 * number as usize)));
    }
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("fifo"), 0o600.into()).expect("a fifo");
    let output = place.run(&["file", "fast", name(&folder)]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said} {}", text(&output.stderr));
    for (path, sum) in &sums {
        let line = said.lines().find(|line| line.ends_with(path.as_str())).expect("a line");
        let start = format!("{:08x} {:016x}", sum.xor, sum.position);
        assert!(line.starts_with(&start), "{line}");
    }
    assert!(said.contains("40 read") && said.contains("no regular file"), "{said}");
    let total: u64 = sums.iter().map(|(_, sum)| sum.bytes).sum();
    assert!(said.contains(&format!("{total} bytes")), "{said}");
    let pattern = format!("{}/*2", name(&folder));
    let said = text(&place.run(&["file", "fast", &pattern]).stdout);
    assert!(said.contains("4 read"), "{said}");
}

#[test]
fn an_empty_file_has_no_number_and_a_known_sum() {
    let place = Place::new();
    let path = place.path().join("empty");
    write(&path, 1, 0);
    let output = place.run(&["file", "fast", name(&path), "--json"]);
    let document: Document = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(document.records[0].verdict.state, State::Unavailable);
    assert_eq!(document.records[0].checks["XOR-32"], "00000000");
}

#[test]
fn the_share_of_the_ceiling_is_told_or_how_to_get_one() {
    let place = Place::new();
    let path = place.path().join("data");
    write(&path, 1, 1 << 20);
    let said = text(&place.run(&["file", "fast", name(&path)]).stdout);
    assert!(said.contains("fathom run memory.bandwidth"), "{said}");
    let said = text(&place.run(&["file", "fast", name(&path), "--ceiling", "50GB"]).stdout);
    assert!(said.contains("% of") && said.contains("--ceiling"), "{said}");
}

#[test]
fn holes_and_devices_without_an_end_are_told() {
    let place = Place::new();
    let path = place.path().join("holes");
    fs::File::create(&path).expect("a file").set_len(64 << 20).expect("a length");
    let said = text(&place.run(&["file", "fast", name(&path)]).stdout);
    assert!(said.contains("only 0 % of a file is data") && said.contains("noisy"), "{said}");
    assert!(!said.contains("from the device by"), "{said}");
    is_refused(&place.run(&["file", "fast", "/dev/zero"]), &["/dev/zero has no end"]);
}

#[test]
fn a_file_that_changes_between_passes_is_told() {
    let place = Place::new();
    let path = place.path().join("data");
    write(&path, 1, 64 << 20);
    let arguments = ["file", "fast", name(&path), "--repeat", "40", "--json"];
    let mut command = place.fathom(&arguments);
    let file = fs::File::options().write(true).open(&path).expect("it is there");
    let has_ended = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            let bytes = (0..=u8::MAX).cycle().take_while(|_| !has_ended.load(Ordering::Relaxed));
            for byte in bytes {
                std::os::unix::fs::FileExt::write_all_at(&file, &[byte], 5).expect("written");
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        });
        let output = command.output();
        has_ended.store(true, Ordering::Relaxed);
        output.expect("it starts")
    });
    let document: Document = serde_json::from_slice(&output.stdout).expect("a document");
    let record = &document.records[0];
    assert_eq!(record.verdict.state, State::Noisy);
    let told = |text: &str| record.verdict.reasons.iter().any(|one| one.text.contains(text));
    assert!(told("different content"), "{:?}", record.verdict);
}

#[test]
fn mistakes_are_one_line_with_what_helps() {
    let place = Place::new();
    let folder = place.path().join("nothing");
    fs::create_dir(&folder).expect("a folder");
    let folder = name(&folder);
    let cases: [(&[&str], &[&str]); 6] = [
        (&["missing"], &["missing", "No such file"]),
        (&["*.missing"], &["no file has a name like"]),
        (&[folder], &["no regular file in"]),
        (&[], &["FILE"]),
        (&["/dev/null", "--path", "fast"], &["pread", "mmap", "direct"]),
        (&["/dev/null", "--threads", "0"], &["1..=1024"]),
    ];
    for (arguments, parts) in cases {
        is_refused(&place.run(&[&["file", "fast"], arguments].concat()), parts);
    }
}

#[test]
fn one_file_that_cannot_be_read_ends_it_unless_told_to_go_on() {
    let place = Place::new();
    let good = place.path().join("good");
    let sum = write(&good, 1, 1000);
    let bad = "/proc/self/mem";
    let output = place.run(&["file", "fast", name(&good), bad, "missing", "--keep-going"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said} {}", text(&output.stderr));
    assert!(said.contains(&format!("{:08x}", sum.xor)), "{said}");
    assert!(said.contains("not read"), "{said}");
    assert!(text(&output.stderr).contains("missing: No such file"), "{}", text(&output.stderr));
}
