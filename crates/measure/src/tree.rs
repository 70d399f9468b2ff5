//! Reads of `/proc`, `/sys` and a few other files, below a root that tests can choose.
//!
//! Every read is bounded. A file that is missing, unreadable, empty or too long is `None`. A
//! [`Fact`] is a value with the name of its file.
//!
//! Not with the `procfs` crate (0.18): its parsers return a whole file or an error, so that one
//! unknown line would lose every fact in it; truncated lines make three of them panic (`meminfo`,
//! `limits`, `pressure`); and it numbers the CPUs of `/proc/stat` by their order.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::str::FromStr;

/// Enough for every file: `/proc/cpuinfo` of 8192 CPUs has about 16 MiB.
pub(crate) const FILE_BYTES_MAX: usize = 64 << 20;

const ENTRIES_MAX: usize = 1 << 16;

/// A value and its source.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TreeFact<T> {
    pub(crate) value: T,
    pub(crate) origin: String,
}

impl<T> TreeFact<T> {
    pub(crate) fn new(value: T, origin: impl Into<String>) -> Self {
        Self { value, origin: origin.into() }
    }

    pub(crate) fn unless_empty(value: T, origin: impl Into<String>) -> Option<Self>
    where
        T: Default + PartialEq,
    {
        (value != T::default()).then(|| Self::new(value, origin))
    }

    pub(crate) fn map<U>(self, read: impl FnOnce(T) -> U) -> TreeFact<U> {
        TreeFact { value: read(self.value), origin: self.origin }
    }

    pub(crate) fn and_then<U>(self, read: impl FnOnce(T) -> Option<U>) -> Option<TreeFact<U>> {
        Some(TreeFact { value: read(self.value)?, origin: self.origin })
    }
}

/// Sets a field of a `Host` or a `Condition` to a fact, and its origin under the path of the field.
/// An absent fact changes nothing.
macro_rules! keep {
    ($facts:ident.$first:ident$(.$rest:ident)*, $fact:expr) => {
        if let Some(fact) = $fact {
            $facts.origin(concat!(stringify!($first) $(, ".", stringify!($rest))*), fact.origin);
            $facts.$first$(.$rest)* = fact.value.into();
        }
    };
}
pub(crate) use keep;

/// Files below a root, by their paths on a live machine: `/proc/meminfo`.
#[derive(Clone, Debug)]
pub(crate) struct FileTree {
    root: PathBuf,
}

impl FileTree {
    pub(crate) fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub(crate) fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.place(path).exists()
    }

    pub(crate) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let place = self.place(path);
        // Reading a pipe or a device could block.
        if !place.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        let limit = FILE_BYTES_MAX as u64 + 1;
        File::open(place).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
        // A part of a list would be another fact.
        (bytes.len() <= FILE_BYTES_MAX).then_some(bytes)
    }

    /// The complete text of a file.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let text = String::from_utf8_lossy(&self.bytes(path)?).into_owned();
        (!text.trim().is_empty()).then_some(text)
    }

    /// The trimmed text of a file with one value. Control characters become spaces, because devices
    /// may supply the text and it is printed on terminals.
    pub(crate) fn line(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let clean = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        let clean = clean.replace(|c: char| c.is_control(), " ");
        (!clean.is_empty()).then_some(clean)
    }

    /// [`Tree::line`] with its origin.
    pub(crate) fn fact(&self, path: &str) -> Option<TreeFact<String>> {
        Some(TreeFact::new(self.line(path)?, path))
    }

    /// A file with one value, parsed by `read`, with its origin.
    pub(crate) fn value<T>(
        &self,
        path: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<TreeFact<T>> {
        self.fact(path)?.and_then(|text| read(&text))
    }

    /// [`Tree::parsed`] with its origin.
    pub(crate) fn number<T: FromStr>(&self, path: &str) -> Option<TreeFact<T>> {
        self.value(path, |text| text.parse().ok())
    }

    /// The target of a symlink.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        std::fs::read_link(self.place(path)).ok()?.into_os_string().into_string().ok()
    }

    /// A file with one value, parsed.
    pub(crate) fn parsed<T: FromStr>(&self, path: &str) -> Option<T> {
        self.line(path)?.parse().ok()
    }

    /// The sorted names in a directory. Empty if it cannot be read.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.place(path)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .take(ENTRIES_MAX)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }
}

/// The trimmed rest of the first line that begins with `key`, which includes its separator:
/// `MemTotal:`, `nr_throttled `.
pub(crate) fn after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

/// The driver of the device in a folder of sysfs.
pub(crate) fn driver(tree: &FileTree, device: &str) -> Option<String> {
    let text = tree.text(&format!("{device}/uevent"))?;
    let name = after(&text, "DRIVER=")?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// A boolean: digits, or letters for module parameters.
pub(crate) fn flag(text: &str) -> Option<bool> {
    match text {
        "1" | "Y" => Some(true),
        "0" | "N" => Some(false),
        _ => None,
    }
}

/// The word in brackets, as in `always [madvise] never`, or a single word.
pub(crate) fn bracketed(text: &str) -> Option<String> {
    let chosen = match text.split_once('[') {
        Some((_, rest)) => rest.split_once(']')?.0,
        None if text.split_whitespace().count() == 1 => text,
        None => return None,
    };
    let chosen = chosen.trim();
    (!chosen.is_empty()).then(|| chosen.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_word_is_in_brackets_or_alone() {
        assert_eq!(bracketed("always [madvise] never"), Some("madvise".to_owned()));
        assert_eq!(bracketed("none\n"), Some("none".to_owned()));
        assert_eq!(bracketed("always madvise never"), None);
        assert_eq!(bracketed("always [madvise"), None);
        assert_eq!(bracketed("[]"), None);
    }

    #[test]
    fn key_is_matched_at_the_start_of_a_line() {
        let text = "x nr_throttled 1\nnr_throttled_more 5\nnr_throttled 4 \nnr_throttled 6";
        assert_eq!(after(text, "nr_throttled "), Some("4"));
        assert_eq!(after("nr_throttled_more 5", "nr_throttled "), None);
        assert_eq!(after("Uid:\t1000\t0\n", "Uid:"), Some("1000\t0"));
    }

    #[test]
    fn part_of_a_file_is_no_fact() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("stat")).unwrap();
        let bytes = |len: usize| {
            file.set_len(len as u64).unwrap();
            FileTree::at(dir.path()).bytes("/stat").map(|bytes| bytes.len())
        };
        assert_eq!(bytes(FILE_BYTES_MAX), Some(FILE_BYTES_MAX));
        assert_eq!(bytes(FILE_BYTES_MAX + 1), None);
    }

    #[test]
    fn control_characters_of_devices_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("model"), b"EVIL\x1b[31mDISK\0\0 \n").unwrap();
        let tree = FileTree::at(dir.path());
        assert_eq!(tree.line("/model"), Some("EVIL [31mDISK".to_owned()));
        assert_eq!(tree.line("/absent"), None);
        assert_eq!(tree.names("/absent"), Vec::<String>::new());
    }
}
