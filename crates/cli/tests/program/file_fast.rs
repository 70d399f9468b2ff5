//! `fathom file fast`: files, directories and patterns.

use std::fs;
use std::path::Path;

use fathom_fileio::XorSum;
use fathom_record::{Document, State};

use crate::children::spawn_until_io;
use crate::forbidden::in_mount_namespace;
use crate::test_env::{
    assert_contains, assert_failure, assert_status, generated, json, path_text, unwrapped_stdout,
};
use crate::{ProgramTestEnv, text};

fn write(path: &Path, seed: u64, length: usize) -> XorSum {
    let bytes = generated(seed, length);
    fs::write(path, &bytes).expect("a file");
    XorSum::over(&bytes)
}

#[test]
fn every_path_gives_the_same_checksum() {
    let env = ProgramTestEnv::new();
    let path = env.path().join("data");
    let sum = write(&path, 3, 5_000_003);
    for more in [
        "",
        "--path pread",
        "--path mmap --threads 3",
        "--path direct",
        "--path pread --block 1000 --repeat 3",
    ] {
        let output = env.exec(&format!("file fast {} --json {more}", path.display()));
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
        // Both are the median of the passes.
        let [rate, ns] = [record.summary.as_ref().map(|it| it.median), record.quantity_of("time")]
            .map(|it| it.expect("a number"));
        assert!((rate * ns / 1e9 / 5_000_003.0 - 1.0).abs() < 1e-6, "{more:?}: {rate} {ns}");
    }
}

#[test]
fn directory_gives_a_line_per_regular_file() {
    let env = ProgramTestEnv::new();
    let folder = env.path().join("many");
    fs::create_dir_all(folder.join("deep")).expect("a folder");
    let mut sums = Vec::new();
    for number in 0..40_u64 {
        let deep = if number % 2 == 0 { "" } else { "deep/" };
        let path = folder.join(format!("{deep}{number:02}"));
        sums.push((path_text(&path).to_owned(), write(&path, number, 1000 * number as usize)));
    }
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("fifo"), 0o600.into()).expect("a fifo");
    let printed = env.stdout(&format!("file fast {}", folder.display()));
    for (path, sum) in &sums {
        let line = printed.lines().find(|line| line.ends_with(path.as_str())).expect("a line");
        let start = format!("{:08x} {:016x}", sum.xor, sum.position);
        assert!(line.starts_with(&start), "{line}");
    }
    assert!(printed.contains("40 read") && printed.contains("not a regular file"), "{printed}");
    let total: u64 = sums.iter().map(|(_, sum)| sum.bytes).sum();
    assert!(printed.contains(&format!("{total} bytes")), "{printed}");
    let pattern = env.exec(&format!("file fast {}/*2", folder.display()));
    assert_contains(&text(&pattern.stdout), &["4 read"]);
}

#[test]
fn empty_file_is_unavailable_with_checksum() {
    let env = ProgramTestEnv::new();
    let path = env.path().join("empty");
    write(&path, 1, 0);
    let document: Document = json(&env.run(&["file", "fast", path_text(&path), "--json"]));
    assert_eq!(document.records[0].verdict.state, State::Unavailable);
    assert_eq!(document.records[0].checks["XOR-32"], "00000000");
}

/// It has no end that a read could wait for: 256 GiB of entries on x86-64.
#[test]
fn file_without_an_end_is_skipped_by_name() {
    let env = ProgramTestEnv::new();
    let (good, endless) = (env.path().join("good"), "/proc/self/pagemap");
    let sum = write(&good, 1, 1000);
    let both = env.stdout(&format!("file fast {} {endless}", good.display()));
    let skipped = format!("{endless} has no end: use `file read` with --time-limit");
    let both = both.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_contains(&both, &[&format!("{:08x}", sum.xor), "skipped", &skipped]);
    assert_failure(&env.exec(&format!("file fast {endless}")), &[&skipped]);
}

#[test]
fn ceiling_share_or_its_remedy_is_shown() {
    let env = ProgramTestEnv::new();
    let path = env.path().join("data");
    write(&path, 1, 1 << 20);
    let fast = format!("file fast {}", path.display());
    assert_contains(&text(&env.exec(&fast).stdout), &["fathom run memory.bandwidth"]);
    let share = env.exec(&format!("{fast} --ceiling 50GB"));
    assert_contains(&text(&share.stdout), &["% of", "--ceiling"]);
}

#[test]
fn holes_are_named() {
    let env = ProgramTestEnv::new();
    let path = env.path().join("holes");
    fs::File::create(&path).expect("a file").set_len(64 << 20).expect("a length");
    let printed = text(&env.run(&["file", "fast", path_text(&path)]).stdout);
    assert!(printed.contains("only 0 % of a file is data"), "{printed}");
}

#[test]
fn file_changed_between_passes_has_no_checksum() {
    let env = ProgramTestEnv::new();
    let path = env.path().join("data");
    write(&path, 1, 1 << 20);
    let line = format!("file fast {} --path pread --repeat 1000000 --json", path.display());
    let mut child = spawn_until_io(&env, &line, "rchar", 4 << 20);
    let file = fs::File::options().write(true).open(&path).expect("a file");
    // Again until a pass has seen it: what changed before the first pass is no change.
    while child.try_wait().expect("a child").is_none() {
        std::os::unix::fs::FileExt::write_all_at(&file, &[255], 5).expect("written");
        std::thread::yield_now();
    }
    let output = child.wait_with_output().expect("it ends");
    assert_status(&output, 1);
    let record = &json::<Document>(&output).records[0];
    assert_eq!(record.verdict.state, State::Invalid);
    let reasons = &record.verdict.reasons;
    assert!(reasons[0].text.starts_with("the file changed: "), "{reasons:?}");
    assert!(!record.checks.contains_key("XOR-32"), "{:?}", record.checks);
}

#[test]
fn keep_going_reads_on_after_an_error() {
    let env = ProgramTestEnv::new();
    let good = env.path().join("good");
    let sum = write(&good, 1, 1000);
    let bad = "/proc/self/mem";
    let fast = format!("file fast {} {bad} missing --keep-going", good.display());
    let output = env.exec(&fast);
    assert_status(&output, 1);
    assert_contains(&text(&output.stdout), &[&format!("{:08x}", sum.xor), "not read"]);
    assert_contains(&text(&output.stderr), &["missing: No such file"]);
}

/// Looks through the overlay, whatever the command.
#[test]
fn overlay_in_memory_is_no_device() {
    let env = ProgramTestEnv::new();
    let at = env.path().display();
    let mounts = format!(
        "mount -t tmpfs none {at} && mkdir {at}/l {at}/u {at}/w {at}/m && mount -t overlay none \
         -o lowerdir={at}/l,upperdir={at}/u,workdir={at}/w {at}/m && yes | head -c 1M >{at}/m/f"
    );
    let line = format!("file fast {at}/m/f --path direct");
    let Some(output) = in_mount_namespace(&env, &mounts, &line) else { return };
    assert_contains(&unwrapped_stdout(&output), &["tmpfs is not on a device of this machine"]);
    let line = format!("run --only --quick file.fsync --folder {at}/m");
    let Some(output) = in_mount_namespace(&env, &mounts, &line) else { return };
    assert_contains(
        &(unwrapped_stdout(&output) + &text(&output.stderr)),
        &["this overlay keeps files in memory", "--allow-memory"],
    );
}
