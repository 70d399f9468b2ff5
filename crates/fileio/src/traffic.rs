//! What this process had devices do for it, by the kernel's own count.

/// Bytes that this process has had fetched from devices so far, readahead included; none where
/// the kernel does not say.
pub fn fetched() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes:"))?;
    line.trim().parse().ok()
}

/// Bytes that it has had fetched since [`fetched`] gave this.
pub fn since(then: Option<u64>) -> Option<u64> {
    then.zip(fetched()).map(|(then, now)| now.saturating_sub(then))
}
