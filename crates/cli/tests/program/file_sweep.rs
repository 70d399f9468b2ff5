//! `fathom file size`, `sweep` and `cache`: what they print and keep, what they refuse, and that
//! nothing is left of their files, however they end.

use std::io::Write;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use fathom_record::{Document, Record, RunState, State};
use rustix::process::Signal;

use crate::children::{is_interrupted, piped, signalled, started};
use crate::forbidden::within;
use crate::group::skipped;
use crate::place::{Folder, ends_with, json, median, of_metric, says, unwrapped};
use crate::{Place, fails, text};

fn reads(document: &Document) -> Vec<&Record> {
    of_metric(document, "file.read.throughput")
}

#[test]
fn a_size_is_found_recorded_and_held_against_what_was_foretold() {
    let (place, folder) = (Place::new(), Folder::new());
    let size = "file size --block 256 --between 20ms..400ms --json";
    let output = place.ask(&format!("{size} --folder {}", folder.name()));
    ends_with(&output, 0);
    let document = json(&output);
    let [found] = of_metric(&document, "file.reasonable_size")[..] else {
        panic!("{:?}", document.records)
    };
    assert!(found.verdict.shows_number(), "{:?}", found.verdict);
    assert_eq!(median(found) % 256.0, 0.0, "whole blocks");
    assert_eq!(found.params.integer("from_ms"), Some(20));
    // Nothing was known before: a short read was made, and from it the size foretold.
    let calibration = reads(&document)[0];
    let prediction = found.prediction.as_ref().expect("a prediction");
    let wanted = median(calibration) * (0.02 * 0.4_f64).sqrt();
    assert!((prediction.value.expect("a value") / wanted - 1.0).abs() < 1e-9, "{prediction:?}");
    assert!(found.checks["tried"].contains("iB/s"), "{:?}", found.checks);
    assert!(folder.is_empty());
    let history = place.run(&["history", "file.reasonable_size"]);
    assert!(text(&history.stdout).contains("file.reasonable_size"), "{}", text(&history.stderr));
}

