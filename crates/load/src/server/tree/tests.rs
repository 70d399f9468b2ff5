//! Trees in folders like /proc.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use super::*;

/// A folder whose /proc has one thread a process.
struct TreeMachine(tempfile::TempDir);

/// A process, in ticks of 10 ms and ns.
#[derive(Clone, Copy)]
struct Canned {
    pid: u32,
    parent: u32,
    start: u64,
    /// Of itself, and of children that it waited for.
    ticks: [u64; 2],
    cpu_ns: u64,
    children: &'static str,
}

impl Canned {
    fn new(pid: u32, parent: u32, cpu_ns: u64, children: &'static str) -> Self {
        Self { pid, parent, start: 500, ticks: [cpu_ns / 10_000_000, 0], cpu_ns, children }
    }
}

impl TreeMachine {
    /// One that has been up for 10 s.
    fn new(all: &[Canned]) -> Self {
        let machine = Self(tempfile::tempdir().expect("a folder"));
        machine.write("uptime", "10.00 5.00\n");
        machine.set(all);
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join("proc").join(path)
    }

    fn set(&self, all: &[Canned]) {
        for it in all {
            let pid = it.pid;
            let [own, of_children] = it.ticks;
            let mut stat = format!("{pid} (a (b) c) S {} 1 1 0 -1 0 0 0 0 0 ", it.parent);
            let _ = writeln!(stat, "{own} 0 {of_children} 0 20 0 1 0 {} 0 0", it.start);
            self.write(&format!("{pid}/stat"), &stat);
            self.write(&format!("{pid}/statm"), "9 2 1 1 0 1 0\n");
            self.write(&format!("{pid}/io"), "read_bytes: 4096\nwrite_bytes: 0\n");
            self.write(&format!("{pid}/status"), "Cpus_allowed_list:\t0-1\n");
            let task = format!("{pid}/task/{pid}");
            self.write(&format!("{task}/stat"), &stat);
            self.write(&format!("{task}/schedstat"), &format!("{} 7 1\n", it.cpu_ns));
            self.write(&format!("{task}/children"), it.children);
        }
    }

    fn end(&self, pid: u32) {
        fs::remove_dir_all(self.path(&pid.to_string())).expect("it was there");
    }

    fn tree(&self, roots: &[u32]) -> Tree {
        Tree::at(HostReader::at(self.0.path()), roots, 99)
    }
}

const MS: u64 = 1_000_000;

/// nginx with two workers.
fn nginx(cpu_ns: [u64; 2]) -> Vec<Canned> {
    let [a, b] = cpu_ns;
    vec![Canned::new(10, 1, 0, "11 12 "), Canned::new(11, 10, a, ""), Canned::new(12, 10, b, "")]
}

fn cpu_ns(tree: &mut Tree) -> u64 {
    tree.read().expect("a tree").cpu_ns
}

#[test]
fn work_of_all_processes_counts_from_the_first_reading_on() {
    let machine = TreeMachine::new(&nginx([300 * MS, 400 * MS]));
    let mut tree = machine.tree(&[10]);
    assert_eq!(cpu_ns(&mut tree), 0);
    machine.set(&nginx([1_300 * MS + 5, 400 * MS]));
    let used = tree.read().expect("a tree");
    assert_eq!((used.cpu_ns, used.wait_ns, used.read_bytes), (1_000 * MS + 5, 0, Some(0)));
    assert_eq!(used.resident_bytes, 6 * rustix::param::page_size() as u64);
    assert_eq!((tree.cpus(), tree.first(), tree.contains(12)), (2, Some(10), true));
    assert_eq!(tree.words(), "a (b) c (PID 10 and 2 children)");
    assert_eq!(machine.tree(&[11]).words(), "a (b) c (PID 11)");
    assert_eq!(machine.tree(&[11, 12]).words(), "a (b) c (PIDs 11, 12)");
    let thread = |pid, cpu_ns| Task { id: (pid, pid), cpu_ns, wait_ns: 7 };
    assert_eq!(tree.tasks(), [thread(10, 0), thread(11, 1_300 * MS + 5), thread(12, 400 * MS)]);
}

