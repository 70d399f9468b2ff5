//! Known counts: programs of ours do so many operations, and exactly so many are counted.

mod work;

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use fathom_cost::{Counts, FaultKind, Operation, Place, Tally, Wait};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use self::work::NAME;
use crate::child::{ChildError, ChildProgram, ChildUsage, Launcher, Surroundings};

const NO_RANDOM_ADDRESSES: libc::c_ulong = 0x004_0000;

struct CostFixture {
    input: File,
    output: File,
    limit_ns: u64,
    stop: AtomicBool,
}

impl CostFixture {
    fn new() -> Self {
        Self {
            input: File::open("/dev/null").expect("a device"),
            output: tempfile::tempfile().expect("a file"),
            limit_ns: 300_000_000_000,
            stop: AtomicBool::new(false),
        }
    }

    fn run(&self, path: &Path, words: &[&str]) -> Result<(ChildUsage, Counts), ChildError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let program = ChildProgram::new(path, &words).expect("no zero byte");
        let around = Surroundings {
            input: self.input.as_fd(),
            output: self.output.as_fd(),
            errors: self.output.as_fd(),
            cpu: None,
            limit_ns: self.limit_ns,
            terminal: None,
        };
        Launcher::new().run_counted(&program, around, &self.stop)
    }

    fn work(&self, line: &str) -> (ChildUsage, Counts) {
        // The same addresses in every run: else one page more or less is touched.
        // SAFETY: a system call; the children of this thread inherit it.
        unsafe { libc::personality(NO_RANDOM_ADDRESSES) };
        let own = std::env::current_exe().expect("a program");
        let words: Vec<&str> = ["own", NAME].into_iter().chain(line.split(' ')).collect();
        self.run(&own, &words).expect("a run")
    }

    fn shell(&self, script: &str) -> Result<(ChildUsage, Counts), ChildError> {
        self.run(Path::new("/bin/sh"), &["sh", "-c", script])
    }

    fn written(&self) -> String {
        let (mut file, mut text) = (&self.output, String::new());
        file.rewind().expect("a file");
        file.read_to_string(&mut text).expect("text");
        text
    }
}

fn counts(line: &str) -> Counts {
    let (usage, counts) = CostFixture::new().work(line);
    assert!(usage.status.success(), "{line}: {}", usage.status);
    counts
}

/// What the first run has more of an operation than the second one.
fn more(some: &Counts, none: &Counts, operation: Operation) -> Tally {
    let of = |counts: &Counts| {
        let all = counts.operations.iter().filter(|((one, _), _)| *one == operation);
        all.fold([0, 0], |[count, size], (_, one)| [count + one.count, size + one.size])
    };
    let ([a, b], [c, d]) = (of(some), of(none));
    Tally { count: a - c, size: b - d, ..Tally::default() }
}

/// A file of so many bytes, with its folder.
fn file(bytes: usize) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    File::create(&path).and_then(|mut it| it.write_all(&vec![7; bytes])).expect("a file");
    let path = path.to_str().expect("text").to_owned();
    (folder, path)
}

#[test]
fn reads_and_writes_are_counted_by_size_and_place() {
    let (_folder, path) = file(1 << 20);
    let copy = format!("{path}-copy");
    for (work, operation, path) in [
        ("read", Operation::Read(Place::File), path.as_str()),
        ("read", Operation::Read(Place::Device), "/dev/zero"),
        ("write", Operation::Write(Place::File), copy.as_str()),
        ("write", Operation::Write(Place::Device), "/dev/null"),
    ] {
        for size in [1_usize, 512, 4096] {
            let none = counts(&format!("{work} 0 {size} {path}"));
            let some = counts(&format!("{work} 137 {size} {path}"));
            let expected = Tally { count: 137, size: 137 * size as u64, ..Tally::default() };
            assert_eq!(more(&some, &none, operation), expected, "{work} {size} {path}");
            let class = u64::BITS - (size as u64).leading_zeros();
            assert!(some.operations[&(operation, class)].count >= 137, "{work} {size} {path}");
            assert_eq!(some.calls[work] - none.calls.get(work).unwrap_or(&0), 137);
        }
    }
    let created = counts(&format!("write 1 1 {path}-new"));
    let again = counts(&format!("write 1 1 {path}"));
    assert_eq!(more(&created, &again, Operation::Create).count, 1);
    assert_eq!(more(&again, &created, Operation::Open).count, 1);
}

