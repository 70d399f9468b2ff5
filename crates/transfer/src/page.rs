//! The fields of an entry of /proc/PID/pagemap (Linux Documentation/admin-guide/mm/pagemap.rst).

/// What the words mean.
pub const LEGEND: &str = "present: in memory; swapped: on swap; file: of a file or shared memory; \
    exclusive: mapped by one process only; soft-dirty: written since the mapping was made, or its \
    marks cleared; frame: number of the page in physical memory, 0 without CAP_SYS_ADMIN";

const FRAME_MASK: u64 = (1 << 55) - 1;

/// The fields that are set, and the frame.
pub fn words(entry: u64) -> String {
    let is = |bit: u32| entry >> bit & 1 == 1;
    if !is(63) {
        return if is(62) { "swapped" } else { "not present" }.to_owned();
    }
    let fields = [(61, "file"), (56, "exclusive"), (57, "write-protected"), (55, "soft-dirty")];
    let mut words = vec!["present".to_owned()];
    words.extend(fields.iter().filter(|(bit, _)| is(*bit)).map(|(_, word)| (*word).to_owned()));
    words.push(match entry & FRAME_MASK {
        0 => "frame hidden (needs CAP_SYS_ADMIN)".to_owned(),
        frame => format!("frame {frame:#x}"),
    });
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_named() {
        assert_eq!(words(0), "not present");
        assert_eq!(words(1 << 62 | 5), "swapped");
        let entry = 1 << 63 | 1 << 61 | 0x1234;
        assert_eq!(words(entry), "present, file, frame 0x1234");
        let hidden = 1 << 63 | 1 << 56 | 1 << 55;
        let expected = "present, exclusive, soft-dirty, frame hidden (needs CAP_SYS_ADMIN)";
        assert_eq!(words(hidden), expected);
    }
}
