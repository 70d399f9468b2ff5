//! `fathom file read` as a person uses it: checksums, states and their proof, and what it says of
//! what is no plain file.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_lab::disk::{Disk, Faults};
use fathom_lab::fuse::Mount;
use fathom_lab::mounts;
use fathom_record::{Document, Record, State};

use crate::children::{piped, send};
use crate::group::skipped;
use crate::place::{Folder, ends_with, generated, json, says, text_of};
use crate::{Place, fails, text};

/// A synced file of data that nothing else has.
fn made(place: &Place, name: &str, length: usize) -> PathBuf {
    written(place, name, &generated(5, length))
}

fn written(place: &Place, name: &str, bytes: &[u8]) -> PathBuf {
    let path = place.file(name);
    fs::write(&path, bytes).expect("a file");
    File::open(&path).expect("it is there").sync_all().expect("synced");
    path
}

/// The one record of reading.
fn record(place: &Place, path: &Path, more: &str) -> Record {
    let output = place.ask(&format!("file read {} --json {more}", path.display()));
    let mut records = json::<Document>(&output).records;
    assert_eq!(records.len(), 1);
    records.remove(0)
}

fn check<'r>(record: &'r Record, name: &str) -> &'r str {
    record.checks.get(name).unwrap_or_else(|| panic!("no {name}: {:?}", record.checks))
}

fn sums(record: &Record) -> (&str, &str, &str) {
    (check(record, "XOR-32"), check(record, "position sum"), check(record, "bytes"))
}

#[test]
fn known_content_has_its_known_sum() {
    let place = Place::new();
    let zeroes = vec![0; 10_001];
    let cases: [(&[u8], &str); 5] = [
        (b"abcd", "64636261"),
        (b"abcde", "64636204"),
        (&zeroes, "00000000"),
        (b"x", "00000078"),
        (b"", "00000000"),
    ];
    for (bytes, xor) in cases {
        let path = written(&place, "known", bytes);
        let record = record(&place, &path, "--block 3");
        assert_eq!(check(&record, "XOR-32"), xor);
        assert_eq!(check(&record, "bytes"), bytes.len().to_string());
    }
}

#[test]
fn no_block_way_or_number_of_threads_changes_a_sum() {
    let place = Place::new();
    let path = made(&place, "data", 3_000_001);
    let first = record(&place, &path, "--block 1000000");
    for more in [
        "--block 7",
        "--block 4K --way pread",
        "--block 64K --threads 3",
        "--block 1M --way mmap --threads 2",
        "--block 5M",
        "--block 64K --state warm --repeat 2",
        "--block 512K --state cold",
    ] {
        let other = record(&place, &path, more);
        assert_eq!(sums(&other), sums(&first), "{more:?}");
    }
    let part = record(&place, &path, "--block 1000 --count 5");
    let same = record(&place, &path, "--block 2500 --count 2 --way pread");
    assert_eq!(sums(&part), sums(&same));
    assert_eq!(check(&part, "bytes"), "5000");
}

#[test]
fn direct_reads_give_the_same_sum_of_a_file_of_any_size() {
    let place = Place::new();
    let path = made(&place, "data", 1_000_003);
    let through = record(&place, &path, "--block 64K");
    for way in ["direct", "ring"] {
        let output =
            place.ask(&format!("file read {} --block 64K --way {way} --json", path.display()));
        if output.status.code() == Some(2) {
            skipped(text(&output.stderr).trim());
            continue;
        }
        let document: Document = json(&output);
        assert_eq!(sums(&document.records[0]), sums(&through), "{way}");
        assert_eq!(document.records[0].params.text("state"), Some("direct"));
    }
}

#[test]
fn cold_is_proved_and_comes_from_the_device() {
    let Some(place) = Place::on_device() else { return };
    let path = made(&place, "data", 8 << 20);
    let cold = record(&place, &path, "--block 64K --state cold");
    assert_eq!(cold.params.text("state"), Some("cold"));
    assert!(check(&cold, "in memory before").starts_with("COLD"), "{:?}", cold.checks);
    let fetched: u64 = check(&cold, "bytes from devices").parse().expect("a number");
    assert!(fetched >= 8 << 20, "{fetched}");
    let warm = record(&place, &path, "--block 64K --state warm");
    assert!(check(&warm, "in memory before").starts_with("WARM"), "{:?}", warm.checks);
    assert_eq!(check(&warm, "bytes from devices"), "0");
    assert!(warm.verdict.shows_number());
}

