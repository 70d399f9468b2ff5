//! `fathom file size`, `sweep` and `cache`: output, records, errors and cleanup.

use std::io::Write;
use std::process::{Command, Stdio};

use fathom_record::{Document, Record, RunState, State};
use rustix::process::Signal;

use crate::children::{assert_interrupted, spawn_until_io};
use crate::forbidden::in_mount_namespace;
use crate::group::skipped;
use crate::test_env::{
    TestEnvFolder, assert_contains, assert_status, document, median, of_metric, unwrapped_stdout,
};
use crate::{ProgramTestEnv, assert_failure, text};

fn reads(document: &Document) -> Vec<&Record> {
    of_metric(document, "file.read.throughput")
}

#[test]
fn found_size_is_stored_with_prediction() {
    let (env, folder) = (ProgramTestEnv::new(), TestEnvFolder::new());
    let size = "file size --block 16 --between 1ms..60s --json";
    let document = document(&env.exec(&format!("{size} --folder {}", folder.path_text())));
    let [found] = of_metric(&document, "file.reasonable_size")[..] else {
        panic!("{:?}", document.records)
    };
    assert_eq!(median(found) % 16.0, 0.0, "a multiple of the block");
    assert_eq!(found.params.integer("from_ms"), Some(1));
    // Without earlier results, a short read gives the prediction.
    let calibration = reads(&document)[0];
    match &found.prediction {
        Some(prediction) => {
            let wanted = median(calibration) * (0.001 * 60.0_f64).sqrt();
            let value = prediction.value.expect("a value");
            assert!((value / wanted - 1.0).abs() < 1e-9, "{prediction:?}");
        }
        None => assert_eq!(calibration.verdict.state, State::Noisy, "{:?}", found.no_model),
    }
    assert!(found.checks["tried"].contains("iB/s"), "{:?}", found.checks);
    assert!(folder.is_empty());
    let history = env.run(&["history", "file.reasonable_size"]);
    assert!(text(&history.stdout).contains("file.reasonable_size"), "{}", text(&history.stderr));
}

