//! I/O accounting of this process: `read_bytes` of /proc/self/io.

/// Bytes fetched from block devices so far, including readahead. `None` where the kernel does
/// not account for them.
pub fn read_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes:"))?;
    line.trim().parse().ok()
}

/// Bytes fetched since [`read_bytes`] returned `before`.
pub fn read_bytes_since(before: Option<u64>) -> Option<u64> {
    before.zip(read_bytes()).map(|(before, now)| now.saturating_sub(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_this_process() {
        let by_hand = || {
            let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
            let mut words = text.split_ascii_whitespace().skip_while(|it| *it != "read_bytes:");
            words.nth(1).and_then(|number| number.parse::<u64>().ok())
        };
        let (before, found, after) = (by_hand(), read_bytes(), by_hand());
        assert!(before <= found && found <= after, "{before:?} {found:?} {after:?}");
        assert_eq!(read_bytes_since(None), None);
        let long_ago = read_bytes().map(|_| 0);
        assert!(read_bytes_since(long_ago) >= found, "since the start");
        assert_eq!(read_bytes_since(found.map(|_| u64::MAX)), found.map(|_| 0));
    }
}