#[test]
fn what_lives_in_memory_cannot_be_cold_and_gives_no_number() {
    let place = Place::new();
    let Some(folder) = Folder::in_memory() else { return };
    let name = folder.file("data", 1 << 20);
    let path = PathBuf::from(&name);
    let cold = record(&place, &path, "--block 64K --state cold");
    assert_eq!(cold.verdict.state, State::Invalid);
    let reason = &cold.verdict.reasons[0].text;
    assert!(reason.contains("100 % cached") && reason.contains("tmpfs"), "{reason}");
    let cold = format!("file read {name} --block 64K --state cold --repeat 2");
    let told = text(&place.ask(&cold).stdout);
    assert!(told.contains("invalid") && !told.contains("B/s"), "a number all the same: {told}");
    let warm = record(&place, &path, "--block 64K");
    assert!(warm.verdict.shows_number(), "{:?}", warm.verdict);
}

#[test]
fn pages_that_another_holds_are_not_cold() {
    let Some(place) = Place::on_device() else { return };
    let path = made(&place, "data", 1 << 20);
    let file = File::open(&path).expect("it is there");
    // SAFETY: a new mapping of a file that nobody changes; it is only held.
    let held = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            1 << 19,
            libc::PROT_READ,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            std::os::fd::AsRawFd::as_raw_fd(&file),
            0,
        )
    };
    assert_ne!(held, libc::MAP_FAILED);
    let cold = record(&place, &path, "--block 64K --state cold");
    assert_eq!(cold.verdict.state, State::Invalid);
    let reason = &cold.verdict.reasons[0].text;
    assert!(reason.contains("requested cold, but ") && reason.contains("cached"), "{reason}");
    // SAFETY: the mapping was made above, and nothing refers to it.
    unsafe { libc::munmap(held, 1 << 19) };
}

#[test]
fn passes_that_begin_in_different_states_are_no_one_number() {
    let Some(place) = Place::on_device() else { return };
    let path = made(&place, "data", 8 << 20);
    let file = File::open(&path).expect("it is there");
    fathom_fileio::residency::evict(&file).expect("evicted");
    let record = record(&place, &path, "--block 64K --repeat 3");
    assert_eq!(record.params.text("state"), Some("mixed"));
    assert_eq!(record.verdict.state, State::Noisy);
    let reason = &record.verdict.reasons[0].text;
    assert!(reason.contains("the first cold, the last warm"), "{reason}");
}

#[test]
fn calls_behind_the_end_are_not_made() {
    let place = Place::new();
    let path = made(&place, "data", 1 << 20);
    let all = record(&place, &path, "--block 64K");
    let more = record(&place, &path, "--block 64K --count 1000000");
    assert_eq!(sums(&more), sums(&all));
    assert_eq!(check(&all, "calls"), "17", "sixteen, and the one that finds the end");
    assert_eq!(check(&more, "calls"), "16");
}

#[test]
fn a_pass_that_is_all_beginning_is_no_rate() {
    let place = Place::new();
    let record = record(&place, &written(&place, "tiny", b"hello"), "--block 64K");
    assert_eq!(record.verdict.state, State::Noisy);
    assert!(record.verdict.reasons[0].text.contains("too short"), "{:?}", record.verdict);
}

#[test]
fn holes_are_told_beside_a_cold_number() {
    let Some(place) = Place::on_device() else { return };
    let path = place.path().join("sparse");
    let file = File::create(&path).expect("a file");
    file.write_all_at(&[7; 1 << 20], 3 << 20).expect("written");
    file.sync_all().expect("synced");
    let cold = record(&place, &path, "--block 64K --state cold");
    assert_eq!(cold.verdict.state, State::Noisy);
    let reason = &cold.verdict.reasons[0].text;
    assert!(reason.contains("only 25 % of the file is data"), "{reason}");
    assert!(check(&cold, "file").contains("25 % data"), "{:?}", cold.checks);
}

