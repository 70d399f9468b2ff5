//! Lists of CPUs: `0-3,8,10-11`.

use crate::tree::{FileTree, TreeFact};

/// Above any CPU number (`NR_CPUS` is at most 8192): a bound on memory for malformed lists.
const CPU_MAX: u32 = 65_535;

/// The CPUs listed in a file. `None` if empty.
pub(crate) fn read(tree: &FileTree, path: &str) -> Option<TreeFact<Vec<u32>>> {
    tree.value(path, parse).filter(|cpus| !cpus.value.is_empty())
}

/// The CPUs listed in a file, which may be none. The kernel writes `(null)` for a mask that it has
/// not made, such as `nohz_full` without that boot parameter.
pub(crate) fn read_any(tree: &FileTree, path: &str) -> Option<TreeFact<Vec<u32>>> {
    let text = String::from_utf8_lossy(&tree.bytes(path)?).into_owned();
    let list = if text.trim() == "(null)" { "" } else { text.as_str() };
    Some(TreeFact::new(parse(list)?, path))
}

/// The CPUs of a list, sorted and unique. `None` for malformed text.
pub(crate) fn parse(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().ok()?;
        let last: u32 = last.trim().parse().ok()?;
        if first > last || last > CPU_MAX {
            return None;
        }
        cpus.extend(first..=last);
        if cpus.len() > 2 * CPU_MAX as usize {
            return None;
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn ranges_and_single_cpus_are_read() {
        assert_eq!(parse("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(parse("5"), Some(vec![5]));
        assert_eq!(parse("2,0-2"), Some(vec![0, 1, 2]));
        assert_eq!(parse("\n"), Some(vec![]));
    }

    #[test]
    fn malformed_lists_are_rejected() {
        let junk = [
            "3-1",
            "-1",
            "65536",
            "0-4294967295",
            "0-99999999999",
            "a",
            "1-",
            "0x3",
            "0;1",
            "(null)",
        ];
        for text in junk {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&"0-65535,".repeat(1000)), None);
    }
}
