//! Descendants of a process, by the kernel's lists of children, and how long they waited.

use crate::disturbance::Scheduler;

/// A file of each thread of a process.
fn of_threads(pid: u32, name: &str) -> impl Iterator<Item = String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(move |one| std::fs::read_to_string(one.path().join(name)).ok())
}

/// The children of all threads of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let lists = of_threads(pid, "children");
    let numbers = |list: String| -> Vec<u32> {
        list.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    lists.flat_map(numbers).collect()
}

/// Children, their children, and so on.
pub fn descendants(pid: u32) -> Vec<u32> {
    let own = children(pid).into_iter();
    own.flat_map(|child| std::iter::once(child).chain(descendants(child))).collect()
}

/// The run-queue delay of all threads of a process and of its descendants: those that work by turns
/// wait one after another.
pub fn run_queue_ns(pid: u32) -> u64 {
    let all = std::iter::once(pid).chain(descendants(pid));
    let texts = all.flat_map(|pid| of_threads(pid, "schedstat"));
    texts.filter_map(|text| Some(Scheduler::parse(&text)?.waited_ns)).sum()
}