#[test]
fn worker_that_ends_between_readings_is_in_the_time_of_its_parent() {
    let machine = TreeMachine::new(&nginx([300 * MS, 400 * MS]));
    let mut tree = machine.tree(&[10]);
    machine.set(&nginx([800 * MS, 400 * MS]));
    assert_eq!(cpu_ns(&mut tree), 500 * MS);
    // It used 1 s more, ended, and was waited for; a new one has used 200 ms.
    machine.end(11);
    let parent = Canned { ticks: [0, 180], children: "12 13 ", ..Canned::new(10, 1, 0, "") };
    let new = Canned { start: 1_200, ..Canned::new(13, 10, 200 * MS, "") };
    machine.set(&[parent, new]);
    let found = cpu_ns(&mut tree);
    // 1 s less what ticks may have cut, of three processes.
    assert_eq!(found, (500 + 200 + 1_000 - 60) * MS);
    assert!(tree.contains(13) && !tree.contains(11));
    // No time is counted twice, and none is taken back.
    assert_eq!(cpu_ns(&mut tree), found);
}

#[test]
fn reused_number_is_another_process() {
    let machine = TreeMachine::new(&nginx([300 * MS, 400 * MS]));
    let mut tree = machine.tree(&[10]);
    let other = Canned { start: 2_000, parent: 1, ..Canned::new(12, 1, 900 * MS, "") };
    machine.set(&[Canned::new(10, 1, 0, "11 "), other]);
    assert_eq!(cpu_ns(&mut tree), 0);
    assert!(!tree.contains(12));
    // As a child it is a worker that was started anew.
    machine.set(&[Canned::new(10, 1, 0, "11 12 "), Canned { parent: 10, ..other }]);
    assert_eq!(cpu_ns(&mut tree), 900 * MS);
    // A process that nobody waits for has ended, too.
    let mut unwaited = machine.tree(&[11]);
    machine.write("11/stat", "11 (a) Z 10 1 1 0 -1 0 0 0 0 0 30 0 0 0 20 0 1 0 500 0\n");
    assert_eq!((unwaited.read(), unwaited.first()), (None, None));
    // Of a root nothing is left.
    let mut alone = machine.tree(&[12]);
    machine.set(&[Canned { start: 3_000, ..other }]);
    assert_eq!(alone.read(), None);
    assert_eq!(alone.read(), None, "and it does not come back");
}

#[test]
fn child_whose_parent_ends_stays() {
    let machine = TreeMachine::new(&nginx([300 * MS, 400 * MS]));
    let mut tree = machine.tree(&[10]);
    machine.end(10);
    machine.set(&[Canned::new(11, 1, 600 * MS, "")]);
    assert_eq!(cpu_ns(&mut tree), 300 * MS);
    assert_eq!(tree.first(), Some(11));
}

#[test]
fn this_program_is_not_of_the_tree() {
    let own =
        [Canned::new(10, 1, 0, "99 "), Canned::new(99, 10, 0, "100 "), Canned::new(100, 99, 0, "")];
    let tree = TreeMachine::new(&own).tree(&[10]);
    assert_eq!(tree.processes().collect::<Vec<_>>(), [10]);
}

#[test]
fn unreadable_bytes_are_unknown_and_not_zero() {
    let machine = TreeMachine::new(&nginx([0, 0]));
    let mut tree = machine.tree(&[10]);
    machine.write("12/io", "read_bytes: 9096\nwrite_bytes: 100\n");
    let used = tree.read().expect("a tree");
    assert_eq!((used.read_bytes, used.device_bytes), (Some(5_000), Some(5_100)));
    fs::remove_file(machine.path("11/io")).expect("a file");
    let used = tree.read().expect("a tree");
    assert_eq!((used.read_bytes, used.device_bytes), (None, None));
}

#[test]
fn blocked_thread_is_seen() {
    let machine = TreeMachine::new(&nginx([0, 0]));
    let tree = machine.tree(&[10]);
    assert!(!tree.is_blocked());
    machine.write("12/task/12/stat", "12 (D) D 10 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 5 0\n");
    assert!(tree.is_blocked());
    machine.end(12);
    assert!(!tree.is_blocked());
}
