//! Files of a process in /proc.

use fathom_measure::host::HostReader;
use fathom_record::escaped;

/// What `stat` of a process or of a thread says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    pub name: String,
    pub state: char,
    pub parent: u32,
    /// CPU time of all its threads and of the children that it waited for, ended ones too.
    pub ticks: u64,
    /// In ticks since the system was started: a reused number has another one.
    pub start: u64,
}

impl Stat {
    /// Of a process; `None` if there is none.
    pub fn read(reader: &HostReader, process: u32) -> Option<Self> {
        Self::parse(&reader.text(&format!("/proc/{process}/stat"))?)
    }

    pub fn of_thread(reader: &HostReader, process: u32, thread: u32) -> Option<Self> {
        Self::parse(&reader.text(&format!("/proc/{process}/task/{thread}/stat"))?)
    }

    /// `1 (name) S 0 …`: a name may have spaces and parentheses, what follows may not.
    fn parse(text: &str) -> Option<Self> {
        let (before, rest) = text.rsplit_once(") ")?;
        let (_, name) = before.split_once('(')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        // utime, stime, cutime and cstime: proc_pid_stat(5).
        let times = [number(11)?, number(12)?, number(13)?, number(14)?];
        Some(Self {
            name: escaped(name),
            state: words.first()?.chars().next()?,
            parent: number(1)?.try_into().ok()?,
            ticks: times.into_iter().fold(0, u64::saturating_add),
            start: number(19)?,
        })
    }
}

/// CPU time of a thread, and the time that it was ready and did not run.
pub fn schedule(reader: &HostReader, process: u32, thread: u32) -> Option<[u64; 2]> {
    let text = reader.text(&format!("/proc/{process}/task/{thread}/schedstat"))?;
    let mut words = text.split_whitespace().map(|word| word.parse().ok());
    Some([words.next()??, words.next()??])
}

/// Bytes read from and written to devices by a process and the children that it waited for.
/// `None` without the right to know.
pub fn device_bytes(reader: &HostReader, process: u32) -> Option<[u64; 2]> {
    let text = reader.text(&format!("/proc/{process}/io"))?;
    let number =
        |key: &str| text.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok();
    Some([number("read_bytes:")?, number("write_bytes:")?])
}

pub fn resident_bytes(reader: &HostReader, process: u32) -> Option<u64> {
    let text = reader.text(&format!("/proc/{process}/statm"))?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

/// Numbers in a folder: processes in `/proc`, threads in `task`.
pub fn numbers(reader: &HostReader, folder: &str) -> Vec<u32> {
    reader.names(folder).iter().filter_map(|name| name.parse().ok()).collect()
}

pub fn threads(reader: &HostReader, process: u32) -> Vec<u32> {
    numbers(reader, &format!("/proc/{process}/task"))
}

/// The children of a thread.
pub fn children(reader: &HostReader, process: u32, thread: u32) -> Vec<u32> {
    let list = reader.text(&format!("/proc/{process}/task/{thread}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_spaces_and_parentheses() {
        let of = |name: &str| {
            let rest = "S 7 1 1 0 -1 0 10 0 0 0 100 20 3 4 20 0 1 0 5555 9 9";
            Stat::parse(&format!("12 ({name}) {rest}\n")).expect("a process")
        };
        let plain = of("nginx");
        assert_eq!((plain.parent, plain.state, plain.ticks, plain.start), (7, 'S', 127, 5555));
        for name in ["nginx", "a b", "(x)", "x) R 1 (", ")", ""] {
            assert_eq!(of(name), Stat { name: name.to_owned(), ..plain.clone() }, "{name}");
        }
        assert!(!of("\u{1b}[31m\nred").name.contains(['\u{1b}', '\n']), "no escapes of terminals");
    }

    #[test]
    fn malformed_files_are_no_process() {
        for text in ["", "1", "1 (a) S", "1 (a) S 1 1 1 0 -1 0 10 0 0 0 1 1 1 1 20 0 1 0 x", ") ("]
        {
            assert_eq!(Stat::parse(text), None, "{text}");
        }
        let most = u64::MAX;
        let text = format!("1 (a) S 1 1 1 0 -1 0 1 0 0 0 {most} {most} 1 1 20 0 1 0 5");
        assert_eq!(Stat::parse(&text).map(|it| it.ticks), Some(most));
    }

    #[test]
    fn counters_of_a_process_are_read_from_a_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let reader = HostReader::at(folder.path());
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            std::fs::write(path, text).expect("a file");
        };
        write("proc/7/task/8/schedstat", "123 45 6\n");
        write("proc/7/task/8/children", "9 10 ");
        write("proc/7/io", "rchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\n");
        write("proc/7/statm", "100 3 2 1 0 4 0\n");
        write("proc/7/task/x/stat", "");
        assert_eq!(schedule(&reader, 7, 8), Some([123, 45]));
        assert_eq!(schedule(&reader, 7, 9), None);
        assert_eq!(children(&reader, 7, 8), [9, 10]);
        assert_eq!(threads(&reader, 7), [8]);
        assert_eq!(device_bytes(&reader, 7), Some([4096, 8192]));
        assert_eq!(device_bytes(&reader, 8), None);
        let page = rustix::param::page_size() as u64;
        assert_eq!(resident_bytes(&reader, 7), Some(3 * page));
        write("proc/7/io", "read_bytes: -1\n");
        assert_eq!(device_bytes(&reader, 7), None);
    }
}