#[test]
fn a_result_is_kept_and_shown_again() {
    let place = Place::new();
    let path = made(&place, "data", 1 << 20);
    let said = place.said(&format!("file read {} --block 4K", path.display()));
    let sums = ["XOR-32", "position sum"];
    says(&said, &["256 blocks of 4096 bytes", "1.000 MiB", sums[0], sums[1], "calls/s", "B/s"]);
    let kept = place.latest();
    assert_eq!(kept.records.len(), 1);
    assert_eq!(kept.records[0].metric.as_str(), "file.read.throughput");
    assert!(said.contains(check(&kept.records[0], "XOR-32")), "{said}");
    assert!(kept.records[0].is_intact());
    let history = place.run(&["history", "file.read.throughput"]);
    assert!(text(&history.stdout).contains("file.read.throughput"), "{}", text(&history.stdout));
}

#[test]
fn repeated_passes_are_all_kept_and_agree_on_the_content() {
    let place = Place::new();
    let path = made(&place, "data", 1 << 20);
    let record = record(&place, &path, "--block 64K --repeat 14 --samples");
    let summary = record.summary.expect("a summary");
    assert_eq!(summary.n, 14);
    assert_eq!(record.samples.expect("raw values")[0].values.len(), 14);
}

#[test]
fn mistakes_are_one_line_with_what_helps() {
    let place = Place::new();
    let path = made(&place, "data", 5000);
    let (name, folder) = (text_of(&path), text_of(place.path()));
    rustix::fs::mkfifoat(rustix::fs::CWD, place.file("fifo"), 0o600.into()).expect("a fifo");
    let table = format!(
        "missing --block 1 | missing | No such file
        {folder} --block 1 | directory | name a regular file
        {folder}/fifo --block 1 | FIFO"
    );
    place.fails("file read", &table);
    let table = format!(
        "{name} --block 0 | `0` | 1 to
        {name} --block 2GiB | expected a block of 1 to | 1GiB
        {name} --block 99999999999G | 2^64
        {name} --block 4X | a size | 64KiB
        {name} --block 1G --count 9000000000000000000 | 2^63 | fewer
        {name} --blok 1 | --block
        {name} | --block
        {name} --block 4K --way ring --state cold | --state
        {name} --block 4K --way read --threads 2 | --threads 1
        {name} --block 1000 --state direct | multiple of
        /dev/zero --block 4K | no end | --count"
    );
    place.refuses("file read", &table);
}

#[test]
fn a_file_that_one_may_not_read_is_refused() {
    let place = Place::new();
    let path = made(&place, "secret", 5000);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).expect("a mode");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
    let mut command = place.asked(&format!("file read {} --block 1", path.display()));
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    match command.output() {
        Ok(output) => fails(&output, &["secret", "Permission denied"]),
        Err(error) => skipped(&format!("another user cannot start the program here: {error}")),
    }
}

#[test]
fn caches_of_the_machine_are_dropped_for_root_alone() {
    if !rustix::process::geteuid().is_root() {
        return skipped("dropping caches of the machine needs root");
    }
    let Some(place) = Place::on_device() else { return };
    let path = made(&place, "data", 1 << 20);
    let more = "--block 64K --drop-caches pagecache";
    let record = record(&place, &path, more);
    assert_eq!(record.params.text("state"), Some("cold"), "{:?}", record.checks);
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
    let mut command = place.asked(&format!("file read {} {more}", path.display()));
    command.uid(65_534).gid(65_534).env("FATHOM_STORE", place.path().join("other.db"));
    match command.output() {
        Ok(output) => fails(&output, &["--drop-caches", "run as root", "--state cold"]),
        Err(error) => skipped(&format!("another user cannot start the program here: {error}")),
    }
}

#[test]
fn devices_and_files_of_the_kernel_have_an_answer() {
    let place = Place::new();
    let zero = record(&place, Path::new("/dev/zero"), "--block 4K --count 10");
    assert_eq!(sums(&zero), ("00000000", "0000000000000000", "40960"));
    let version = fs::read("/proc/version").expect("a kernel");
    let record = record(&place, Path::new("/proc/version"), "--block 10");
    assert_eq!(check(&record, "bytes"), version.len().to_string());
    let copy = written(&place, "copy", &version);
    let of_copy = self::record(&place, &copy, "--block 10");
    assert_eq!(sums(&of_copy), sums(&record));
}

