//! Page faults of a process by kind: the kernel counts minor and major ones; the pages that are
//! resident at the end of an address space say what the minor ones were for.

use std::fs;

use libc::pid_t;
use rustix::param::page_size;

use super::count::FaultKind;

/// Pages that a fault of a cached file brings, at most.
const AROUND: u64 = 16;
/// Of the fewest faults for its pages, so many were measured in small programs, whose other faults
/// are known.
const AROUND_LOSS: f64 = 1.5;

/// The pages of an address space, and the faults of its process so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pages {
    /// Without huge ones.
    pub(super) anonymous: u64,
    /// Anonymous pages of private mappings of files.
    pub(super) copied: u64,
    pub(super) file: u64,
    /// The fewest faults that bring those of files: a fault brings up to 16 of a mapping.
    pub(super) file_faults: u64,
    /// Huge pages.
    pub(super) huge: u64,
    /// Small anonymous and copied ones that no other process shares.
    pub(super) own: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults {
    pub(super) minor: u64,
    pub(super) major: u64,
}

impl Faults {
    /// Of all threads of a process, by one of them.
    pub(super) fn read(thread: pid_t) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{thread}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // After the name, which may have spaces and brackets.
        let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(7);
        let minor = fields.next()?.parse().ok()?;
        let major = fields.nth(1)?.parse().ok()?;
        Some(Self { minor, major })
    }
}

impl Pages {
    /// Small pages of its own that an address space has more than before.
    pub(super) fn since(self, before: Self) -> u64 {
        (self.anonymous + self.copied).saturating_sub(before.anonymous + before.copied)
    }

    pub(super) fn read(thread: pid_t) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{thread}/smaps")).ok()?;
        Some(Self::parse(&text, page_size() as u64))
    }

    fn parse(text: &str, page: u64) -> Self {
        let (mut all, mut is_file, mut huge_bytes) = (Self::default(), false, 0);
        let (mut resident, mut anonymous, mut private) = (0, 0, 0);
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let first = words.next().unwrap_or_default();
            let mut kilobytes = || words.next().and_then(|it| it.parse::<u64>().ok()).unwrap_or(0);
            match first {
                "Rss:" => resident = kilobytes() << 10,
                "Private_Dirty:" => private = kilobytes() << 10,
                "Anonymous:" => {
                    anonymous = kilobytes() << 10;
                    let file = resident.saturating_sub(anonymous) / page;
                    all.file += file;
                    all.file_faults += file.div_ceil(AROUND);
                    all.copied += if is_file { anonymous / page } else { 0 };
                }
                "AnonHugePages:" => {
                    let huge = kilobytes() << 10;
                    huge_bytes += huge;
                    let small = if is_file { 0 } else { anonymous.saturating_sub(huge) };
                    all.anonymous += small / page;
                    all.own += private.min(anonymous).saturating_sub(huge) / page;
                }
                // The head of a mapping: its fifth word is the file.
                _ if !first.ends_with(':') => is_file = words.nth(3) != Some("0"),
                _ => {}
            }
        }
        // A page table of entries of 8 bytes: 2 MiB of pages of 4 KiB.
        all.huge = huge_bytes / (page * page / 8);
        all
    }
}

/// An address space: what it began with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AddressSpace {
    pub(super) pages: Pages,
    pub(super) faults: Faults,
    /// Whether its pages are shared with a parent until they are written.
    pub(super) is_forked: bool,
}

impl AddressSpace {
    /// Its faults by kind, with the pages that those of files brought, by what is resident at its
    /// end. A page that is resident was faulted in once; a fault of a cached file brings several.
    /// The rest are pages that are no longer resident, or of a forked process copies of its
    /// parent's; the second part of the result says how many anonymous ones these are.
    pub(super) fn faults(&self, end: Pages, faults: Faults) -> ([(FaultKind, u64, u64); 5], u64) {
        let major = faults.major.saturating_sub(self.faults.major);
        let minor = faults.minor.saturating_sub(self.faults.minor);
        let mut rest = minor;
        let mut take = |most: u64| {
            let taken = rest.min(most);
            rest -= taken;
            taken
        };
        let grown = |of: fn(Pages) -> u64| of(end).saturating_sub(of(self.pages));
        let huge = take(grown(|it| it.huge));
        let copied = take(grown(|it| it.copied));
        let anonymous = take(grown(|it| it.anonymous));
        // What was the parent's and is no longer shared was copied.
        let inherited = match self.is_forked {
            true => take(end.own.saturating_sub(copied + anonymous)),
            false => 0,
        };
        // A major fault brought a page, too.
        let most = grown(|it| it.file).saturating_sub(major);
        let likely = (AROUND_LOSS * grown(|it| it.file_faults) as f64) as u64;
        let file = take(most.min(likely));
        let [more_anonymous, more_copied] = if self.is_forked { [0, rest] } else { [rest, 0] };
        let all = [
            (FaultKind::Anonymous, anonymous + more_anonymous, 0),
            (FaultKind::Huge, huge, 0),
            (FaultKind::Cow, copied + inherited + more_copied, 0),
            (FaultKind::File, file, most),
            (FaultKind::Major, major, 0),
        ];
        (all, more_anonymous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
55d0-55d1 r-xp 00000000 fe:00 1234    /usr/bin/a b: c
Size:                 16 kB
Rss:                  12 kB
Private_Dirty:         4 kB
Anonymous:             4 kB
AnonHugePages:         0 kB
7f00-7f10 rw-p 00000000 00:00 0
Rss:                2072 kB
Private_Dirty:      2060 kB
Anonymous:          2072 kB
AnonHugePages:      2048 kB
VmFlags: rd wr
";

    #[test]
    fn pages_are_parsed_by_kind() {
        let expected = Pages { anonymous: 6, copied: 1, file: 2, file_faults: 1, huge: 1, own: 4 };
        assert_eq!(Pages::parse(SMAPS, 4096), expected);
        let text = "7 (a) b) S 1 7 7 0 -1 4194304 123 9 45 8 0 0";
        assert_eq!(Faults::parse(text), Some(Faults { minor: 123, major: 45 }));
    }

    #[test]
    fn faults_are_divided_and_none_is_lost() {
        let start = AddressSpace {
            pages: Pages { anonymous: 5, ..Pages::default() },
            faults: Faults { minor: 100, major: 1 },
            is_forked: false,
        };
        let end = Pages { anonymous: 25, copied: 4, file: 160, file_faults: 40, huge: 2, own: 31 };
        let of = |minor: u64, start: AddressSpace| {
            start.faults(end, Faults { minor: 100 + minor, major: 4 }).0.map(|(_, count, _)| count)
        };
        // 20 anonymous, 2 huge, 4 copied: 10 are left for 160 pages of files.
        assert_eq!(of(36, start), [20, 2, 4, 10, 3]);
        // More than those need: some pages were freed.
        assert_eq!(of(200, start), [20 + 114, 2, 4, 60, 3]);
        let forked = AddressSpace { is_forked: true, ..start };
        assert_eq!(of(200, forked), [20, 2, 4 + 7 + 107, 60, 3]);
        assert_eq!(of(40, forked), [20, 2, 4 + 7, 7, 3], "31 pages are its own");
        assert_eq!(of(1, start), [0, 1, 0, 0, 3]);
    }
}