#[test]
fn pages_of_emptied_and_deleted_files_are_counted() {
    let dropped = |counts: &Counts| more(counts, &Counts::default(), Operation::Drop).count;
    let (_folder, path) = file(40 * 4096);
    let line = format!("write 3 4096 {path}");
    assert_eq!(dropped(&counts(&line)), 40, "emptied");
    assert_eq!(dropped(&counts(&line)), 3);
    let (folder, path) = file(7 * 4096);
    let shell = |script: &str| CostFixture::new().shell(script).expect("a run").1;
    let place = folder.path().display();
    assert_eq!(dropped(&shell(&format!("cd {place} && ln data other && rm other"))), 0);
    assert_eq!(dropped(&shell(&format!("cd {place} && rm data"))), 7);
    assert!(!Path::new(&path).exists());
}

#[test]
fn calls_threads_and_processes_are_counted() {
    let (_folder, path) = file(1);
    for (work, expected) in [
        ("open 61 0 /dev/null", vec![(Operation::Open, 61)]),
        ("open 61 0 /nonexistent", vec![(Operation::OpenFailed, 61)]),
        (&format!("stat 61 0 {path}"), vec![(Operation::Stat, 61)]),
        ("getppid 61", vec![(Operation::Entry, 61)]),
        ("thread 13", vec![(Operation::Thread, 13)]),
        ("fork 13", vec![(Operation::Fork, 13), (Operation::Vfork, 0)]),
        ("spawn 7", vec![(Operation::Vfork, 7), (Operation::Exec, 7), (Operation::Fork, 0)]),
        ("exec 7", vec![(Operation::Fork, 7), (Operation::Exec, 7)]),
        ("signal 21", vec![(Operation::SignalDelivery, 21)]),
    ] {
        let words: Vec<&str> = work.split(' ').collect();
        let rest = words[2..].iter().map(|word| format!(" {word}")).collect::<String>();
        let (some, none) = (counts(work), counts(&format!("{} 0{rest}", words[0])));
        for (operation, count) in expected {
            assert_eq!(more(&some, &none, operation).count, count, "{work} {operation:?}");
        }
    }
}

#[test]
fn forks_are_counted_by_resident_size() {
    let (small, large) = (counts("fork 5 0"), counts("fork 5 33554432"));
    let [small, large] = [small, large].map(|it| more(&it, &Counts::default(), Operation::Fork));
    assert_eq!((small.count, large.count), (5, 5));
    assert_eq!(large.size - small.size, 5 * (32 << 20));
}

#[test]
fn page_faults_are_counted_by_kind() {
    let (_folder, path) = file(300 * 4096);
    for (work, kind) in
        [("anonymous", FaultKind::Anonymous), ("cached", FaultKind::File), ("cow", FaultKind::Cow)]
    {
        let [few, many] = [100, 300].map(|count| counts(&format!("{work} {count} 0 {path}")));
        let operation = Operation::Fault(kind);
        assert_eq!(more(&many, &few, operation).count, 200, "{work}");
    }
    // Written by the parent, then by the child.
    let [few, many] = [100, 300].map(|count| counts(&format!("copy {count}")));
    for kind in [FaultKind::Anonymous, FaultKind::Cow] {
        assert_eq!(more(&many, &few, Operation::Fault(kind)).count, 200, "{kind:?}");
    }
}

#[test]
fn no_fault_is_lost_or_counted_twice() {
    for work in ["anonymous 500", "fork 3 1048576", "copy 50", "thread 5"] {
        let (usage, counts) = CostFixture::new().work(work);
        let of = |kind| more(&counts, &Counts::default(), Operation::Fault(kind)).count;
        let minor = [FaultKind::Anonymous, FaultKind::Huge, FaultKind::Cow, FaultKind::File];
        let minor = minor.map(of).iter().sum::<u64>();
        // Those of an exec itself are in its price: two programs begin.
        assert!(minor <= usage.minor_faults, "{work}: {minor} of {}", usage.minor_faults);
        assert!(usage.minor_faults - minor < 60, "{work}: {minor} of {}", usage.minor_faults);
        assert_eq!(of(FaultKind::Major), usage.major_faults, "{work}");
    }
}

#[test]
fn round_trips_and_waits_are_counted() {
    let (some, none) = (counts("pipe 40 100"), counts("pipe 0 100"));
    for operation in [Operation::Read(Place::Pipe), Operation::Write(Place::Pipe)] {
        assert_eq!(
            more(&some, &none, operation),
            Tally { count: 80, size: 8000, ..Tally::default() }
        );
    }
    let (some, none) = (counts("socket 40 100"), counts("socket 0 100"));
    for operation in [Operation::Read(Place::UnixSocket), Operation::Write(Place::UnixSocket)] {
        assert_eq!(
            more(&some, &none, operation),
            Tally { count: 40, size: 4000, ..Tally::default() }
        );
    }
    let sleeps = counts("sleep 12");
    let (count, ns) = sleeps.waits[&Wait::Sleep];
    // mood: a sleep of 1 ms takes no less, however busy the machine is
    assert!(count == 12 && ns >= 12_000_000, "{count} {ns}");
    assert_eq!(counts("fork 3").waits[&Wait::Child].0, 3);
}

