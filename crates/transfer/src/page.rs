//! What is known of a page behind a mapping, in words: by its page-table entry (Intel 64 and IA-32
//! Architectures Software Developer's Manual, volume 3, chapter 5), or by its entry of
//! /proc/PID/pagemap (Linux Documentation/admin-guide/mm/pagemap.rst).

use fathom_paths::Page;
use fathom_paths::device::{TableEntry, flag};
use fathom_record::Unit;
use fathom_record::quantity::quantity;

const PAGEMAP_LEGEND: &str = "present: in memory; swapped: on swap; file: of a file or shared \
    memory; exclusive: mapped by one process only; soft-dirty: written since the mapping was made, \
    or its marks cleared; frame: number of the page in physical memory, 0 without CAP_SYS_ADMIN";
const TABLE_LEGEND: &str = "page-table entry as in memory; user: of user space; accessed, dirty: \
    read or written by the CPU; frame: number of the page in physical memory, 0 in the entry \
    without CAP_SYS_ADMIN";

const PAGEMAP_FRAME_MASK: u64 = (1 << 55) - 1;
/// Bits 12 to 51 of an entry, of x86.
const TABLE_FRAME_MASK: u64 = 0x000f_ffff_ffff_f000;
const PAGE_SHIFT: u32 = 12;
const USER: u64 = 1 << 2;
const NO_EXECUTE: u64 = 1 << 63;
const HIDDEN: &str = "frame hidden (needs CAP_SYS_ADMIN)";

/// The raw entry.
pub fn entry(page: Page) -> String {
    match page {
        Page::Pagemap(entry) | Page::Table(TableEntry { entry, .. }) => format!("{entry:#018x}"),
    }
}

/// What the words mean.
pub fn legend(page: Page) -> &'static str {
    match page {
        Page::Pagemap(_) => PAGEMAP_LEGEND,
        Page::Table(_) => TABLE_LEGEND,
    }
}

/// The fields that are set, and the frame.
pub fn words(page: Page) -> String {
    match page {
        Page::Pagemap(entry) => of_pagemap(entry),
        Page::Table(entry) => of_table(entry),
    }
}

fn of_pagemap(entry: u64) -> String {
    let is = |bit: u32| entry >> bit & 1 == 1;
    if !is(63) {
        return if is(62) { "swapped" } else { "not present" }.to_owned();
    }
    let fields = [(61, "file"), (56, "exclusive"), (57, "write-protected"), (55, "soft-dirty")];
    let mut words = vec!["present".to_owned()];
    words.extend(fields.iter().filter(|(bit, _)| is(*bit)).map(|(_, word)| (*word).to_owned()));
    words.push(match entry & PAGEMAP_FRAME_MASK {
        0 => HIDDEN.to_owned(),
        frame => format!("frame {frame:#x}"),
    });
    words.join(", ")
}

fn of_table(TableEntry { entry, page_bytes, flags }: TableEntry) -> String {
    if flags & flag::PRESENT == 0 {
        return "not present".to_owned();
    }
    let fields = [
        (flags & flag::WRITE != 0, "writable"),
        (entry & USER != 0, "user"),
        (flags & flag::ACCESSED != 0, "accessed"),
        (flags & flag::DIRTY != 0, "dirty"),
        (entry & NO_EXECUTE != 0, "no-execute"),
    ];
    let mut words = vec!["present".to_owned()];
    words.extend(fields.iter().filter(|(is, _)| *is).map(|(_, word)| (*word).to_owned()));
    if page_bytes > 1 << PAGE_SHIFT {
        words.push(format!("page of {}", quantity(page_bytes as f64, Unit::Bytes)));
    }
    words.push(match flags & flag::FRAME {
        0 => HIDDEN.to_owned(),
        // The lowest bit of a large page's frame is one of its attributes.
        _ => {
            let frame = (entry & TABLE_FRAME_MASK & !(page_bytes.max(1) - 1)) >> PAGE_SHIFT;
            format!("frame {frame:#x}")
        }
    });
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_pagemap_are_named() {
        let words = |entry| words(Page::Pagemap(entry));
        assert_eq!(words(0), "not present");
        assert_eq!(words(1 << 62 | 5), "swapped");
        let entry = 1 << 63 | 1 << 61 | 0x1234;
        assert_eq!(words(entry), "present, file, frame 0x1234");
        let hidden = 1 << 63 | 1 << 56 | 1 << 55;
        let expected = "present, exclusive, soft-dirty, frame hidden (needs CAP_SYS_ADMIN)";
        assert_eq!(words(hidden), expected);
    }

    #[test]
    fn fields_of_a_page_table_entry_are_named() {
        use flag::{ACCESSED, DIRTY, FRAME, LEAF, MAPPED, PRESENT, WRITE};
        let found = MAPPED | LEAF | PRESENT | ACCESSED;
        let of = |entry, page_bytes, flags| {
            let page = Page::Table(TableEntry { entry, page_bytes, flags });
            (super::entry(page), words(page))
        };
        let (entry, text) = of(0x8000_0001_2345_6067, 4096, found | WRITE | DIRTY | FRAME);
        assert_eq!(entry, "0x8000000123456067");
        let expected = "present, writable, user, accessed, dirty, no-execute, frame 0x123456";
        assert_eq!(text, expected);
        let (_, text) = of(0x0000_0000_0000_0025, 4096, found);
        assert_eq!(text, "present, user, accessed, frame hidden (needs CAP_SYS_ADMIN)");
        let (_, text) = of(0x0000_0001_0020_10a5, 2 << 20, found | FRAME);
        assert_eq!(text, "present, user, accessed, page of 2 MiB, frame 0x100200");
        assert_eq!(of(0, 4096, MAPPED).1, "not present");
    }

    /// A far end without the devices has a number, as it had before there were any.
    #[test]
    fn entries_of_both_kinds_travel() {
        for page in [Page::Pagemap(7), Page::Table(TableEntry { entry: 7, ..Default::default() })] {
            let text = serde_json::to_string(&page).unwrap();
            assert_eq!(text == "7", page == Page::Pagemap(7));
            assert_eq!(serde_json::from_str::<Page>(&text).unwrap(), page);
        }
    }
}
