//! Descendants of a process, by the kernel's lists of children.

/// The children of all threads of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|one| std::fs::read_to_string(one.path().join("children")).ok());
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
