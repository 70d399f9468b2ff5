//! `fathom file fast` as a person uses it: files, folders and patterns, and the same sums as
//! `file read` gives.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_fileio::Sum;
use fathom_record::{Document, State};

use crate::place::{ends_with, generated, json, says, text_of};
use crate::{Place, fails, text};

fn write(path: &Path, seed: u64, length: usize) -> Sum {
    let bytes = generated(seed, length);
    fs::write(path, &bytes).expect("a file");
    Sum::of(&bytes)
}

#[test]
fn a_file_has_the_sums_that_reading_it_gives_by_every_path() {
    let place = Place::new();
    let path = place.path().join("data");
    let sum = write(&path, 3, 5_000_003);
    for more in [
        "",
        "--path pread",
        "--path mmap --threads 3",
        "--path direct",
        "--path pread --block 1000 --repeat 3",
    ] {
        let output = place.ask(&format!("file fast {} --json {more}", path.display()));
        if more.contains("direct") && output.status.code() == Some(2) {
            crate::group::skipped(text(&output.stderr).trim());
            continue;
        }
        let document: Document = json(&output);
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
        sums.push((text_of(&path).to_owned(), write(&path, number, 1000 * number as usize)));
    }
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("fifo"), 0o600.into()).expect("a fifo");
    let said = place.said(&format!("file fast {}", folder.display()));
    for (path, sum) in &sums {
        let line = said.lines().find(|line| line.ends_with(path.as_str())).expect("a line");
        let start = format!("{:08x} {:016x}", sum.xor, sum.position);
        assert!(line.starts_with(&start), "{line}");
    }
    assert!(said.contains("40 read") && said.contains("not a regular file"), "{said}");
    let total: u64 = sums.iter().map(|(_, sum)| sum.bytes).sum();
    assert!(said.contains(&format!("{total} bytes")), "{said}");
    let pattern = place.ask(&format!("file fast {}/*2", folder.display()));
    says(&text(&pattern.stdout), &["4 read"]);
}

#[test]
fn an_empty_file_has_no_number_and_a_known_sum() {
    let place = Place::new();
    let path = place.path().join("empty");
    write(&path, 1, 0);
    let document: Document = json(&place.run(&["file", "fast", text_of(&path), "--json"]));
    assert_eq!(document.records[0].verdict.state, State::Unavailable);
    assert_eq!(document.records[0].checks["XOR-32"], "00000000");
}

#[test]
fn the_share_of_the_ceiling_is_told_or_how_to_get_one() {
    let place = Place::new();
    let path = place.path().join("data");
    write(&path, 1, 1 << 20);
    let fast = format!("file fast {}", path.display());
    says(&text(&place.ask(&fast).stdout), &["fathom run memory.bandwidth"]);
    let share = place.ask(&format!("{fast} --ceiling 50GB"));
    says(&text(&share.stdout), &["% of", "--ceiling"]);
}

#[test]
fn holes_and_devices_without_an_end_are_told() {
    let place = Place::new();
    let path = place.path().join("holes");
    fs::File::create(&path).expect("a file").set_len(64 << 20).expect("a length");
    let said = text(&place.run(&["file", "fast", text_of(&path)]).stdout);
    assert!(said.contains("only 0 % of a file is data") && said.contains("noisy"), "{said}");
    assert!(!said.contains("from the device,"), "{said}");
    fails(&place.run(&["file", "fast", "/dev/zero"]), &["/dev/zero has no end"]);
}

#[test]
fn a_file_that_changes_between_passes_is_told() {
    let place = Place::new();
    let path = place.path().join("data");
    write(&path, 1, 64 << 20);
    let mut command = place.asked(&format!("file fast {} --repeat 40 --json", path.display()));
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
    let document: Document = json(&output);
    let record = &document.records[0];
    assert_eq!(record.verdict.state, State::Noisy);
    let told = |text: &str| record.verdict.reasons.iter().any(|one| one.text.contains(text));
    assert!(told("different content"), "{:?}", record.verdict);
}

#[test]
fn mistakes_are_one_line_with_what_helps() {
    let place = Place::new();
    fs::create_dir(place.file("nothing")).expect("a folder");
    let table = format!(
        "missing | missing | No such file
        *.missing | no file matches
        {} | no regular file in",
        place.name("nothing")
    );
    place.fails("file fast", &table);
    let usage = "| FILE
        [ | pattern [
        /dev/null --path fast | pread | mmap | direct
        /dev/null --threads 0 | 1..=1024";
    place.refuses("file fast", usage);
}

#[test]
fn one_file_that_cannot_be_read_ends_it_unless_told_to_go_on() {
    let place = Place::new();
    let good = place.path().join("good");
    let sum = write(&good, 1, 1000);
    let bad = "/proc/self/mem";
    let fast = format!("file fast {} {bad} missing --keep-going", good.display());
    let output = place.ask(&fast);
    ends_with(&output, 1);
    says(&text(&output.stdout), &[&format!("{:08x}", sum.xor), "not read"]);
    says(&text(&output.stderr), &["missing: No such file"]);
}
