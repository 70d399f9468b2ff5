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