#[test]
fn random_mixtures_are_counted_exactly() {
    let (_folder, path) = file(1 << 20);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(72);
    let mut below = |most: u64| 1 + random.next_u64() % most;
    for _ in 0..6 {
        let [reads, size, opens, forks, threads, trips] = [90, 4096, 50, 5, 6, 30].map(&mut below);
        let line = |[reads, opens, forks, threads, trips]: [u64; 5]| {
            format!(
                "read {reads} {size} {path} then open {opens} 0 /dev/null then fork {forks} \
                 then thread {threads} then pipe {trips} {size}"
            )
        };
        let some = counts(&line([reads, opens, forks, threads, trips]));
        let none = counts(&line([0; 5]));
        let of = |operation| more(&some, &none, operation);
        let sized = |count| Tally { count, size: count * size, ..Tally::default() };
        assert_eq!(of(Operation::Read(Place::File)), sized(reads));
        assert_eq!(of(Operation::Open).count, opens);
        assert_eq!(of(Operation::Fork).count, forks);
        assert_eq!(of(Operation::Thread).count, threads);
        assert_eq!(of(Operation::Read(Place::Pipe)), sized(2 * trips));
        assert_eq!(of(Operation::Write(Place::Pipe)), sized(2 * trips));
    }
}

#[test]
fn command_does_the_same_when_it_is_counted() {
    let status = |line: &str| CostFixture::new().work(line).0.status;
    assert_eq!(status("status 7").code(), Some(7));
    for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV] {
        assert_eq!(status(&format!("kill {signal}")).signal(), Some(signal));
    }
    assert!(status("stop").success(), "stopped, and continued");
    let mut input = tempfile::tempfile().expect("a file");
    input.write_all(b"in and out").and_then(|()| input.rewind()).expect("a file");
    let fixture = CostFixture { input, ..CostFixture::new() };
    fixture.work("echo");
    assert_eq!(fixture.written(), "in and out");
    let fixture = CostFixture::new();
    let script = "trap 'echo got' USR1; kill -USR1 $$; (echo a; echo b) | cat; exit 3";
    assert_eq!(fixture.shell(script).expect("a run").0.status.code(), Some(3));
    assert_eq!(fixture.written(), "got\na\nb\n");
}

#[test]
fn late_or_stopped_run_is_killed_with_all_it_started() {
    let fixture = CostFixture { limit_ns: 1, ..CostFixture::new() };
    let ended = fixture.shell("sleep 600 & sleep 600");
    assert!(matches!(ended, Err(ChildError::TimedOut(_))), "{ended:?}");
    let fixture = CostFixture { stop: AtomicBool::new(true), ..CostFixture::new() };
    let ended = fixture.shell("sleep 600");
    assert!(matches!(ended, Err(ChildError::Stopped)), "{ended:?}");
}

#[test]
fn what_a_counted_run_leaves_behind_is_killed() {
    let (end, held) = rustix::pipe::pipe().expect("a pipe");
    let fixture = CostFixture { output: File::from(held), ..CostFixture::new() };
    assert!(fixture.shell("sleep 600 & exit 0").expect("a run").0.status.success());
    drop(fixture);
    let mut rest = Vec::new();
    File::from(end).read_to_end(&mut rest).expect("its end");
    assert!(rest.is_empty());
}

#[test]
fn process_that_left_the_group_runs_on_without_a_tracer() {
    let (mut end, held) = std::io::pipe().expect("a pipe");
    let held: std::os::fd::OwnedFd = held.into();
    let fixture = CostFixture { output: File::from(held), ..CostFixture::new() };
    let (_folder, path) = file(0);
    // It writes only after the run has ended, and is not traced then.
    let script = format!(
        "setsid sh -c 'echo >{path}; while kill -0 '$$' 2>/dev/null; do :; done; \
         grep TracerPid /proc/self/status' & while [ ! -s {path} ]; do :; done; exit 0"
    );
    assert!(fixture.shell(&script).expect("a run").0.status.success());
    drop(fixture);
    let mut text = String::new();
    end.read_to_string(&mut text).expect("its end");
    assert_eq!(text, "TracerPid:\t0\n");
}