#[test]
fn a_symbolic_link_is_followed_and_said() {
    let place = Place::new();
    let path = made(&place, "data", 5000);
    let link = place.path().join("link");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    let record = record(&place, &link, "--block 1K");
    assert!(check(&record, "file").contains("symbolic link"), "{:?}", record.checks);
    assert_eq!(check(&record, "bytes"), "5000");
}

const ENDLESS: &str = "file read /dev/zero --block 1M --count 100000000";

#[test]
fn a_limit_of_time_ends_the_read_and_tells_what_was_read() {
    let place = Place::new();
    says(&place.said(&format!("{ENDLESS} --time-limit 200ms")), &["stopped"]);
}

#[test]
fn ctrl_c_keeps_what_was_read() {
    let place = Place::new();
    let child = piped(place.asked(ENDLESS));
    std::thread::sleep(Duration::from_millis(700));
    send(&child, rustix::process::Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    ends_with(&output, 130);
    says(&text(&output.stdout), &["stopped"]);
    let kept = place.latest();
    assert_eq!(kept.run.state, fathom_record::RunState::Interrupted);
    assert_eq!(kept.records[0].verdict.state, State::Noisy);
}

/// A file on a disk in user space that misbehaves.
struct Faulty {
    path: PathBuf,
    // The mount goes before the folder that it is on.
    _mount: Mount,
    _folder: tempfile::TempDir,
}

impl Faulty {
    fn new(bytes: &[u8], faults: Faults) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = Disk::new();
        let mount = Mount::new(&disk, folder.path()).expect("a mount");
        let path = folder.path().join("data");
        fs::write(&path, bytes).expect("a file");
        disk.misbehave(faults);
        Self { path, _mount: mount, _folder: folder }
    }
}

#[test]
fn a_place_that_cannot_be_read_is_told_with_its_offset() {
    let test = "file_read::a_place_that_cannot_be_read_is_told_with_its_offset";
    if !mounts::inside(test, skipped_or_said) {
        return;
    }
    let mut bytes = generated(5, 1 << 20);
    let bad = 40_960..45_056;
    let unreadable = Some(("data".to_owned(), bad.clone()));
    let faulty = Faulty::new(&bytes, Faults { unreadable, uncached: true, ..Faults::default() });
    let place = Place::new();
    let read = format!("file read {} --block 64K", text_of(&faulty.path));
    let stopped = place.ask(&read);
    ends_with(&stopped, 1);
    says(&text(&stopped.stdout), &["from byte 40960 on", "invalid"]);
    let output = place.ask(&format!("{read} --keep-going --json"));
    ends_with(&output, 1);
    let document: Document = json(&output);
    let record = &document.records[0];
    assert_eq!(record.verdict.state, State::Invalid);
    assert!(record.verdict.reasons[0].text.contains("4096 bytes from byte 40960 on"));
    // The rest was read: as a file that has nothing in that place.
    bytes[bad.start as usize..bad.end as usize].fill(0);
    assert_eq!(check(record, "XOR-32"), format!("{:08x}", fathom_fileio::Sum::of(&bytes).xor));
}

#[test]
fn a_disk_that_takes_20_ms_a_read_is_found_to_take_20_ms() {
    let test = "file_read::a_disk_that_takes_20_ms_a_read_is_found_to_take_20_ms";
    if !mounts::inside(test, skipped_or_said) {
        return;
    }
    let read_delay = Duration::from_millis(20);
    let faults = Faults { read_delay, uncached: true, ..Faults::default() };
    let faulty = Faulty::new(&vec![1; 40 << 10], faults);
    let place = Place::new();
    let more = "--block 4K --count 10 --repeat 3 --samples";
    // Others of this machine can only make it slower: of some tries the best counts.
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let record = record(&place, &faulty.path, more);
        assert!(record.verdict.shows_number(), "{:?}", record.verdict);
        let samples = record.samples.expect("raw values");
        let rate = samples[0].values.iter().copied().fold(0.0, f64::max);
        let ms = 1e3 * 4096.0 / rate;
        assert!(ms >= 20.0, "{ms} ms a read are too few");
        best = best.min(ms);
        if best < 20.8 {
            return;
        }
    }
    panic!("{best} ms a read");
}

/// Tells why a test with mounts of its own is skipped; one that was done has said all it had.
pub(crate) fn skipped_or_said(what: &str) {
    if let Some(why) = what.strip_prefix("skipped: ") {
        skipped(why);
    }
}