#[test]
fn on_a_terminal_much_is_written_only_after_a_yes() {
    let (place, folder) = (Place::new(), Folder::new());
    let asked = |answer: &str, more: &str| {
        let size = "file size --block 64K --max 2GiB --between 1ms..1000s";
        let line = format!("{} {size} {more}", env!("CARGO_BIN_EXE_fathom"));
        let mut terminal = Command::new("script");
        terminal.args(["-qec", &line, "/dev/null"]).env("FATHOM_STORE", place.store());
        terminal.current_dir(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = terminal.spawn().ok()?;
        child.stdin.take().expect("a pipe").write_all(answer.as_bytes()).expect("it listens");
        let output = child.wait_with_output().expect("it ends");
        Some((output.status.code(), text(&output.stdout)))
    };
    let Some((status, said)) = asked("n\n", "") else {
        return skipped("a terminal needs script of util-linux");
    };
    assert!(said.contains("Go on? [y/N]") && said.contains("aborted"), "{said}");
    assert_eq!(status, Some(130));
    let (status, said) = asked("y\n", "").expect("it was there");
    assert!(said.contains("Go on? [y/N]") && said.contains("found"), "{said}");
    assert_eq!(status, Some(0));
    let (status, said) = asked("", "--yes").expect("it was there");
    assert!(!said.contains("Go on?") && said.contains("found"), "{said}");
    assert_eq!(status, Some(0));
}

#[test]
fn that_no_size_fits_is_an_answer_with_its_figures() {
    let (place, folder) = (Place::new(), Folder::new());
    let size = "file size --block 64K --max 300K --between 5s..15s --folder";
    let output = place.ask(&format!("{size} {}", folder.name()));
    let said = unwrapped(&output);
    ends_with(&output, 3);
    let why = "no size fits: 256 KiB (--max)";
    says(&said, &["writes 300 KiB at most", why, "would need"]);
    let document = place.latest();
    let [none] = of_metric(&document, "file.reasonable_size")[..] else { panic!("{said}") };
    assert_eq!(none.verdict.state, State::Unavailable);
    // Even a block takes too long.
    let output = place.ask("file size --block 64M --between 1ms..2ms --max 64M");
    ends_with(&output, 3);
    says(&unwrapped(&output), &["even one block of 64 MiB"]);
}

#[test]
fn the_file_that_is_found_may_be_kept_and_replaces_none() {
    let (place, folder) = (Place::new(), Folder::new());
    let size = "file size --block 4K --between 1ms..10s --keep kept --folder";
    let run = || place.ask(&format!("{size} {}", folder.name()));
    ends_with(&run(), 0);
    let kept = std::fs::metadata(folder.path().join("kept")).expect("the file").len();
    let document = place.latest();
    assert_eq!(kept as f64, median(of_metric(&document, "file.reasonable_size")[0]));
    fails(&run(), &["kept exists"]);
    place.refuses("file size --block 4K", "--keep a/b | --keep a/b | --folder");
}

#[test]
fn a_sweep_reads_each_point_in_its_state_and_keeps_all_of_them() {
    let (place, folder) = (Place::new(), Folder::new());
    let path = folder.file("data", 3_000_000);
    let points = "--blocks 512,4K,64K,8M --threads 1,2 --state warm,cold";
    let sweep = format!("file sweep {path} {points} --each 10ms --passes 6 --json --samples");
    let output = place.ask(&sweep);
    ends_with(&output, 0);
    let document = json(&output);
    let reads = reads(&document);
    assert_eq!(reads.len(), 4 * 2 * 2, "blocks, threads and states");
    for record in &reads {
        assert!(record.verdict.shows_number(), "{}: {:?}", record.name(), record.verdict);
        assert_eq!(record.params.integer("file_bytes"), Some(3_000_000));
        let threads = record.params.integer("threads");
        let way = if threads == Some(1) { "read" } else { "pread" };
        assert_eq!(record.params.text("way"), Some(way));
        let word = record.params.text("state").expect("a state").to_uppercase();
        let proof = &record.checks["in memory before"];
        assert!(proof.starts_with(&word), "{}: {proof}", record.name());
        let samples = record.samples.as_ref().expect("they were asked for");
        assert_eq!(samples[0].values.len(), 6, "a value for each pass");
    }
    // What reads all of the file reads the same, whatever the block, the state and the threads.
    let whole = |record: &&&Record| record.checks["bytes"] == "3000000";
    let sums: Vec<&String> =
        reads.iter().filter(whole).map(|record| &record.checks["XOR-32"]).collect();
    assert!(sums.len() >= 4 && sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    let said = unwrapped(&place.run(&["show"]));
    assert!(said.contains("95 % of it") && said.contains("2 threads"), "{said}");
}

#[test]
fn files_of_one_size_and_temporary_files_of_many_are_all_kept() {
    let (place, folder) = (Place::new(), Folder::new());
    let [a, b] = ["a", "b"].map(|name| folder.file(name, 100_000));
    let quick = "file sweep --blocks 4K --threads 1 --state warm --each 1ms --json";
    let output = place.ask(&format!("{quick} {a} {b}"));
    ends_with(&output, 0);
    assert_eq!(reads(&json(&output)).len(), 2);
    let emptied = Folder::new();
    let sizes = format!("{quick} --sizes 100K..400K --folder {}", emptied.name());
    let output = place.ask(&sizes);
    ends_with(&output, 0);
    let document = json(&output);
    let sizes =
        reads(&document).into_iter().map(|one| one.params.integer("file_bytes").unwrap_or(0));
    assert_eq!(sizes.collect::<Vec<i64>>(), [100 << 10, 200 << 10, 400 << 10]);
    assert!(emptied.is_empty());
}

#[test]
fn a_sized_sweep_finds_its_file_first() {
    let (place, folder) = (Place::new(), Folder::new());
    let sized = "file sweep --sized --block 1000 --between 10ms..500ms --blocks 100,4K";
    let each = "--state warm --threads 1 --each 1ms --json --folder";
    let output = place.ask(&format!("{sized} {each} {}", folder.name()));
    ends_with(&output, 0);
    let document = json(&output);
    let found = median(of_metric(&document, "file.reasonable_size")[0]) as i64;
    let of_file = |record: &&&Record| record.params.integer("file_bytes") == Some(found);
    let blocks = reads(&document);
    let blocks: Vec<i64> =
        blocks.iter().filter(of_file).filter_map(|one| one.params.integer("block")).collect();
    assert!(blocks.ends_with(&[100, 1000, 4096]), "{blocks:?}");
}

#[test]
fn curves_are_tables_and_drawn_where_there_is_room() {
    let (place, folder) = (Place::new(), Folder::new());
    let path = folder.file("data", 1 << 20);
    let line = format!("file sweep {path} --blocks 512..64K --threads 1 --state warm --each 1ms");
    let sweep = |columns: &str| {
        let output = place.asked(&line).env("COLUMNS", columns).output().expect("it starts");
        ends_with(&output, 0);
        text(&output.stdout)
    };
    let (narrow, wide) = (sweep("80"), sweep("120"));
    for said in [&narrow, &wide] {
        let is_row =
            |line: &&str| line.trim_start().split(' ').nth(1).is_some_and(|it| it.ends_with('B'));
        assert!(said.lines().filter(is_row).count() >= 6, "{said}");
        says(said, &["state=warm threads=1 way=read", "t = calls × "]);
    }
    assert!(!narrow.contains("both by powers of two"), "{narrow}");
    assert!(wide.contains("file.read.throughput in ") && wide.contains(" over block"), "{wide}");
}

#[test]
fn dd_is_run_on_the_same_points_and_named_with_its_package_where_it_is_not() {
    let (place, folder) = (Place::new(), Folder::new());
    let path = folder.file("data", 32 << 20);
    let points = "--blocks 4K,64K --threads 1 --state warm --each 20ms";
    let sweep = format!("file sweep {path} {points} --with-dd");
    let output = place.ask(&sweep);
    let said = text(&output.stdout);
    assert!(said.contains("ours ÷ dd"), "{said}{}", text(&output.stderr));
    let row = said.lines().find(|line| line.trim_start().starts_with("64 KiB")).expect("a row");
    let ratio: f64 = row.split_whitespace().last().and_then(|it| it.parse().ok()).expect("a ratio");
    assert!(ratio > 0.01 && ratio < 100.0, "{row}");
    let output = place.asked(&sweep).env("PATH", "/nowhere").output().expect("it starts");
    ends_with(&output, 0);
    assert!(text(&output.stderr).contains("coreutils"), "{}", text(&output.stderr));
    assert!(!text(&output.stdout).contains("ours ÷ dd"));
}

#[test]
fn the_cache_is_told_by_reads_one_after_the_other_each_with_its_proof() {
    let (place, folder) = (Place::new(), Folder::new());
    let path = folder.file("data", 4 << 20);
    let said = place.said(&format!("file cache {path} --blocks 4K,1M --rounds 6"));
    let proofs = |word: &str| said.lines().filter(|line| line.contains(word)).count();
    assert_eq!(proofs(" COLD: 0 B of 4 MiB"), 2, "{said}");
    assert_eq!(proofs(" WARM: 4 MiB of 4 MiB"), 4, "{said}");
    assert!(said.contains("file.cache.speedup") && said.contains("matter"), "{said}");
    let document = place.latest();
    let values = |record: &Record| record.samples.as_ref().expect("kept")[0].values.len();
    let states: Vec<(Option<&str>, usize)> =
        reads(&document).iter().map(|one| (one.params.text("state"), values(one))).collect();
    let [cold, warm] = [(Some("cold"), 6), (Some("warm"), 6)];
    assert_eq!(states, [cold, warm, warm, cold, warm, warm]);
    let speedups = of_metric(&document, "file.cache.speedup");
    assert_eq!(speedups.iter().map(|one| values(one)).collect::<Vec<_>>(), [6, 6]);
}

#[test]
fn what_lies_in_memory_is_never_cold() {
    let Some(memory) = Folder::in_memory() else { return };
    let path = memory.file("data", 100_000);
    let place = Place::new();
    let document = json(&place.ask(&format!("file cache {path} --blocks 4K --json")));
    let cold = reads(&document)[0];
    assert_eq!(cold.verdict.state, State::Invalid, "{:?}", cold.verdict);
    assert!(cold.verdict.reasons[0].text.contains("not on a device"), "{:?}", cold.verdict);
    let sweep = format!("file sweep {path} --state cold --blocks 4K --threads 1 --each 1ms");
    let said = text(&place.ask(&sweep).stdout);
    says(&said, &["invalid", "requested cold"]);
    assert!(!said.contains("iB/s"), "a number all the same: {said}");
}

#[test]
fn a_file_that_no_memory_holds_is_not_warmed() {
    let (place, folder) = (Place::new(), Folder::new());
    let path = folder.path().join("large");
    let large = std::fs::File::create(&path).expect("a file");
    if large.set_len(1 << 43).is_err() {
        return skipped("no file of 8 TiB can be had here");
    }
    let sweep = format!("file sweep {}/large --state warm --blocks 64K", folder.name());
    let mut child = piped(place.asked(&sweep));
    // To read it all would take the better part of an hour.
    let status = fathom_lab::processes::ended_within(&mut child, 30).expect("it ends at once");
    let output = child.wait_with_output().expect("it has ended");
    assert_eq!(status.code(), Some(3));
    let said = text(&output.stderr);
    assert!(said.contains("skipped: 8 TiB exceed the available memory"), "{said}");
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let (place, folder) = (Place::new(), Folder::new());
    let (empty, data) = (folder.file("empty", 0), folder.file("data", 1000));
    let here = folder.name();
    let table = format!(
        "sweep {here}/gone | gone | No such file
        sweep {here} | is a directory
        sweep {empty} | is empty
        sweep /dev/zero | /dev/zero | no end
        sweep --sizes 1000TiB | half of the free space | --folder
        sweep --folder {data} | --folder | not a directory
        sweep --folder {here}/gone | gone | No such file
        cache {empty} | empty | has no size
        cache {here}/gone | No such file
        cache {here} | is a directory"
    );
    place.fails("file", &table);
    let table = format!(
        "sweep {data} --blocks 4K..1K | `4K..1K`: expected a range
        sweep {data} --blocks 4K,,8K | ``: expected a size
        sweep {data} --blocks 0,4K | `0`: expected a block of 1 to
        sweep {data} --blocks 2GiB | expected a block of 1 to
        sweep {data} --state wram | wram | warm
        sweep {data} --threads 0 | 0 is not in 1..=1024
        sweep {data} --sizes 1M | cannot be used with
        sweep --sizes 0,1M | files of at least 1 byte
        cache | required
        cache {data} --rounds 0 | 0 is not in
        size | --block
        size --block 4K --between 5s..6s | at least twice
        size --block 4K --between 0.1ms..2ms | below 1ms
        size --block 4K --max 1K | --max 1 KiB | one block of 4 KiB
        size --block 4K --state as-is | as-is of a new file"
    );
    place.refuses("file", &table);
}

#[test]
fn what_may_not_be_read_is_refused() {
    let place = Place::new();
    let folder = Folder::new();
    let path = folder.file("data", 1000);
    let shut = std::os::unix::fs::PermissionsExt::from_mode(0o000);
    std::fs::set_permissions(&path, shut).expect("it is ours");
    let mut command = place.asked(&format!("file sweep {path}"));
    if rustix::process::geteuid().is_root() {
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).expect("it is ours");
        command.uid(65534);
    }
    match command.output() {
        Ok(output) => fails(&output, &["data", "Permission denied"]),
        Err(error) => skipped(&format!("nobody may start the program here: {error}")),
    }
}

/// A sweep that takes minutes, but for the folder.
const LONG: &str = "file sweep --sizes 8MiB --blocks 64..64K --state cold --each 200ms \
    --passes 1000 --folder";

#[test]
fn ctrl_c_ends_a_sweep_keeps_what_was_read_and_leaves_no_file() {
    let (place, folder) = (Place::new(), Folder::new());
    let child = started(&place, &format!("{LONG} {}", folder.name()), "temporary");
    // Until some points were read; all of them take minutes.
    std::thread::sleep(std::time::Duration::from_secs(2));
    is_interrupted(child, Signal::INT);
    assert!(folder.is_empty());
    let document = place.latest();
    assert_eq!(document.run.state, RunState::Interrupted);
    let kept = reads(&document);
    assert!(!kept.is_empty(), "what was read is kept");
    assert!(kept.iter().all(|record| record.verdict.state != State::Valid), "it is no whole sweep");
}

#[test]
fn ctrl_c_ends_a_search_for_a_size_and_leaves_no_file() {
    let (place, folder) = (Place::new(), Folder::new());
    let size = format!("file size --block 1 --between 100s..300s --folder {}", folder.name());
    is_interrupted(started(&place, &size, "temporary"), Signal::INT);
    assert!(folder.is_empty());
}

#[test]
fn kill_leaves_no_file() {
    let (place, folder) = (Place::new(), Folder::new());
    let child = started(&place, &format!("{LONG} {}", folder.name()), "temporary");
    let status = signalled(child, Signal::KILL);
    assert_eq!(status.code(), None);
    assert!(folder.is_empty());
}

#[test]
fn a_device_that_takes_no_more_is_told_and_nothing_is_left() {
    let (place, folder) = (Place::new(), Folder::new());
    let plain = place.asked(&format!("file sweep --sizes 8MiB --folder {}", folder.name()));
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$@\"", "sh"]);
    limited.arg(plain.get_program()).args(plain.get_args()).env("FATHOM_STORE", place.store());
    let output = limited.output().expect("a shell");
    ends_with(&output, 1);
    says(&text(&output.stderr), &["write 8 MiB", "nothing is left"]);
    assert!(folder.is_empty());
}

#[test]
fn a_small_disk_is_never_filled() {
    let (place, folder) = (Place::new(), Folder::new());
    let at = folder.name();
    let mount = format!("mount -t tmpfs -o size=16m none {at}");
    let within = |line: &str| within(&place, &mount, &format!("{line} --folder {at}"));
    let Some(output) = within("file size --block 64K") else { return };
    ends_with(&output, 3);
    says(&unwrapped(&output), &["no size fits: 8 MiB (half of the free space in"]);
    let Some(output) = within("file sweep --sizes 9MiB") else { return };
    fails(&output, &["a file of 9 MiB", "half of the free space", "8 MiB"]);
}

#[test]
fn where_all_usual_folders_lie_in_memory_one_must_be_named() {
    let place = Place::new();
    let mounts = "mount -t tmpfs none /var/tmp && cd /var/tmp";
    let Some(output) = within(&place, mounts, "file sweep") else { return };
    fails(&output, &["/var/tmp: tmpfs keeps files in memory", "--folder"]);
}