#[test]
fn program_that_does_not_start_is_an_error() {
    let ended = CostFixture::new().run(Path::new("/nonexistent/x"), &["x"]);
    match ended {
        Err(ChildError::Start(error)) => assert_eq!(error.raw_os_error(), Some(libc::ENOENT)),
        other => panic!("{other:?}"),
    }
}

/// In a thread of its own, with what is set for it alone.
fn refused(path: &Path, set: impl FnOnce() + Send) -> String {
    std::thread::scope(|scope| {
        let run = || {
            set();
            CostFixture::new().run(path, &["x"]).map(|(usage, _)| usage.status)
        };
        let ended = scope.spawn(run).join().expect("an end");
        ended.expect_err("it is refused").to_string()
    })
}

#[test]
fn forbidden_ptrace_is_one_line_with_a_remedy() {
    let text = refused(Path::new("/bin/true"), forbid_ptrace);
    let begin = "cannot be counted: ptrace is not permitted: ";
    assert!(text.starts_with(begin) && !text.contains('\n'), "{text}");
    assert!(text.contains("ptrace_scope") || text.contains("--cap-add SYS_PTRACE"), "{text}");
}

/// As a container does: ptrace(2) fails with EPERM in this thread.
fn forbid_ptrace() {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        step(LOAD, 0, 0, 0),
        step(IS, 0, 1, libc::SYS_ptrace as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter is of so many steps, and is copied.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
fn setuid_program_is_refused_before_it_runs() {
    use std::os::unix::fs::PermissionsExt as _;
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root to make a setuid program");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("true");
    std::fs::copy("/bin/true", &path).expect("a program");
    for (at, mode) in [(folder.path(), 0o755), (path.as_path(), 0o4755)] {
        std::fs::set_permissions(at, std::fs::Permissions::from_mode(mode)).expect("a mode");
    }
    const NOBODY: u32 = 65_534;
    let text = refused(&path, || {
        // SAFETY: of this thread alone, whose memory others may read as before.
        unsafe {
            assert_eq!(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY), 0);
            libc::prctl(libc::PR_SET_DUMPABLE, 1);
        }
    });
    assert!(text.contains("true is setuid or has capabilities"), "{text}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn program_of_32_bits_is_refused_by_name() {
    use std::os::unix::fs::PermissionsExt as _;
    // mov eax, 1 (exit); int 0x80: the interface of 32 bits, by a program of 64.
    let code = [0xb8, 1, 0, 0, 0, 0x31, 0xdb, 0xcd, 0x80];
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("old");
    std::fs::write(&path, elf(&code)).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a file");
    let text = match CostFixture::new().run(&path, &["old"]) {
        Err(error) => error.to_string(),
        Ok((usage, _)) => {
            assert_eq!(usage.status.signal(), Some(libc::SIGSEGV), "without that interface");
            return;
        }
    };
    assert!(text.starts_with("cannot be counted: ") && text.contains("32-bit"), "{text}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn service_with_32_bit_calls_is_refused_and_runs_on() {
    use std::os::unix::fs::PermissionsExt as _;
    // mov eax, 20 (getpid); int 0x80; again.
    let code = [0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7];
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("old");
    std::fs::write(&path, elf(&code)).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a file");
    let mut child = std::process::Command::new(&path).spawn().expect("it starts");
    let status = format!("/proc/{}/status", child.id());
    let is_free =
        || std::fs::read_to_string(&status).unwrap_or_default().contains("TracerPid:\t0\n");
    let counting = fathom_cost::Counting::attach(vec![child.id()], || 0);
    while counting.is_ok() && !is_free() && Path::new(&status).exists() {
        std::thread::yield_now();
    }
    let refused = counting.and_then(|it| it.end().map(drop));
    let runs_on = child.try_wait().expect("a child").is_none();
    let _ = child.kill().and_then(|()| child.wait());
    match refused {
        Err(why) if why.contains("32-bit") => assert!(runs_on, "{why}"),
        // Without that interface it ends by a signal.
        other => assert!(!runs_on, "{other:?}"),
    }
}

/// A static program of these instructions.
#[cfg(target_arch = "x86_64")]
fn elf(code: &[u8]) -> Vec<u8> {
    const AT: u64 = 0x40_0000;
    let mut all = b"\x7fELF\x02\x01\x01".to_vec();
    all.resize(16, 0);
    all.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for value in [AT + 120, 64, 0] {
        all.extend(u64::to_le_bytes(value));
    }
    all.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    all.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    let size = 120 + code.len() as u64;
    for value in [0, AT, AT, size, size, 4096] {
        all.extend(u64::to_le_bytes(value));
    }
    all.extend(code);
    all
}
