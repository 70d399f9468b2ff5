//! Services of known counts: cat(1) reads and writes once for each line that it is sent.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicU64;

use super::super::count::{Operation, Place, Tally};
use super::*;

struct LineService {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl LineService {
    fn start(program: &str, words: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let mut service = Self { child, to: to.unwrap(), from: BufReader::new(from.unwrap()) };
        service.answers(1);
        service
    }

    /// Makes requests, one after the other.
    fn answers(&mut self, count: usize) {
        for _ in 0..count {
            let mut line = String::new();
            self.to.write_all(b"a line\n").expect("it reads");
            assert!(self.from.read_line(&mut line).expect("it answers") > 0);
        }
    }

    /// Counts from here on.
    fn counting(&self) -> Counting {
        let begun = Arc::new(AtomicU64::new(0));
        let reads = Arc::clone(&begun);
        let completed = move || reads.fetch_add(1, Ordering::Release);
        let counting = Counting::attach(vec![self.child.id()], completed).expect("a tracer");
        counting.begin();
        until(|| {
            counting.wake();
            begun.load(Ordering::Acquire) > 0
        });
        counting
    }

    fn status(&self, field: &str) -> String {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("one");
        let line = text.lines().find_map(|line| line.strip_prefix(field)).expect("a field");
        line.trim().to_owned()
    }

    fn assert_free(&mut self) {
        assert_eq!(self.status("TracerPid:"), "0");
        self.answers(3);
    }
}

impl Drop for LineService {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

fn tally(counts: &Counts, operation: Operation) -> Tally {
    let all = counts.operations.iter().filter(|((one, _), _)| *one == operation);
    all.fold(Tally::default(), |sum, (_, one)| Tally {
        count: sum.count + one.count,
        size: sum.size + one.size,
        ..sum
    })
}

#[test]
fn operations_of_a_running_service_are_counted_exactly() {
    let mut cat = LineService::start("cat", &[]);
    for requests in [0, 1, 57] {
        let counting = cat.counting();
        cat.answers(requests);
        // It has answered before its call has ended.
        until(|| cat.status("State:").starts_with('S'));
        let counted = counting.end().expect("counts");
        let expected =
            Tally { count: requests as u64, size: 7 * requests as u64, ..Tally::default() };
        for operation in [Operation::Read(Place::Pipe), Operation::Write(Place::Pipe)] {
            assert_eq!(tally(&counted.counts, operation), expected, "{:?}", counted.counts);
        }
        assert_eq!(counted.completed, 1, "what was completed is read at both ends");
        cat.assert_free();
    }
}

#[test]
fn processes_that_a_service_starts_are_counted() {
    let script = "while read line; do /bin/true; echo $line; done";
    let mut shell = LineService::start("sh", &["-c", script]);
    let counting = shell.counting();
    shell.answers(9);
    until(|| shell.status("State:").starts_with('S'));
    let counts = counting.end().expect("counts").counts;
    let forks = [Operation::Fork, Operation::Vfork].map(|it| counts.number(it));
    assert_eq!((forks.iter().sum::<u64>(), counts.number(Operation::Exec)), (9, 9), "{counts:?}");
    shell.assert_free();
}

#[test]
fn service_that_ends_is_an_error_and_no_wait() {
    let mut cat = LineService::start("cat", &[]);
    let counting = cat.counting();
    cat.child.kill().expect("it runs");
    until(|| is_dead(cat.child.id() as pid_t));
    assert_eq!(counting.end().map(drop), Err("it has ended".to_owned()));
    let again = Counting::attach(vec![cat.child.id()], || 0).map(drop);
    assert_eq!(again, Err("it has ended".to_owned()));
}

#[test]
fn stopped_service_stays_stopped_until_it_is_continued() {
    let mut cat = LineService::start("cat", &[]);
    let counting = cat.counting();
    let signal = |signal| {
        // SAFETY: sends a signal to a child.
        unsafe { libc::kill(cat.child.id() as pid_t, signal) };
    };
    signal(libc::SIGSTOP);
    until(|| cat.status("State:").starts_with(['t', 'T']));
    drop(counting);
    until(|| cat.status("State:").starts_with('T'));
    signal(libc::SIGCONT);
    cat.assert_free();
}

#[test]
fn only_one_tracer_is_possible_and_the_other_is_named() {
    let mut cat = LineService::start("cat", &[]);
    let counting = cat.counting();
    let process = cat.child.id();
    let expected = format!(
        "ptrace is not permitted: PID {} traces PID {process} already; end that first",
        cat.status("TracerPid:")
    );
    assert_eq!(check_service(&[process]).unwrap_err(), expected);
    assert_eq!(Counting::attach(vec![process], || 0).map(drop).unwrap_err(), expected);
    drop(counting);
    assert_eq!(check_service(&[process]), Ok(()));
    until(|| cat.status("TracerPid:") == "0");
    cat.assert_free();
}

#[test]
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
fn service_of_another_user_is_refused_with_a_remedy() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root to be another user");
        return;
    }
    const NOBODY: u32 = 65_534;
    let mut cat = LineService::start("cat", &[]);
    let process = cat.child.id();
    let refused = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            // SAFETY: of this thread alone, and of those that it starts.
            let set = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
            assert_eq!(set, 0);
            check_service(&[process]).unwrap_err()
        });
        other.join().expect("an answer")
    });
    let expected = format!("PID {process} is another user's; run this as root");
    assert!(refused.ends_with(&expected), "{refused}");
    cat.assert_free();
}