#[test]
fn large_writes_need_confirmation_on_terminal() {
    let (env, folder) = (ProgramTestEnv::new(), TestEnvFolder::new());
    let exec = |answer: &str, more: &str| {
        let size = "file size --block 16 --max 2GiB --between 1ms..60s";
        let line = format!("'{}' {size} {more}", env!("CARGO_BIN_EXE_fathom"));
        let mut terminal = Command::new("script");
        terminal.args(["-qec", &line, "/dev/null"]).env("FATHOM_STORE", env.store());
        terminal.current_dir(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = terminal.spawn().ok()?;
        child.stdin.take().expect("a pipe").write_all(answer.as_bytes()).expect("it listens");
        let output = child.wait_with_output().expect("it ends");
        Some((output.status.code(), text(&output.stdout)))
    };
    let Some((status, printed)) = exec("n\n", "") else {
        return skipped("a terminal needs script of util-linux");
    };
    assert!(printed.contains("Continue? [y/N]") && printed.contains("aborted"), "{printed}");
    assert_eq!(status, Some(130));
    let (status, printed) = exec("y\n", "").expect("script");
    assert!(printed.contains("Continue? [y/N]") && printed.contains("found"), "{printed}");
    assert_eq!(status, Some(0));
    let (status, printed) = exec("", "--yes").expect("script");
    assert!(!printed.contains("Continue?") && printed.contains("found"), "{printed}");
    assert_eq!(status, Some(0));
}

#[test]
fn no_fitting_size_is_unavailable() {
    let (env, folder) = (ProgramTestEnv::new(), TestEnvFolder::new());
    let size = "file size --block 64K --max 300K --between 5s..15s --folder";
    let output = env.exec(&format!("{size} {}", folder.path_text()));
    let printed = unwrapped_stdout(&output);
    assert_status(&output, 3);
    let why = "no size fits: 256 KiB (--max)";
    assert_contains(&printed, &["writes 300 KiB at most", why, "would need"]);
    let document = env.latest();
    let [none] = of_metric(&document, "file.reasonable_size")[..] else { panic!("{printed}") };
    assert_eq!(none.verdict.state, State::Unavailable);
    // A single block takes too long.
    let output = env.exec("file size --block 64M --between 1ms..2ms --max 64M");
    assert_status(&output, 3);
    assert_contains(&unwrapped_stdout(&output), &["even one block of 64 MiB"]);
}

#[test]
fn keep_never_replaces_a_file() {
    let (env, folder) = (ProgramTestEnv::new(), TestEnvFolder::new());
    let size = "file size --block 16 --between 1ms..60s --keep kept --folder";
    let run = || env.exec(&format!("{size} {}", folder.path_text()));
    assert_status(&run(), 0);
    let kept = std::fs::metadata(folder.path().join("kept")).expect("the file").len();
    let document = env.latest();
    assert_eq!(kept as f64, median(of_metric(&document, "file.reasonable_size")[0]));
    assert_failure(&run(), &["kept exists"]);
}

#[test]
fn sweep_measures_every_point() {
    let (env, folder) = (ProgramTestEnv::new(), TestEnvFolder::new());
    let path = folder.file("data", 3_000_000);
    let points = "--blocks 4K,64K,8M --threads 1,2 --state warm,cold";
    let sweep = format!("file sweep {path} {points} --each 1ms --passes 2 --json --samples");
    let document = document(&env.exec(&sweep));
    let reads = reads(&document);
    assert_eq!(reads.len(), 3 * 2 * 2, "blocks, threads and states");
    for record in &reads {
        assert_eq!(record.params.integer("file_bytes"), Some(3_000_000));
        let threads = record.params.integer("threads");
        let way = if threads == Some(1) { "read" } else { "pread" };
        assert_eq!(record.params.text("way"), Some(way));
        assert!(record.checks.contains_key("in memory before"), "{:?}", record.checks);
        let samples = record.samples.as_ref().expect("samples");
        assert_eq!(samples[0].values.len(), 2, "a value for each pass");
    }
    // All reads of the whole file have the same checksum.
    let whole = |record: &&&Record| record.checks["bytes"] == "3000000";
    let sums: Vec<&String> =
        reads.iter().filter(whole).map(|record| &record.checks["XOR-32"]).collect();
    assert!(sums.len() >= 4 && sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
}

#[test]
fn sweep_covers_several_files_and_sizes() {
    let (env, folder) = (ProgramTestEnv::new(), TestEnvFolder::new());
    let [a, b] = [("a", 100_000), ("b", 200_000)].map(|(name, size)| folder.file(name, size));
    let quick = "file sweep --blocks 4K --threads 1 --state warm --each 1ms --json";
    let both = document(&env.exec(&format!("{quick} {a} {b}")));
    let names = reads(&both).into_iter().map(|one| one.params.text("file").map(str::to_owned));
    assert_eq!(names.collect::<Vec<_>>(), [a, b].map(Some));
    let emptied = TestEnvFolder::new();
    let sizes = format!("{quick} --sizes 100K..400K --folder {}", emptied.path_text());
    let document = document(&env.exec(&sizes));
    let sizes =
        reads(&document).into_iter().map(|one| one.params.integer("file_bytes").unwrap_or(0));
    assert_eq!(sizes.collect::<Vec<i64>>(), [100 << 10, 200 << 10, 400 << 10]);
    assert!(emptied.is_empty());
}

#[test]
fn sized_sweep_finds_its_file_size_first() {
    let (env, folder) = (ProgramTestEnv::new(), TestEnvFolder::new());
    let sized = "file sweep --sized --block 16 --between 1ms..60s --blocks 100,4K";
    let each = "--state warm --threads 1 --each 1ms --json --folder";
    let document = document(&env.exec(&format!("{sized} {each} {}", folder.path_text())));
    let found = median(of_metric(&document, "file.reasonable_size")[0]) as i64;
    let of_file = |record: &&&Record| record.params.integer("file_bytes") == Some(found);
    let blocks = reads(&document);
    let blocks: Vec<i64> =
        blocks.iter().filter(of_file).filter_map(|one| one.params.integer("block")).collect();
    assert!(blocks.ends_with(&[16, 100, 4096]), "{blocks:?}");
}

/// A sweep beside dd.
fn with_dd(env: &ProgramTestEnv, folder: &TestEnvFolder, bytes: usize, each: &str) -> Command {
    let path = folder.file("data", bytes);
    let points = format!("--blocks 4K,64K --threads 1 --state warm --each {each}");
    env.command(&format!("file sweep {path} {points} --with-dd"))
}

#[test]
#[ignore = "lab: beside load the startup time of dd dominates"]
fn with_dd_adds_ratios() {
    let (env, folder) = (ProgramTestEnv::new(), TestEnvFolder::new());
    let output = with_dd(&env, &folder, 32 << 20, "20ms").output().expect("it starts");
    assert_contains(&text(&output.stdout), &["ours ÷ dd"]);
}

#[test]
fn missing_dd_names_its_package() {
    let (env, folder) = (ProgramTestEnv::new(), TestEnvFolder::new());
    let mut sweep = with_dd(&env, &folder, 1 << 20, "1ms");
    let found = sweep.output().expect("it starts");
    assert!(!text(&found.stderr).contains("coreutils"), "{}", text(&found.stderr));
    let missing = sweep.env("PATH", "/nowhere").output().expect("it starts");
    assert_contains(&text(&missing.stderr), &["coreutils"]);
    assert!(!text(&missing.stdout).contains("ours ÷ dd"));
}

#[test]
fn cache_compares_cold_and_warm_reads() {
    let (env, folder) = (ProgramTestEnv::new(), TestEnvFolder::new());
    let path = folder.file("data", 4 << 20);
    let printed = text(&env.exec(&format!("file cache {path} --blocks 4K,1M --rounds 2")).stdout);
    assert!(printed.contains("file.cache.speedup"), "{printed}");
    let document = env.latest();
    let states = reads(&document).into_iter().map(|one| one.params.text("state"));
    let [cold, warm] = ["cold", "warm"].map(Some);
    assert_eq!(states.collect::<Vec<_>>(), [cold, warm, warm, cold, warm, warm]);
    assert_eq!(of_metric(&document, "file.cache.speedup").len(), 2);
}

#[test]
fn file_larger_than_memory_is_not_warmed() {
    let (env, folder) = (ProgramTestEnv::new(), TestEnvFolder::new());
    let large = std::fs::File::create(folder.path().join("large")).expect("a file");
    if large.set_len(1 << 43).is_err() {
        return skipped("the file system does not support a file of 8 TiB");
    }
    let sweep = format!("file sweep {}/large --state warm --blocks 64K", folder.path_text());
    // Reading it all would take most of an hour.
    let output = env.exec(&sweep);
    assert_status(&output, 3);
    let printed = text(&output.stderr);
    assert!(printed.contains("warm skipped: 8 TiB exceed the available memory"), "{printed}");
}

/// A sweep that takes minutes, without the value of `--folder`.
const LONG: &str = "file sweep --sizes 8MiB --blocks 64..64K --state cold --each 200ms \
    --passes 1000 --folder";

#[test]
fn ctrl_c_leaves_no_valid_point() {
    let (env, folder) = (ProgramTestEnv::new(), TestEnvFolder::new());
    let line = format!("{LONG} {}", folder.path_text());
    assert_interrupted(spawn_until_io(&env, &line, "rchar", 64 << 20), Signal::INT);
    assert!(folder.is_empty());
    let document = env.latest();
    assert_eq!(document.run.state, RunState::Interrupted);
    let kept = reads(&document);
    assert!(
        kept.iter().all(|record| record.verdict.state != State::Valid),
        "the sweep is incomplete"
    );
}

#[test]
fn small_disk_is_not_filled() {
    let (env, folder) = (ProgramTestEnv::new(), TestEnvFolder::new());
    let at = folder.path_text();
    let mount = format!("mount -t tmpfs -o size=16m none {at}");
    let mounted = |line: &str| in_mount_namespace(&env, &mount, &format!("{line} --folder {at}"));
    let Some(output) = mounted("file size --block 64K") else { return };
    assert_status(&output, 3);
    assert_contains(
        &unwrapped_stdout(&output),
        &["no size fits: 8 MiB (half of the free space in"],
    );
    let Some(output) = mounted("file sweep --sizes 9MiB") else { return };
    assert_failure(&output, &["a file of 9 MiB", "half of the free space", "8 MiB"]);
}

#[test]
fn without_disk_a_folder_must_be_named() {
    let env = ProgramTestEnv::new();
    // The mount hides the program too, if the tree is below /var/tmp.
    let mounts = "exec 9<\"$1\" && mount -t tmpfs none /var/tmp && cd /var/tmp && shift \
                  && set -- /proc/self/fd/9 \"$@\"";
    let Some(output) = in_mount_namespace(&env, mounts, "file sweep") else { return };
    assert_failure(&output, &["/var/tmp: tmpfs keeps files in memory", "--folder"]);
}
